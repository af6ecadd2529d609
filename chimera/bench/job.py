"""A job: every planned trial in turn, each row on disk before the next trial begins."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from chimera.bench.agents import BenchAgent
from chimera.bench.isolation import Isolation, hidden_folders
from chimera.bench.report import Report
from chimera.bench.row import Phase, Row
from chimera.bench.task import BenchTask
from chimera.bench.trial import Keep, Trial
from chimera.errors import ConfigError, RecordError

RESULTS = "results.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to run and where to put the results."""

    tasks: tuple[BenchTask, ...]
    agent: BenchAgent
    output: Path
    isolation: Isolation
    attempts: int = 1
    keep: Keep = "failed"
    on_phase: Callable[[Trial, Phase], None] = lambda trial, phase: None
    on_row: Callable[[Row], None] = lambda row: None

    def run(self) -> Report:
        """Run all trials and write `results.jsonl`, `summary.json` and the logs in `trials/`.

        An interruption ends the job: the report says so and the trial has a row. Anything else that escapes from a
        trial is a bug in chimera: the trial gets a row, then it surfaces.

        Raises:
            ConfigError: the agent can never do one of the tasks, or the output folder holds results already.
            RecordError: the output folder cannot be written.
        """
        for task in self.tasks:
            self.agent.check(task)
        output = self.output.resolve()
        if Path(tempfile.gettempdir()).resolve().is_relative_to(output):
            raise ConfigError(
                f"{str(output)!r} holds the folder for temporary files; choose another folder for output"
            )
        rows: list[Row] = []
        interrupted = False
        with _results(output) as append:
            for trial in self._trials(output):
                try:
                    row = trial.run()
                except KeyboardInterrupt:
                    row = trial.row("interrupted")
                except ConfigError:
                    raise
                except BaseException as fault:
                    append(trial.row("agent_error", error=trial.error(type(fault).__name__, str(fault))))
                    raise
                append(row)
                rows.append(row)
                self.on_row(row)
                if interrupted := row.status == "interrupted":
                    break
        report = Report(rows=tuple(rows), planned=len(self.tasks) * self.attempts, interrupted=interrupted)
        _write(output / "summary.json", json.dumps(report.summary(), indent=2) + "\n")
        return report

    def _trials(self, output: Path) -> Iterator[Trial]:
        hidden = hidden_folders(self.tasks, output)
        for task in self.tasks:
            for attempt in range(1, self.attempts + 1):
                yield Trial(
                    task=task,
                    agent=self.agent,
                    attempt=attempt,
                    isolation=self.isolation,
                    folder=output / "trials" / f"{task.short_name}.{self.agent.name}.{attempt}",
                    keep=self.keep,
                    hidden=hidden,
                    notify=self.on_phase,
                )


@contextmanager
def _results(output: Path) -> Iterator[Callable[[Row], None]]:
    """Appends rows to a new results file, each with one write, on disk when it returns."""
    path = output / RESULTS
    try:
        output.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as fault:
        raise ConfigError(
            f"{str(output)!r} holds results already; choose another folder for output"
        ) from fault
    except OSError as fault:
        raise _unwritable(output, fault) from fault

    def append(row: Row) -> None:
        try:
            os.write(descriptor, json.dumps(row.fields(), separators=(",", ":")).encode() + b"\n")
            os.fsync(descriptor)
        except OSError as fault:
            raise _unwritable(output, fault) from fault

    try:
        yield append
    finally:
        os.close(descriptor)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise _unwritable(path, fault) from fault


def _unwritable(path: Path, fault: OSError) -> RecordError:
    return RecordError(f"results cannot be written to {str(path)!r}: {fault.strerror or fault}")


def new_output(state_dir: Path) -> Path:
    """A folder for the results of a new job, sorted by time in `bench/` of the state directory."""
    return state_dir / "bench" / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
