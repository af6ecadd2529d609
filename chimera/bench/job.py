"""A job: every planned trial, each row on disk as soon as there is one, to be gone on with after any end."""

from __future__ import annotations

import re
import secrets
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from chimera.bench.agents import BenchAgent
from chimera.bench.isolation import Isolation, Network, hidden_folders
from chimera.bench.on_ray import OnRay
from chimera.bench.report import Report
from chimera.bench.results import (
    JOB,
    SUMMARY,
    TRIALS,
    JobRecord,
    Results,
    new_record,
    open_results,
    read_record,
    read_rows,
    write_json,
)
from chimera.bench.row import RETRIED, SCORED, Phase, Row
from chimera.bench.task import BenchTask
from chimera.bench.trial import Keep, Trial
from chimera.bench.workers import Finished, InProcesses, InTurn, Workers
from chimera.core.state import StopReason
from chimera.errors import ConfigError

Redo = Literal["errored", "failed", "all"]
"""Which finished trials of a resumed job are run again. `failed`: whatever was not passed."""
Executor = Literal["local", "ray"]
"""Where trials run: in processes of this machine, or on a Ray cluster."""
# A provider that is out of order, or a full disk, wants minutes rather than seconds.
_FIRST_DELAY_S = 10.0
# With the task's name in front it must stay a name that file systems take.
_MOST_OF_NAME = 120


class Arm(Struct, frozen=True, kw_only=True):
    """An agent with its settings: what the trials of a task are compared by."""

    name: str
    """Unique in a job, and a name for a folder."""
    agent: BenchAgent
    settings: Mapping[str, Any] = field(default_factory=dict)
    """All of its own that can change a result, as JSON values."""

    @classmethod
    def of(cls, agent: BenchAgent) -> Arm:
        """The only arm of its agent."""
        return cls(name=agent.name, agent=agent)


def arm_names(wanted: Sequence[str]) -> tuple[str, ...]:
    """As wanted, but each a name for a folder, and each once."""
    found: list[str] = []
    for name in wanted:
        short = re.sub(r"(?a)[^\w=+,~-]+", lambda odd: "." if odd[0] == "." else "-", name)[:_MOST_OF_NAME]
        number = 1
        while (unique := short if number == 1 else f"{short}~{number}") in found:
            number += 1
        found.append(unique)
    return tuple(found)


class Job(Struct, frozen=True, kw_only=True):
    """What to run and where to put the results."""

    tasks: tuple[BenchTask, ...]
    arms: tuple[Arm, ...]
    output: Path
    isolation: Isolation
    network: Network = "none"
    attempts: int = 1
    jobs: int = 1
    """Trials at once. With more than one, each has a process of its own."""
    executor: Executor = "local"
    infra_retries: int = 0
    """How often a trial is begun again that says nothing about the agent."""
    timeout_multiplier: float = 1.0
    max_cost: float | None = None
    """US dollars for the whole job: no trial begins once it is spent."""
    keep: Keep = "failed"
    resume: bool = False
    redo: Redo | None = None
    first_delay_s: float = _FIRST_DELAY_S
    """Before the first of the retries; doubled for each more."""
    on_begin: Callable[[int], None] = lambda trials: None
    """Told how many trials there are to run."""
    on_phase: Callable[[Trial, Phase], None] = lambda trial, phase: None
    on_row: Callable[[Row], None] = lambda row: None

    def run(self) -> Report:
        """Run all trials and write `job.json`, `results.jsonl`, `summary.json` and the logs in `trials/`.

        An interruption ends the job: the report says so and each trial that had begun has a row. A bug of an agent is a
        failed trial, one of ours a trial without a grade; `fault.txt` in its folder has the trace.

        Raises:
            ConfigError: the agent can never do one of the tasks, the output folder holds other results or another
                configuration.
            RecordError: the output folder cannot be written.
        """
        for task in self.tasks:
            for arm in self.arms:
                arm.agent.check(task)
        output = self.output.resolve()
        if Path(tempfile.gettempdir()).resolve().is_relative_to(output):
            raise ConfigError(
                f"{str(output)!r} holds the folder for temporary files; choose another folder for output"
            )
        trials = {trial.name: trial for trial in self._trials(output)}
        record = self._record(output, trials)
        if self.resume:
            _check_same(record, read_record(output))
        with open_results(output, resume=self.resume) as results:
            rows = {row.trial: row for row in read_rows(output)} if self.resume else {}
            if not self.resume:
                write_json(output / JOB, record.fields())
            waiting = deque(trial for name, trial in trials.items() if self._is_open(rows.get(name)))
            self.on_begin(len(waiting))
            end = _Run(job=self, results=results, rows=rows, waiting=waiting)
            with closing(self._workers()) as workers:
                end.go(workers)
        report = Report(
            rows=tuple(rows[name] for name in trials if name in rows),
            planned=len(trials),
            interrupted=end.interrupted,
            capped=end.capped,
        )
        write_json(output / SUMMARY, report.summary())
        return report

    def _trials(self, output: Path) -> Iterator[Trial]:
        hidden = hidden_folders(self.tasks, output)
        for task in self.tasks:
            for arm in self.arms:
                for attempt in range(1, self.attempts + 1):
                    yield Trial(
                        task=task,
                        agent=arm.agent,
                        arm=arm.name,
                        attempt=attempt,
                        isolation=self.isolation,
                        network=self.network,
                        timeout_multiplier=self.timeout_multiplier,
                        folder=output / TRIALS / f"{task.short_name}.{arm.name}.{attempt}",
                        keep=self.keep,
                        hidden=hidden,
                    )

    def _record(self, output: Path, trials: Mapping[str, Trial]) -> JobRecord:
        settings = {
            "arms": {
                arm.name: {"agent": arm.agent.name, "model": arm.agent.model, **arm.settings}
                for arm in self.arms
            },
            "attempts": self.attempts,
            "isolation": self.isolation,
            "network": self.network,
            "timeout_multiplier": self.timeout_multiplier,
        }
        return new_record(output, settings, self.tasks, trials)

    def _is_open(self, row: Row | None) -> bool:
        """Whether a trial is to be run in this job, given what an earlier part of the job made of it."""
        if row is None or row.status == "interrupted" or self.redo == "all":
            return True
        errored = row.status not in SCORED or row.status == "agent_error"
        return (self.redo is not None and errored) or (self.redo == "failed" and not row.passed)

    def _workers(self) -> Workers:
        if self.executor == "ray":
            return OnRay(self.jobs, self.on_phase)
        return InTurn(self.on_phase) if self.jobs == 1 else InProcesses(self.jobs, self.on_phase)


class _Run(Struct, kw_only=True):
    """One go at the open trials of a job."""

    job: Job
    results: Results
    rows: dict[str, Row]
    waiting: deque[Trial]
    interrupted: bool = False
    capped: bool = False
    lost: float = 0.0
    """US dollars for tries that were begun again, and so have no row."""

    def go(self, workers: Workers) -> None:
        try:
            while self._feed(workers):
                self._take(workers.next())
                if self.interrupted:
                    break
        except KeyboardInterrupt:
            self.interrupted = True
        if self.interrupted:
            workers.stop()
            while workers.busy:
                self._take(workers.next())

    def _feed(self, workers: Workers) -> bool:
        """Start what there is room for; whether anything runs."""
        if self._is_spent():
            self.capped = self.capped or bool(self.waiting)
            self.waiting.clear()
        while self.waiting and workers.free:
            trial = self.waiting.popleft()
            _set_aside(trial.folder)
            workers.start(trial, self.job.first_delay_s * 2 ** (trial.tries - 2) if trial.tries > 1 else 0.0)
        return workers.busy

    def _is_spent(self, more: float = 0.0) -> bool:
        """Whether the job has cost what it may; of a model without prices nobody knows."""
        rows = sum(row.cost_usd or 0.0 for row in self.rows.values())
        return self.job.max_cost is not None and rows + self.lost + more >= self.job.max_cost

    def _take(self, finished: Finished) -> None:
        trial, row = finished.trial, finished.row
        again = (
            row.status in RETRIED
            and row.stop_reason != StopReason.AUTH_ERROR
            and trial.tries <= self.job.infra_retries
            and not self.interrupted
            and not self._is_spent(row.cost_usd or 0.0)
        )
        if again:
            self.lost += row.cost_usd or 0.0
            self.waiting.append(replace(trial, tries=trial.tries + 1, phase="setup", seconds={}))
            return
        self.results.append(row)
        self.rows[row.trial] = row
        self.job.on_row(row)
        self.interrupted = self.interrupted or row.status == "interrupted"


def _set_aside(folder: Path) -> None:
    """Keep what an earlier try left, under another name."""
    if folder.exists():
        number = 1
        while (aside := folder.with_name(f"{folder.name}~{number}")).exists():
            number += 1
        folder.rename(aside)


def _check_same(now: JobRecord, then: JobRecord) -> None:
    if differences := now.differences(then):
        raise ConfigError(
            f"the job in this folder was begun otherwise, so it cannot be gone on with: {'; '.join(differences)}"
        )


def new_output(state_dir: Path) -> Path:
    """A folder for the results of a new job, sorted by time in `bench/` of the state directory."""
    return state_dir / "bench" / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
