"""`chimera run`: a task for the agent, shown while it works."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chimera import interruption
from chimera.cli import options
from chimera.cli.options import LIMITS
from chimera.cli.output import Output, with_next_command
from chimera.errors import ConfigError

if TYPE_CHECKING:
    from chimera.core.state import RunResult
    from chimera.record.events import Event
    from chimera.tools.approval import Ask

_MOST_TASK_BYTES = 10_000_000


def run(  # noqa: PLR0913, PLR0917  (a command has the options it has)
    ctx: typer.Context,
    task: Annotated[
        str | None, typer.Argument(help="What to do, in words; - reads it from standard input.")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", help="Read the task from a file; - is standard input."),
    ] = None,
    workspace: options.Workspace = None,
    verify: options.Verify = None,
    model: options.Model = None,
    api_base: options.ApiBase = None,
    adapter: options.Adapter = None,
    model_option: options.ModelOption = None,
    window: options.Window = None,
    budget_fraction: options.BudgetFraction = None,
    trigger: options.Trigger = None,
    keep_turns: options.KeepTurns = None,
    compaction: options.Compaction = None,
    max_steps: Annotated[
        int | None, typer.Option(metavar="N", help="Model calls at most [50].", rich_help_panel=LIMITS)
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(metavar="USD", help="Stop at this cost.", rich_help_panel=LIMITS)
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Stop after this time.", rich_help_panel=LIMITS)
    ] = None,
    mode: options.ModeOption = None,
    sandbox: options.Sandbox = None,
    allow_net: options.AllowNet = None,
    allow_git_write: options.AllowGitWrite = None,
    allow_secret_files: options.AllowSecretFiles = None,
    tools: options.Tools = None,
    compact_schemas: options.CompactSchemas = None,
    tool_protocol: options.ToolProtocol = None,
    lean: options.Lean = None,
    mcp: options.Mcp = None,
    openapi: options.OpenApi = None,
    openapi_base_url: options.OpenApiBaseUrl = None,
    openapi_methods: options.OpenApiMethods = None,
    openapi_env: options.OpenApiEnv = None,
    output_format: options.Format = "text",
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Work on a task in this repository until it is done or there is a reason to stop.

    The answer goes to standard output, everything else to standard error. The exit code tells why the run ended:
    0 answered, 2 usage, 3 no room in the window, 4 steps, 11 key or model, 12 check failed, 13 no sandbox; the
    documentation lists all. The json format prints one object, stream-json the events (but pieces of text) and the
    result, one a line.
    """
    output: Output = ctx.obj
    output.format, output.verbose = output_format, verbose
    settings = options.settings_given(ctx.params)
    return run_task(output, read_task(task, file), settings, quiet=quiet)


def read_task(task: str | None, file: str | None) -> str:
    """The task from where the arguments say it is.

    Raises:
        ConfigError: there is none, or it cannot be read.
    """
    if task is not None and file is not None:
        raise ConfigError("both a task and --file are given; give one of them")
    if task is None and file is None:
        raise ConfigError(
            'no task: chimera run "what to do", or --file FILE, or - to read it from standard input'
        )
    source = "-" if task == "-" else file
    if source is None:
        return task or ""
    try:
        with nullcontext(sys.stdin.buffer) if source == "-" else Path(source).open("rb") as stream:
            content = stream.read(_MOST_TASK_BYTES + 1)
    except OSError as fault:
        raise ConfigError(f"the task file {source!r} cannot be read: {fault.strerror}") from fault
    if len(content) > _MOST_TASK_BYTES:
        raise ConfigError(
            f"the task in {source!r} is larger than {_MOST_TASK_BYTES:,} bytes; name a file in it instead"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise ConfigError(f"the task in {source!r} is not UTF-8 text (byte {fault.start})") from fault


def run_task(output: Output, task: str, settings: Mapping[str, Any], *, quiet: bool) -> int:
    """Run a task with settings, show it, hand over its result and return the exit code."""
    from chimera import api

    return show_run(output, partial(api.run, task, **settings), quiet=quiet)


def show_run(output: Output, start: Callable[..., RunResult], *, quiet: bool) -> int:
    """Show a run while it works, hand over its result and return the exit code.

    Args:
        output: where everything goes.
        start: begins the run, given `emit` and `ask`.
        quiet: show nothing but errors.
    """
    from chimera.cli.render import Screen, show_fault, show_summary

    screen = None if quiet else Screen(output.terminal, verbose=output.verbose)

    def emit(event: Event) -> None:
        output.observe(event)
        if screen is not None:
            screen(event)

    with screen.waiting if screen is not None else nullcontext():
        result = start(emit=emit, ask=someone_to_ask(output))
    fields = result.fields()
    with interruption.ending():
        if result.run_id is not None and screen is not None:
            show_summary(output.terminal, fields, screen.verification)
        if result.message:
            told = result.message
            if result.stop_reason == "usage_error":
                told = with_next_command(told, output.command)
            show_fault(output.terminal, told)
        # Where both streams end on one screen, the answer is there already.
        shown = output.on_terminal and screen is not None and screen.answer_shown
        output.deliver(fields, answer_shown=shown)
    return result.exit_code


def someone_to_ask(output: Output) -> Ask | None:
    """Somebody to ask, if there is a terminal to ask on."""
    if not (sys.stdin.isatty() and output.terminal.live):
        return None
    from chimera.cli.approval_prompt import asker

    return asker(output.terminal, sys.stdin)
