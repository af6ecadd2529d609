"""`chimera chat`: a conversation with the agent in this repository, in one context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from chimera.cli import options
from chimera.cli.options import LIMITS
from chimera.cli.output import Output


def chat(  # noqa: PLR0913, PLR0917  (a command has the options it has)
    ctx: typer.Context,
    message: Annotated[str | None, typer.Argument(metavar="[MESSAGE]", help="The first message.")] = None,
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
        int | None, typer.Option(metavar="N", help="Model calls for a message [50].", rich_help_panel=LIMITS)
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(metavar="USD", help="Stop a message at this cost.", rich_help_panel=LIMITS),
    ] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Stop a message after this time.", rich_help_panel=LIMITS),
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
    verbose: options.Verbose = False,
) -> int:
    """Talk with the agent: each message goes on in the same context.

    Lines that begin with / are commands (/help lists them). Ctrl-C once stops the work on a message, twice leaves. With
    the extra chimera[chat] lines have history and completion. Everything is recorded as one run: chimera resume goes on.
    """
    from chimera.cli.conversation import COMMANDS, Conversation, converse
    from chimera.cli.input_line import line_reader
    from chimera.cli.run import someone_to_ask
    from chimera.config import load_config, state_dir
    from chimera.models.llama_server import servers_kept

    output: Output = ctx.obj
    output.verbose = verbose
    settings = options.settings_given(ctx.params)
    load_config(settings)  # what is wrong is told before somebody types a message
    root = ctx.find_root().command

    def invoke(arguments: Sequence[str]) -> object:
        with root.make_context("chimera", list(arguments), obj=output) as context:
            return root.invoke(context)

    conversation = Conversation(output, settings, someone_to_ask(output), invoke)
    read = line_reader(output, state_dir(), COMMANDS)
    if output.terminal.live and message is None:
        output.terminal.line(("Say what is to be done. /help lists commands.", "dim"))
    with servers_kept():
        return converse(conversation, read, output.terminal, message)
