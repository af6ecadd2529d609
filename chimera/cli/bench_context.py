"""`chimera bench context`: ways to keep a history in a window, compared without any model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from chimera.cli.options import OUTPUT, tool_names
from chimera.cli.output import Output
from chimera.errors import ConfigError

if TYPE_CHECKING:
    from chimera.bench.context_run import Outcome
    from chimera.bench.context_table import Report


def _names(metavar: str, help_text: str) -> Any:
    return typer.Option(metavar=metavar, help=help_text, rich_help_panel="Selection")


def context(  # noqa: PLR0913  (a command has the options it has)
    ctx: typer.Context,
    *,
    tasks: Annotated[str | None, _names("A,B", "Generated tasks [all].")] = None,
    policies: Annotated[str | None, _names("A,B", "Scripted policies [all].")] = None,
    arms: Annotated[str | None, _names("A,B", "Ways to keep a history in a window [all].")] = None,
    windows: Annotated[
        str | None,
        _names("N,N", "In tokens; 1000000 stands for a window without end [4000 to 32000, and that]."),
    ] = None,
    seeds: Annotated[
        str, _names("N,N", "Of the tasks; 1000 and above draw from held-out families.")
    ] = "1,2,3",
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Runs at a time [cores].")] = None,
    peers: Annotated[
        Path | None,
        _names("DIR", "Also look here for other agents' compactors (pip install --target DIR ...)."),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write every run as JSON, one a line.", rich_help_panel=OUTPUT),
    ] = None,
    output_format: Annotated[
        Literal["text", "json"], typer.Option(help="Of the tables.", rich_help_panel=OUTPUT)
    ] = "text",
) -> int:
    """Compare ways to keep a history in a window, by scripted policies in the real loop. No model is asked.

    Exit code: 0 every bar that could be judged holds, 1 one does not, 2 usage, 130 interrupted.
    """
    from chimera.bench.context_bars import bars
    from chimera.bench.context_table import Report
    from chimera.bench.context_track import Selection, sweep
    from chimera.bench.peers import add_folder

    if peers is not None:
        add_folder(peers.resolve())
    given: dict[str, Any] = {
        "tasks": tool_names(tasks),
        "policies": tool_names(policies),
        "arms": tool_names(arms),
        "windows": None if windows is None else _numbers("--windows", windows, least=1),
        "seeds": _numbers("--seeds", seeds, least=0),
    }
    selection = Selection(**{name: value for name, value in given.items() if value is not None})
    cells = selection.cells()
    if not cells:
        raise ConfigError("nothing is left to run: no task has this policy, arm and window")
    if save is not None and (save.is_dir() or not save.absolute().parent.is_dir()):
        # Told now rather than after all runs.
        raise ConfigError(f"--save {str(save)!r}: there is no folder to write that file to; make it first")
    output: Output = ctx.obj
    done: list[Outcome] = []

    def told(outcome: Outcome) -> None:
        done.append(outcome)
        output.terminal.transient(f"[{len(done)}/{len(cells)}] {outcome.cell.task}: {outcome.cell.arm}")

    report = Report(sweep(cells, workers=jobs or os.cpu_count() or 1, on_outcome=told))
    if save is not None:
        _save(report, save)
    judged = bars(report)
    if output_format == "json":
        output.json(
            {
                "runs": len(report.outcomes),
                "tables": report.table(),
                "bars": [{"name": bar.name, "passed": bar.passed, "figures": bar.figures} for bar in judged],
            }
        )
    else:
        lines = [f"{'holds' if bar.passed else 'FAILS'}: {bar.name} ({bar.figures})" for bar in judged]
        output.text("\n\n".join([report.table(), "\n".join(lines)]))
    return 0 if all(bar.passed for bar in judged) else 1


def _numbers(option: str, text: str, *, least: int) -> tuple[int, ...]:
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError as fault:
        raise ConfigError(f"{option} is {text!r}; give whole numbers with commas between them") from fault
    if min(found) < least:
        raise ConfigError(f"{option} is {text!r}; the least that makes sense is {least}")
    return found


def _save(report: Report, path: Path) -> None:
    import json

    lines = (json.dumps(outcome.fields(), separators=(",", ":")) for outcome in report.outcomes)
    try:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as fault:
        raise ConfigError(f"--save {str(path)!r}: cannot be written: {fault}") from fault
