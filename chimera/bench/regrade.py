"""Grading again what agents left behind, with the tests as they are now."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from chimera.bench.grading import grade
from chimera.bench.isolation import Isolation
from chimera.bench.report import Report
from chimera.bench.results import JOB, SUMMARY, TRIALS, open_results, read_record, read_rows, write_json
from chimera.bench.row import Row, TrialError
from chimera.bench.task import BenchTask
from chimera.errors import ConfigError


class Regraded(Struct, frozen=True, kw_only=True):
    """What grading again came to."""

    rows: tuple[Row, ...]
    changed: tuple[str, ...]
    """The trials with another outcome, for people."""
    planned: int

    @property
    def report(self) -> Report:
        return Report(rows=self.rows, planned=self.planned)


def regrade(run: Path, tasks: Sequence[BenchTask], output: Path, *, isolation: Isolation) -> Regraded:
    """Grade the kept working trees of a job and write the outcome as a job of its own.

    A trial whose tree was not kept is `skipped`; one that had no tree to grade stays as it is.

    Raises:
        ConfigError: there is no such job, a task of it is not among these, or `output` holds results already.
    """
    record = read_record(run)
    by_name = {task.name: task for task in tasks}
    if missing := sorted(record.tasks.keys() - by_name):
        raise ConfigError(f"these tasks of the job are not here: {', '.join(missing)}")
    rows: list[Row] = []
    changed: list[str] = []
    with open_results(output, resume=False) as results:
        fresh = replace(
            record,
            job=output.name,
            tasks={name: by_name[name].digest for name in record.tasks},
            settings={**record.settings, "regraded_from": record.job},
        )
        write_json(output / JOB, fresh.fields())
        for row in read_rows(run):
            again = _again(row, by_name[row.task], run, output, isolation)
            if (again.status, again.reward) != (row.status, row.reward):
                changed.append(f"{row.trial}: {_outcome(row)} -> {_outcome(again)}")
            results.append(again)
            rows.append(again)
    regraded = Regraded(rows=tuple(rows), changed=tuple(changed), planned=len(record.planned))
    write_json(output / SUMMARY, regraded.report.summary())
    return regraded


def _again(row: Row, task: BenchTask, run: Path, output: Path, isolation: Isolation) -> Row:
    row = replace(row, task_digest=task.digest)
    if row.status not in {"graded", "verifier_error"}:
        return row
    tree = run / TRIALS / row.trial / "workspace"
    if not tree.is_dir():
        why = TrialError(
            phase="verify", kind="no_tree", message="its working tree was not kept; run with --keep all"
        )
        return replace(row, status="skipped", reward=None, passed=False, error=why)
    verdict = grade(task, tree, isolation=isolation, logs=output / TRIALS / row.trial / "verifier")
    if verdict.reward is None:
        why = TrialError(phase="verify", kind="no_reward", message=verdict.fault or "")
        return replace(
            row, status="verifier_error", reward=None, passed=False, tampered=verdict.tampered, error=why
        )
    return replace(
        row,
        status="graded",
        reward=verdict.reward,
        passed=verdict.reward == 1,
        tampered=verdict.tampered,
        error=None,
    )


def _outcome(row: Row) -> str:
    return row.status if row.reward is None else f"{row.status} {row.reward:g}"
