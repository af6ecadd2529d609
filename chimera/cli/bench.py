"""`chimera bench`: benchmark tasks, each in a fresh tree, graded by hidden tests in another."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from msgspec.structs import replace

from chimera.cli import options
from chimera.cli.cells import escaped, one_line
from chimera.cli.options import LIMITS, OUTPUT
from chimera.cli.output import Output
from chimera.config import parse_model_options, process_environment, state_dir
from chimera.errors import ConfigError, UnknownPriceError

if TYPE_CHECKING:
    from chimera.bench.job import Arm
    from chimera.bench.row import Phase, Row
    from chimera.bench.trial import Trial

# Written out here so that the help needs none of the benchmark's modules.
IsolationName = Literal["auto", "docker", "namespace", "copy"]
NetworkName = Literal["none", "host"]
KeepName = Literal["all", "failed", "none"]
ExecutorName = Literal["local", "ray"]
RedoName = Literal["errored", "failed", "all"]
SELECT, REPEAT, PLACE = "Selection", "Repetition", "Isolation"

Tasks = Annotated[
    Path,
    typer.Argument(
        metavar="PATH", help="A task, a suite of tasks or a folder of suites [tasks].", show_default=False
    ),
]
Isolation = Annotated[
    IsolationName,
    typer.Option(help="How trials are kept apart; auto: namespace, else copy.", rich_help_panel=PLACE),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", "-j", min=1, metavar="N", help="Trials at once [half the cores].", rich_help_panel=REPEAT
    ),
]
Suites = Annotated[
    list[str] | None,
    typer.Option("--suite", metavar="NAME", help="Only these; may be repeated.", rich_help_panel=SELECT),
]
Tags = Annotated[
    list[str] | None,
    typer.Option(
        "--tag", metavar="TAG", help="Only tasks with one of these; may be repeated.", rich_help_panel=SELECT
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="TASK", help="Not these; may be repeated.", rich_help_panel=SELECT),
]
Json = Annotated[Literal["text", "json"], typer.Option(help="Of the results.", rich_help_panel=OUTPUT)]


def bench(  # noqa: PLR0913  (a command has the options it has)
    ctx: typer.Context,
    path: Tasks = Path("tasks"),
    *,
    suite: Suites = None,
    tag: Tags = None,
    exclude: Exclude = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="At most so many.", rich_help_panel=SELECT)
    ] = None,
    shuffle_seed: Annotated[
        int | None,
        typer.Option(metavar="SEED", help="Shuffle, before the limit.", rich_help_panel=SELECT),
    ] = None,
    agent: Annotated[
        str,
        typer.Option(
            metavar="AGENT",
            help="chimera; to check tasks oracle, noop, cheat; scripted:NAME; module:Class.",
        ),
    ] = "chimera",
    model: options.Model = None,
    api_base: options.ApiBase = None,
    window: options.Window = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting of chimera run, such as compaction=mask; repeatable.",
        ),
    ] = None,
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="KEY=A,B,...", help="Run every task with each of these values, as arms of one job."
        ),
    ] = None,
    attempts: Annotated[
        int, typer.Option("--attempts", "-k", min=1, help="Trials of each task.", rich_help_panel=REPEAT)
    ] = 1,
    infra_retries: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Begin a trial again that failed for provider or machine.",
            rich_help_panel=REPEAT,
        ),
    ] = 2,
    jobs: Jobs = None,
    executor: Annotated[
        ExecutorName,
        typer.Option(help="Where trials run; ray: on a Ray cluster (RAY_ADDRESS).", rich_help_panel=REPEAT),
    ] = "local",
    isolation: Isolation = "auto",
    network: Annotated[
        NetworkName | None,
        typer.Option(help="What the agent's commands can reach [none].", rich_help_panel=PLACE),
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option(metavar="N", help="Of each trial [the task's].", rich_help_panel=LIMITS)
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(metavar="USD", help="Of each trial.", rich_help_panel=LIMITS)
    ] = None,
    job_max_cost: Annotated[
        float | None,
        typer.Option(metavar="USD", help="Begin no trial once all cost so much.", rich_help_panel=LIMITS),
    ] = None,
    timeout_multiplier: Annotated[
        float,
        typer.Option(
            metavar="X", help="Of the time limits; marks the rows as not comparable.", rich_help_panel=LIMITS
        ),
    ] = 1.0,
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
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the job in --output.", rich_help_panel=OUTPUT)
    ] = False,
    redo: Annotated[
        RedoName | None,
        typer.Option(help="Resume, and run these trials again.", rich_help_panel=OUTPUT),
    ] = None,
    keep: Annotated[
        KeepName, typer.Option(help="Whose working trees to keep beside the logs.", rich_help_panel=OUTPUT)
    ] = "failed",
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with plots.", rich_help_panel=OUTPUT)
    ] = None,
    fail_under: Annotated[
        float | None,
        typer.Option(
            metavar="RATE", min=0, max=1, help="Exit with 1 below this pass rate.", rich_help_panel=OUTPUT
        ),
    ] = None,
    output_format: Json = "text",
) -> int:
    """Run benchmark tasks and grade them with their hidden tests.

    Exit code: 0 all graded, 1 below --fail-under or a request broke an invariant, 2 usage or a bad task, 3 some trial has
    no grade, 5 the cost limit of the job is reached, 130 interrupted.
    """
    from chimera.bench.isolation import available_isolation, real_network
    from chimera.bench.job import Job, new_output
    from chimera.bench.selection import Selection
    from chimera.bench.task import discover

    output: Output = ctx.obj
    given = {
        "model": model,
        "api_base": api_base,
        "window": window,
        "max_steps": max_steps,
        "max_cost": max_cost,
        **parse_model_options(settings or []),
    }
    selection = Selection(
        suites=suite or (), tags=tag or (), exclude=exclude or (), limit=limit, shuffle_seed=shuffle_seed
    )
    tasks = selection.of(discover(path))
    resume = resume or redo is not None
    if resume and output_folder is None:
        raise ConfigError("--resume needs --output DIR: the folder of the job to go on with")
    _check_numbers(timeout_multiplier, job_max_cost, fail_under)
    if html is not None:
        from chimera.bench.statistics import require_scipy

        # Told now rather than after hours of trials.
        require_scipy()
        if html.is_dir() or not html.absolute().parent.is_dir():
            raise ConfigError(
                f"--html {str(html)!r}: there is no folder to write that file to; make it first"
            )
    folder = output_folder or new_output(state_dir())
    level = available_isolation(None if isolation == "auto" else isolation)
    arms = _arms(agent, given, sweep, priced=job_max_cost is not None)
    progress = Progress(output)
    job = Job(
        tasks=tasks,
        arms=arms,
        output=folder,
        isolation=level,
        network=real_network(level, network),
        attempts=attempts,
        jobs=jobs or default_jobs(),
        executor=executor,
        infra_retries=infra_retries,
        timeout_multiplier=timeout_multiplier,
        max_cost=job_max_cost,
        keep=keep,
        resume=resume,
        redo=redo,
        on_begin=progress.begin,
        on_phase=progress.phase,
        on_row=progress.row,
    )
    report = job.run()
    output.terminal.line("results: ", escaped(str(folder)))
    if html is not None:
        from chimera.bench.aggregate import FinishedJob
        from chimera.bench.page import write_page

        write_page(html, [FinishedJob.read(folder)])
    if report.interrupted:
        output.terminal.line(f"to go on: the same command with --resume --output {escaped(str(folder))}")
    if output_format == "json":
        output.json({"rows": [row.fields() for row in report.rows], "summary": report.summary()})
    else:
        output.text(escaped(report.table()))
    return report.exit_code(fail_under)


def _check_numbers(multiplier: float, cost: float | None, rate: float | None) -> None:
    for option, value in (("--timeout-multiplier", multiplier), ("--job-max-cost", cost)):
        if value is not None and not 0 < value < float("inf"):
            raise ConfigError(f"{option} is {value}; it must be above 0")
    # The parser lets what is no number pass: it is not below 0 either.
    if rate is not None and not 0 <= rate <= 1:
        raise ConfigError(f"--fail-under is {rate}; it must be from 0 to 1")


def default_jobs() -> int:
    """Half the cores: what a trial runs is often parallel itself."""
    return max(1, (os.cpu_count() or 1) // 2)


def _arms(name: str, given: Mapping[str, Any], sweep: str | None, *, priced: bool) -> tuple[Arm, ...]:
    """The agent, once for each value of the sweep, its settings checked before anything is run.

    Raises:
        ConfigError: a setting that cannot be, or one that this agent has no use for.
    """
    from chimera.bench.job import Arm, arm_names
    from chimera.bench.selection import agent_of, checked_settings, settings_of

    if priced and (name in {"oracle", "noop", "cheat"} or name.startswith("scripted:")):
        raise ConfigError(f"--job-max-cost says nothing to --agent {name}, which costs nothing; leave it out")
    arms = []
    for label, extra in _swept(sweep):
        options = {**given, **extra}
        settings = checked_settings(options)
        config = settings.config
        if name == "chimera":
            from chimera.models.choose import choose_model, has_price

            with_price = choose_model(config, process_environment(), start=False)
            if priced and not has_price(with_price.name):
                raise UnknownPriceError(
                    f"the price of {with_price.name!r} is unknown, so --job-max-cost cannot be kept; leave it out"
                )
        agent = agent_of(name, config, options)
        ours = name == "chimera" or name.startswith("scripted:")
        arms.append(Arm(name=agent.name + label, agent=agent, settings=settings_of(settings) if ours else {}))
    names = arm_names([arm.name for arm in arms])
    return tuple(replace(arm, name=found) for arm, found in zip(arms, names, strict=True))


def _swept(sweep: str | None) -> Sequence[tuple[str, Mapping[str, Any]]]:
    if sweep is None:
        return [("", {})]
    key, equals, values = sweep.partition("=")
    if not equals or not values:
        raise ConfigError(f"--sweep is {sweep!r}; write KEY=A,B,...")
    pairs = [f"{key}={value}" for value in dict.fromkeys(values.split(","))]
    return [(f"-{pair.replace('=', '-')}", parse_model_options([pair])) for pair in pairs]


class Progress:
    """Tells on standard error how far a job is."""

    def __init__(self, output: Output) -> None:
        self._terminal = output.terminal
        self._planned = 0
        self._done = 0

    def begin(self, trials: int) -> None:
        self._planned = trials

    def phase(self, trial: Trial, phase: Phase) -> None:
        again = f" (try {trial.tries})" if trial.tries > 1 else ""
        self._terminal.transient(f"[{self._done + 1}/{self._planned}] {trial.name}{again}: {phase}")

    def row(self, row: Row) -> None:
        self._done += 1
        reward = "" if row.reward is None else f", reward {row.reward:g}"
        why = "" if row.error is None else f": {one_line(row.error.message)}"
        self._terminal.line(f"[{self._done}/{self._planned}] {row.trial}: {row.status}{reward}{why}")
