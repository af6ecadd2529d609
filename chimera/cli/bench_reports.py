"""`chimera bench report`, `compare`, `regrade`, `export`: what was run, looked at again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from chimera.cli.bench import IsolationName, Json
from chimera.cli.cells import escaped
from chimera.cli.options import OUTPUT
from chimera.cli.output import Output
from chimera.config import process_environment, state_dir
from chimera.errors import ConfigError

Runs = Annotated[
    list[Path],
    typer.Argument(metavar="RUN...", help="Folders of jobs, or their names in the state directory."),
]


def report(
    ctx: typer.Context,
    runs: Runs,
    *,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with plots.", rich_help_panel=OUTPUT)
    ] = None,
    output_format: Annotated[
        Literal["markdown", "json"], typer.Option(help="Of the report.", rich_help_panel=OUTPUT)
    ] = "markdown",
) -> int:
    """Report on jobs: rates with intervals, pass@k, tokens, cost and compactions, for each suite and arm.

    Exit code: 0 all planned trials graded, 3 some have no grade.
    """
    from chimera.bench.aggregate import FinishedJob
    from chimera.bench.report import EXIT_INCOMPLETE
    from chimera.bench.tables import fields, markdown

    output: Output = ctx.obj
    jobs = [FinishedJob.read(run_folder(run)) for run in runs]
    if html is not None:
        from chimera.bench.page import write_page

        write_page(html, jobs)
        output.terminal.line("page: ", escaped(str(html)))
    if output_format == "json":
        output.json(fields(jobs))
    else:
        output.text(escaped(markdown(jobs)))
    incomplete = any(job.missing or any(row.status != "graded" for row in job.rows) for job in jobs)
    return EXIT_INCOMPLETE if incomplete else 0


def compare(
    ctx: typer.Context,
    runs: Runs,
    *,
    margin: Annotated[
        float,
        typer.Option(min=0, max=100, metavar="POINTS", help="How much worse still counts as not worse."),
    ] = 5.0,
    output_format: Json = "text",
) -> int:
    """Compare arms, trial by trial: every arm of these jobs against the first one."""
    from chimera.bench.aggregate import FinishedJob
    from chimera.bench.compare import compare as compare_arms
    from chimera.bench.compare import contenders

    output: Output = ctx.obj
    found = compare_arms(contenders([FinishedJob.read(run_folder(run)) for run in runs]), margin=margin / 100)
    if output_format == "json":
        output.json({"comparisons": [one.fields() for one in found]})
    else:
        output.text(escaped("\n\n".join(one.text() for one in found)))
    return 0


def regrade(
    ctx: typer.Context,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a job, or its name.")],
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="The tasks as they are now [tasks].", show_default=False)
    ] = Path("tasks"),
    *,
    isolation: Annotated[IsolationName, typer.Option(help="How the graders are kept apart.")] = "auto",
    output_folder: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="For the new results [RUN-regraded].")
    ] = None,
    output_format: Json = "text",
) -> int:
    """Grade what agents left behind with the tests as they are now. No agent runs; the working trees must have been kept.

    Exit code: 0 all graded, 3 some trial has no grade.
    """
    from chimera.bench.isolation import available_isolation
    from chimera.bench.regrade import regrade as grade_again
    from chimera.bench.task import discover

    output: Output = ctx.obj
    folder = run_folder(run)
    target = output_folder or folder.with_name(f"{folder.name}-regraded")
    level = available_isolation(None if isolation == "auto" else isolation)
    again = grade_again(folder, discover(path), target, isolation=level)
    output.terminal.line("results: ", escaped(str(target)))
    if output_format == "json":
        output.json({"rows": [row.fields() for row in again.rows], "changed": list(again.changed)})
    else:
        changed = [f"changed: {name}" for name in again.changed] or ["no outcome changed"]
        output.text(escaped("\n".join([again.report.table(), *changed])))
    return again.report.exit_code()


def export(
    ctx: typer.Context,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a job, or its name.")],
    target: Annotated[Path, typer.Argument(metavar="DIR", help="New folder to write to.")],
    *,
    atif: Annotated[bool, typer.Option("--atif", help="Trajectories of the runs, in ATIF.")] = False,
    harbor: Annotated[
        bool, typer.Option("--harbor", help="A job folder as Harbor's viewer reads it.")
    ] = False,
) -> int:
    """Write a job in the formats of others."""
    from chimera.bench.aggregate import FinishedJob
    from chimera.bench.export import export_atif, export_harbor

    output: Output = ctx.obj
    if atif == harbor:
        raise ConfigError("say which format: --atif or --harbor")
    folder = run_folder(run)
    job = FinishedJob.read(folder)
    written = (export_atif if atif else export_harbor)(folder, job, target)
    output.text(escaped(f"{target}: {written} trials"))
    return 0


def run_folder(named: Path) -> Path:
    """The folder of a job: as given, else of that name among the jobs in the state directory."""
    kept = state_dir(process_environment()) / "bench" / named
    return kept if not named.exists() and len(named.parts) == 1 and kept.exists() else named
