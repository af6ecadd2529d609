"""`chimera resume`: go on with a run that was interrupted, hit a limit or has more to do."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated

import typer

from chimera.cli import options
from chimera.cli.options import LIMITS, SAFETY
from chimera.cli.output import Output
from chimera.cli.run import show_run
from chimera.config import Mode, SandboxLevel

_RUN_ID = re.compile(r"\d{8}(-\w*)*")


def resume(  # noqa: PLR0913, PLR0917  (a command has the options it has)
    ctx: typer.Context,
    run: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="Its id or the beginning of it [the last one of this folder]."),
    ] = None,
    message: Annotated[str | None, typer.Argument(metavar="[MESSAGE]", help="What you want to add.")] = None,
    model: options.Model = None,
    api_base: options.ApiBase = None,
    adapter: options.Adapter = None,
    model_option: options.ModelOption = None,
    window: options.Window = None,
    verify: options.Verify = None,
    max_steps: Annotated[
        int | None, typer.Option(metavar="N", help="Further model calls at most.", rich_help_panel=LIMITS)
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(metavar="USD", help="Stop at this further cost.", rich_help_panel=LIMITS)
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Stop after this time.", rich_help_panel=LIMITS)
    ] = None,
    mode: Annotated[Mode | None, typer.Option(help="What needs your yes.", rich_help_panel=SAFETY)] = None,
    sandbox: Annotated[
        SandboxLevel | None, typer.Option(help="What commands may write.", rich_help_panel=SAFETY)
    ] = None,
    tool_protocol: options.ToolProtocol = None,
    mcp: options.Mcp = None,
    openapi: options.OpenApi = None,
    openapi_base_url: options.OpenApiBaseUrl = None,
    openapi_methods: options.OpenApiMethods = None,
    openapi_env: options.OpenApiEnv = None,
    output_format: options.Format = "text",
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Go on with a run: interrupted, at a limit, or answered and given a MESSAGE.

    It keeps its own settings, but for those given here, and its limits begin anew. A call whose result was lost is
    never run again; the model is told. A single argument that is no run id is the message.
    """
    from chimera import api

    if message is None and run is not None and not _RUN_ID.fullmatch(run):
        run, message = None, run
    output: Output = ctx.obj
    output.format, output.verbose = output_format, verbose
    settings = options.settings_given(ctx.params)
    return show_run(output, partial(api.resume, run, message or "", **settings), quiet=quiet)
