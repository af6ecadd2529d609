"""Checking tasks: they are read, solved, left alone, cheated and played, and every outcome must be the right one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from chimera.bench.agents import NoOp, Oracle
from chimera.bench.cheat import Cheat, Touching
from chimera.bench.isolation import Isolation
from chimera.bench.job import Arm, Job
from chimera.bench.lint import lint
from chimera.bench.proof import proofs
from chimera.bench.report import EXIT_CHECK, EXIT_INCOMPLETE, EXIT_INTERRUPTED, EXIT_OK
from chimera.bench.row import Row
from chimera.bench.task import BenchTask, load_task, task_folders
from chimera.errors import ConfigError

AGENTS = (Oracle(), Touching(), NoOp(), Cheat())
ATTEMPTS = 3
"""Of each agent: one could be luck."""
# So that a slower machine than this one keeps the limits, too.
_SHARE_OF_LIMIT = 1 / 3


class Checked(Struct, frozen=True, kw_only=True):
    """What checking one task came to."""

    task: str
    faults: tuple[str, ...]
    skipped: str | None = None
    """Why its trials say nothing here."""

    def fields(self) -> dict[str, Any]:
        """As JSON values."""
        return {"task": self.task, "faults": list(self.faults), "skipped": self.skipped}


class CheckReport(Struct, frozen=True, kw_only=True):
    """What checking came to."""

    tasks: tuple[Checked, ...]
    isolation: Isolation
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return EXIT_INTERRUPTED
        if any(task.faults for task in self.tasks):
            return EXIT_CHECK
        return EXIT_INCOMPLETE if any(task.skipped for task in self.tasks) else EXIT_OK

    def fields(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "isolation": self.isolation,
            "passed": self.exit_code == EXIT_OK,
            "tasks": [task.fields() for task in self.tasks],
        }

    def text(self) -> str:
        """For people."""
        lines = []
        for task in self.tasks:
            verdict = "FAILED" if task.faults else f"skipped: {task.skipped}" if task.skipped else "ok"
            lines += [f"{task.task}: {verdict}", *(f"  {fault}" for fault in task.faults)]
        weak = "; it hides nothing, so the cheat did not search the disk" if self.isolation == "copy" else ""
        good = sum(not task.faults and not task.skipped for task in self.tasks)
        return "\n".join(
            [*lines, "", f"{good} of {len(self.tasks)} tasks are in order; isolation: {self.isolation}{weak}"]
        )


def check(
    path: Path,
    output: Path,
    *,
    isolation: Isolation,
    jobs: int = 1,
    attempts: int = ATTEMPTS,
    only_lint: bool = False,
    **told: Any,
) -> CheckReport:
    """Check the tasks at a path: lint; the oracle passes, also with a file touched; nobody passes; the cheat is noticed.

    Generated tasks are also played: a scripted policy must take the windows and compactions that they declare. A task that cannot be read is a fault of the task.

    Args:
        path: a task, a suite or a folder of suites.
        output: for the results and logs of the trials.
        isolation: of the trials.
        jobs: trials at once.
        attempts: of each agent.
        only_lint: read the files and run nothing.
        **told: `on_begin`, `on_phase` and `on_row` of `Job`.

    Raises:
        ConfigError: there is no task.
    """
    unreadable: list[Checked] = []
    tasks: list[BenchTask] = []
    for folder in task_folders(path):
        try:
            tasks.append(load_task(folder))
        except ConfigError as fault:
            unreadable.append(Checked(task=folder.name, faults=(str(fault),)))
    found = {task.name: lint(task) for task in tasks}
    solvable = [task for task in tasks if (task.solution / "solve.sh").is_file()]
    rows: tuple[Row, ...] = ()
    interrupted = False
    if solvable and not only_lint:
        report = Job(
            tasks=tuple(solvable),
            arms=tuple(Arm.of(agent) for agent in AGENTS),
            output=output,
            isolation=isolation,
            attempts=attempts,
            jobs=jobs,
            **told,
        ).run()
        rows, interrupted = report.rows, report.interrupted
    if not only_lint and not interrupted:
        for name, faults in proofs(tasks, workers=jobs).items():
            found[name] += faults
    checked = [_checked(task, found[task.name], rows) for task in tasks]
    return CheckReport(tasks=(*unreadable, *checked), isolation=isolation, interrupted=interrupted)


def _checked(task: BenchTask, found: Sequence[str], rows: Sequence[Row]) -> Checked:
    mine = [row for row in rows if row.task == task.name]
    skipped = next((row.error.message for row in mine if row.status == "skipped" and row.error), None)
    faults = [*found]
    if not skipped:
        faults += [f"{row.trial}: {fault}" for row in mine if (fault := _fault(task, row))]
    return Checked(task=task.name, faults=tuple(faults), skipped=skipped)


def _fault(task: BenchTask, row: Row) -> str | None:
    """What is wrong with the outcome of one trial."""
    said = f" ({row.error.message})" if row.error else ""
    if row.agent == "cheat":
        return _fault_of_cheat(row, said)
    wanted = 0.0 if row.agent == "noop" else 1.0
    if row.status != "graded" or row.reward != wanted:
        reward = "no reward" if row.reward is None else f"reward {row.reward:g}"
        return f"{row.status} with {reward}{said}; it must be graded with {wanted:g}"
    if row.tampered:
        return f"counts as tampered with {', '.join(row.tampered)}, without any cheating"
    limits = {"agent": task.agent_timeout_s, "verify": task.verifier_timeout_s}
    for phase, limit in limits.items():
        if (spent := row.seconds.get(phase, 0.0)) > limit * _SHARE_OF_LIMIT:  # type: ignore[call-overload]
            return f"phase {phase} took {spent:.1f} s, more than a third of its limit of {limit:g} s"
    return None


def _fault_of_cheat(row: Row, said: str) -> str | None:
    if row.passed:
        return "passes without doing the work"
    if row.status == "verifier_error" or (row.status == "graded" and row.reward == 0 and row.tampered):
        return None
    if row.status == "graded":
        return (
            f"gets {row.reward:g} and goes unnoticed; name what it changed in metadata.chimera.protected"
            if not row.tampered
            else f"gets {row.reward:g}; it must get 0"
        )
    return f"ended as {row.status}{said}"
