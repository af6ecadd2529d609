"""`chimera floor`: the fixed cost of every step, against a window."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from chimera.cli import options
from chimera.cli.output import Output
from chimera.config import Config, load_config, process_environment, state_dir

if TYPE_CHECKING:
    from chimera.core.model import Window

_SCRIPTED = "scripted:"


def floor(  # noqa: PLR0913, PLR0917  (a command has the options it has)
    ctx: typer.Context,
    model: options.Model = None,
    api_base: options.ApiBase = None,
    window: options.Window = None,
    budget_fraction: options.BudgetFraction = None,
    trigger: options.Trigger = None,
    workspace: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Whose AGENTS.md counts [the current folder].")
    ] = None,
    tools: options.Tools = None,
    compact_schemas: options.CompactSchemas = None,
    tool_protocol: options.ToolProtocol = None,
    lean: options.Lean = None,
    mcp: options.Mcp = None,
    openapi: options.OpenApi = None,
    openapi_base_url: options.OpenApiBaseUrl = None,
    openapi_methods: options.OpenApiMethods = None,
    openapi_env: options.OpenApiEnv = None,
    output_format: Annotated[
        Literal["text", "json"], typer.Option(help="Of the table.", rich_help_panel=options.OUTPUT)
    ] = "text",
) -> int:
    """Show what every request carries whatever the history, per part and tool, against a window. Needs no key.

    Servers of --mcp are started to be asked for their tools, and ended again.
    """
    from chimera.cli.advertised import advertised_tools
    from chimera.core.context_budget import (
        DEFAULT_BUDGET_FRACTION,
        DEFAULT_TRIGGER_FRACTION,
        ContextBudget,
        floor_fields,
        floor_ledger,
    )
    from chimera.core.messages import system
    from chimera.core.tokens import Calibration, TokenCounter
    from chimera.instructions import read_instructions
    from chimera.profile import choose_protocols, system_text
    from chimera.record.calibrations import load_calibration
    from chimera.record.known_secrets import make_redactor
    from chimera.tools.schema_compact import compact_schema
    from chimera.workspace.paths import Workspace

    output: Output = ctx.obj
    config = load_config(
        {
            "model": model,
            "api_base": api_base,
            "window": window,
            "budget_fraction": budget_fraction,
            "trigger": trigger,
            "workspace": workspace,
            "tools": options.tool_names(tools),
            "compact_schemas": compact_schemas,
            "tool_protocol": tool_protocol,
            "lean": lean,
            **options.imports(mcp, openapi, openapi_base_url, openapi_methods, openapi_env),
        }
    )
    budget = ContextBudget(
        window=known_window(config),
        fraction=config.budget_fraction or DEFAULT_BUDGET_FRACTION,
        trigger_fraction=config.trigger or DEFAULT_TRIGGER_FRACTION,
        calibration=load_calibration(state_dir(), config.model) if config.model else Calibration(),
    )
    with advertised_tools(config) as (advertised, notices):
        schemas = [tool.schema() for tool in advertised]
    counter = TokenCounter()
    root = Workspace.open(config.workspace).root
    redactor = make_redactor(process_environment(), workspace=root)
    quoted = read_instructions(root, budget, redactor, counter)
    protocol = choose_protocols(config)[0]
    text = protocol.system(system_text(config) + quoted.text, schemas)
    written = protocol.written(schemas)
    schemas = list(protocol.schemas(schemas))
    measured = counter.floor(system(text), schemas)
    compact_total = counter.floor(system(text), [*map(compact_schema, schemas)]).total
    fits = budget.calibration.size(measured.total) < budget.trigger
    if output_format == "json":
        output.json(
            {
                "window": budget.window.tokens,
                "budget": budget.budget,
                "trigger": budget.trigger,
                "floor": floor_fields(measured),
                "compact_total": compact_total,
                "fits": fits,
            }
        )
        return 0
    for notice in (*notices, *quoted.notices):
        output.text(f"{notice}\n")
    output.text(
        "\n".join(
            line.removeprefix("  ") for line in floor_ledger(budget, counter.by_tool(measured, written))
        )
    )
    output.text(f"\nWith --compact-schemas the floor is {compact_total:,} tokens.")
    if fits:
        output.text(
            f"It fits: below the trigger {budget.trigger - measured.total:,} tokens are left for task and turns."
        )
    else:
        output.text(
            "It does not fit below the trigger: a run would stop before its first step (cannot_shrink)."
        )
    if budget.window.source == "unknown":
        output.text("The window of the model is unknown: --model or --window sets it.")
    return 0


def known_window(config: Config) -> Window:
    """The window that a run with these settings would have, as far as no key is needed to know it."""
    from chimera.core.context_budget import UNKNOWN_WINDOW
    from chimera.core.model import Window
    from chimera.models import registry
    from chimera.models.local_window import reported_window
    from chimera.models.script_file import load_script

    unknown = Window(tokens=UNKNOWN_WINDOW, source="unknown")
    name = config.model
    if config.window is not None:
        return Window(tokens=config.window, source="argument")
    if name is None:
        return unknown
    if name.startswith(_SCRIPTED):
        from pathlib import Path

        return load_script(Path(name.removeprefix(_SCRIPTED))).window or unknown
    if config.api_base is not None and (told := reported_window(name, api_base=config.api_base)):
        return told
    facts = registry.facts(name)
    return Window(tokens=facts.window, source="registry") if facts and facts.window else unknown
