"""`chimera config`: every setting, its value and where it comes from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from chimera.cli import options
from chimera.cli.cells import one_line
from chimera.cli.output import Output
from chimera.cli.terminal import Terminal
from chimera.config import (
    FIELD_NAMES,
    Origin,
    Settings,
    load_settings,
    process_environment,
    state_dir,
    unknown_variables,
)
from chimera.errors import ConfigError

if TYPE_CHECKING:
    from typer._click.core import Context

_UNSET = {
    "model": "the first provider with a key, else a local server",
    "window": "that of the model",
    "budget_fraction": "0.6",
    "trigger": "0.8",
    "keep_turns": "6",
    "mode": "ask on a terminal, else auto",
    "tools": "all",
    "lean": "where calls travel as JSON",
}
"""What no value means, for people."""
_NAME_CELLS = max(map(len, FIELD_NAMES)) + 2


def config(
    ctx: typer.Context,
    output_format: Annotated[Literal["text", "json"], typer.Option(help="Of the list.")] = "text",
) -> int:
    """Show every setting of a run, its value and where that comes from: argument, environment, file or default.

    Takes the options of chimera run, to show what they would change. Secrets are masked. Nothing is started or asked.
    """
    output: Output = ctx.obj
    found = load_settings(_arguments(ctx, ctx.args))
    shown = _shown(output, found)
    if output_format == "json":
        output.json(
            {
                "file": str(found.path),
                "file_exists": found.path.is_file(),
                "state_dir": str(state_dir()),
                "settings": shown,
                "unknown_variables": unknown_variables(output.environment),
            }
        )
        return 0
    page = Terminal(output.stdout, output.environment)
    there = "" if found.path.is_file() else " (not there)"
    page.long_line(f"{'file':<{_NAME_CELLS}}{one_line(str(found.path))}{there}")
    page.long_line(f"{'state':<{_NAME_CELLS}}{one_line(str(state_dir()))}")
    page.line("")
    for setting in shown:
        value, origin = (
            _text(setting["name"], setting["value"]),
            f"{setting['source']} {setting['where']}".strip(),
        )
        page.block(
            f"{one_line(value)}  ({one_line(origin)})",
            indent=f"{setting['name']:<{_NAME_CELLS}}",
            hang="    ",
        )
    for name in unknown_variables(output.environment):
        page.block(f"notice: {one_line(name)} is set, but there is no such setting")
    return 0


def _arguments(ctx: Context, words: Sequence[str]) -> dict[str, Any]:
    """The settings among the options of `chimera run`, as its own parser reads them."""
    command: Any = ctx.find_root().command
    run = command.commands["run"]
    with run.make_context("config", [*words], parent=ctx.parent) as given:
        if (task := given.params["task"]) is not None:
            raise ConfigError(f"{task!r} is no option; chimera config takes the options of chimera run")
        return options.settings_given(given.params)


def _shown(output: Output, found: Settings) -> list[dict[str, Any]]:
    from chimera.record.known_secrets import make_redactor, without_secrets

    redactor = make_redactor(
        process_environment(), options=found.config.model_options, api_base=found.config.api_base
    )
    rows = []
    for name in FIELD_NAMES:
        value, origin = getattr(found.config, name), found.origins.get(name, Origin())
        value = str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
        value = redactor.value(without_secrets(name, value))
        rows.append({"name": name, "value": value, "source": origin.source, "where": origin.where})
    return rows


def _text(name: str, value: Any) -> str:
    match value:
        case None:
            return _UNSET.get(name, "-")
        case str():
            return value
        case list():
            return ",".join(map(str, value))
        case _:
            return json.dumps(value, ensure_ascii=False)
