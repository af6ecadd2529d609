"""`chimera bench check`, `list`, `new`: for those who write tasks."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from chimera.cli.bench import Exclude, Isolation, Jobs, Json, Progress, Suites, Tags, Tasks, default_jobs
from chimera.cli.cells import escaped
from chimera.cli.output import Output


def check(
    ctx: typer.Context,
    path: Tasks = Path("tasks"),
    *,
    lint: Annotated[bool, typer.Option("--lint", help="Only read the files, run nothing.")] = False,
    isolation: Isolation = "auto",
    jobs: Jobs = None,
    output_format: Json = "text",
) -> int:
    """Check tasks: their files, that the solution passes, that doing nothing fails, that cheating fails and is noticed.

    Exit code: 0 all in order, 3 some could not be tried here, 4 some are not in order, 130 interrupted.
    """
    from chimera.bench.check import check as check_tasks
    from chimera.bench.isolation import available_isolation

    output: Output = ctx.obj
    level = available_isolation(None if isolation == "auto" else isolation)
    progress = Progress(output)
    with tempfile.TemporaryDirectory(prefix="chimera-check-") as logs:
        report = check_tasks(
            path,
            Path(logs, "results"),
            isolation=level,
            jobs=jobs or default_jobs(),
            only_lint=lint,
            on_begin=progress.begin,
            on_phase=progress.phase,
            on_row=progress.row,
        )
    if output_format == "json":
        output.json(report.fields())
    else:
        output.text(escaped(report.text()))
    return report.exit_code


def list_tasks(
    ctx: typer.Context,
    path: Tasks = Path("tasks"),
    *,
    suite: Suites = None,
    tag: Tags = None,
    exclude: Exclude = None,
    output_format: Json = "text",
) -> int:
    """List tasks with suite, window, steps, tags and what they lack here."""
    from chimera.bench.isolation import unmet_need
    from chimera.bench.report import aligned
    from chimera.bench.selection import Selection
    from chimera.bench.task import discover

    output: Output = ctx.obj
    tasks = Selection(suites=suite or (), tags=tag or (), exclude=exclude or ()).of(discover(path))
    if output_format == "json":
        fields = [
            {
                "task": task.name,
                "suite": task.suite,
                "digest": task.digest,
                "window": task.window,
                "max_steps": task.max_steps,
                "tags": list(task.tags),
                "lacks": unmet_need(task),
                "folder": str(task.folder),
            }
            for task in tasks
        ]
        output.json({"tasks": fields})
        return 0
    head = ("task", "window", "suite", "steps", "tags", "lacks")
    lines = [
        (
            task.name,
            "-" if task.window is None else f"{task.window:,}",
            task.suite,
            "-" if task.max_steps is None else str(task.max_steps),
            ", ".join(task.tags) or "-",
            unmet_need(task) or "",
        )
        for task in tasks
    ]
    output.text(escaped("\n".join(aligned([head, *lines], left={0, 2, 4, 5}))))
    return 0


def new(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ORG/NAME", help="Of the task, in lower case.")],
    *,
    folder: Annotated[
        Path, typer.Option("--in", metavar="SUITE", help="Folder of the suite [tasks/basics].")
    ] = Path("tasks/basics"),
) -> int:
    """Write a new task that is in order and does nothing useful yet."""
    from chimera.bench.new_task import write_task

    output: Output = ctx.obj
    made = write_task(name, folder)
    output.text(escaped(f"{made}\nNext: write it, then chimera bench check {made}"))
    return 0
