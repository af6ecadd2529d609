"""`chimera bench`: benchmark tasks, each in a fresh tree, graded by hidden tests in another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from chimera.cli import options
from chimera.cli.cells import escaped, one_line
from chimera.cli.options import LIMITS, OUTPUT
from chimera.cli.output import Output
from chimera.config import load_config, process_environment, state_dir
from chimera.errors import ConfigError

if TYPE_CHECKING:
    from chimera.bench.agents import BenchAgent
    from chimera.bench.row import Phase, Row
    from chimera.bench.trial import Trial

AgentName = Literal["chimera", "oracle", "noop"]
# Written out here so that the help needs none of the benchmark's modules.
KeepName = Literal["all", "failed", "none"]


def bench(  # noqa: PLR0913  (a command has the options it has)
    ctx: typer.Context,
    path: Annotated[
        Path,
        typer.Argument(help="A task, a suite of tasks or a folder of suites [tasks].", show_default=False),
    ] = Path("tasks"),
    *,
    agent: Annotated[
        AgentName, typer.Option(help="chimera, or to check the tasks: their own solution, or nobody.")
    ] = "chimera",
    attempts: Annotated[int, typer.Option("--attempts", "-k", min=1, help="Trials of each task.")] = 1,
    model: options.Model = None,
    api_base: options.ApiBase = None,
    window: options.Window = None,
    max_steps: Annotated[
        int | None, typer.Option(metavar="N", help="Of each trial [the task's].", rich_help_panel=LIMITS)
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(metavar="USD", help="Of each trial.", rich_help_panel=LIMITS)
    ] = None,
    output_folder: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="For results and logs [in the state directory].",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    keep: Annotated[
        KeepName, typer.Option(help="Whose working trees to keep beside the logs.", rich_help_panel=OUTPUT)
    ] = "failed",
    fail_under: Annotated[
        float | None,
        typer.Option(
            metavar="RATE", min=0, max=1, help="Exit with 1 below this pass rate.", rich_help_panel=OUTPUT
        ),
    ] = None,
    output_format: Annotated[
        Literal["text", "json"], typer.Option(help="Of the results.", rich_help_panel=OUTPUT)
    ] = "text",
) -> int:
    """Run benchmark tasks and grade them with their hidden tests.

    Exit code: 0 all graded, 1 below --fail-under, 2 usage or a bad task, 3 some trial has no grade, 130 interrupted.
    """
    from chimera.bench.isolation import available_isolation
    from chimera.bench.job import Job, new_output
    from chimera.bench.task import discover
    from chimera.cli.signals import stop_signals

    output: Output = ctx.obj
    given = {
        "model": model,
        "api_base": api_base,
        "window": window,
        "max_steps": max_steps,
        "max_cost": max_cost,
    }
    tasks = discover(path)
    folder = output_folder or new_output(state_dir())
    progress = _Progress(output, planned=len(tasks) * attempts)
    job = Job(
        tasks=tasks,
        agent=_agent(agent, given),
        output=folder,
        isolation=available_isolation(),
        attempts=attempts,
        keep=keep,
        on_phase=progress.phase,
        on_row=progress.row,
    )
    with stop_signals():
        report = job.run()
    output.terminal.line("results: ", escaped(str(folder)))
    if output_format == "json":
        output.json({"rows": [row.fields() for row in report.rows], "summary": report.summary()})
    else:
        output.text(escaped(report.table()))
    return report.exit_code(fail_under)


def _agent(name: AgentName, given: Mapping[str, Any]) -> BenchAgent:
    """The agent, its settings checked before anything is run.

    Raises:
        ConfigError: a setting that cannot be, or one that this agent has no use for.
    """
    from chimera.bench.agents import Chimera, NoOp, Oracle

    config = load_config(given)
    if name == "chimera":
        from chimera.models.choose import choose_model

        choose_model(config, process_environment())
        return Chimera(
            model_choice=config.model, options={key: value for key, value in given.items() if key != "model"}
        )
    for key, value in given.items():
        if value is not None:
            raise ConfigError(f"--{key.replace('_', '-')} says nothing to --agent {name}; leave it out")
    return Oracle() if name == "oracle" else NoOp()


class _Progress:
    """Tells on standard error how far a job is."""

    def __init__(self, output: Output, *, planned: int) -> None:
        self._terminal = output.terminal
        self._planned = planned
        self._done = 0

    def phase(self, trial: Trial, phase: Phase) -> None:
        self._terminal.transient(f"[{self._done + 1}/{self._planned}] {trial.name}: {phase}")

    def row(self, row: Row) -> None:
        self._done += 1
        reward = "" if row.reward is None else f", reward {row.reward:g}"
        why = "" if row.error is None else f": {one_line(row.error.message)}"
        self._terminal.line(f"[{self._done}/{self._planned}] {row.trial}: {row.status}{reward}{why}")
