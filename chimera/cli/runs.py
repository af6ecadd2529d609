"""`chimera runs`: the recorded runs."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from chimera.cli.cells import fit, one_line
from chimera.cli.output import Output
from chimera.cli.terminal import Terminal
from chimera.config import state_dir

_TASK_CELLS = 60


def runs(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="How many of the newest.")] = 20,
    output_format: Annotated[Literal["text", "json"], typer.Option(help="Of the list.")] = "text",
) -> int:
    """List the recorded runs, the newest last: id, time, how it ended, steps, first line of the task."""
    from chimera.cli.lines import local_time
    from chimera.cli.recorded import RecordedRun
    from chimera.errors import RecordError
    from chimera.record.run_directory import run_paths

    output: Output = ctx.obj
    home = state_dir()
    found = []
    for path in run_paths(home)[-limit:]:
        try:
            found.append(RecordedRun.read(home, path))
        except RecordError as fault:
            output.terminal.line(f"notice: {fault}")
    if output_format == "json":
        rows = [
            {
                "run_id": run.path.name,
                "time": run.time,
                "state": run.state,
                "steps": run.step_count,
                "task": run.task,
                "run_dir": str(run.path),
            }
            for run in found
        ]
        output.json({"runs": rows})
        return 0
    if not found:
        output.terminal.line(f"No run is recorded in {home}.")
    page = Terminal(output.stdout, output.environment)
    state_width = max((len(run.state) for run in found), default=0)
    for run in found:
        task = fit(one_line(run.task.strip().partition("\n")[0]), _TASK_CELLS)
        when = local_time(run.time)
        page.line(f"{run.path.name}  {when}  {run.state:<{state_width}}  {run.step_count:>3}  {task}")
    return 0
