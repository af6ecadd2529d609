"""The life of one trial: a fresh tree, an agent, the end of all its processes, grading in a second tree."""

from __future__ import annotations

import errno
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from chimera.bench.agents import BenchAgent, Desk, Work
from chimera.bench.grading import grade
from chimera.bench.isolation import Isolation, Network, private_folder, unmet_need
from chimera.bench.row import ContextUse, Phase, Row, Status, Tokens, TrialError
from chimera.bench.task import BenchTask
from chimera.bench.tree import copy_files, make_start_tree
from chimera.core.state import StopReason
from chimera.errors import ChimeraError, ConfigError, WorkspaceError
from chimera.workspace.checkpoint import ShadowRepository

Keep = Literal["all", "failed", "none"]
"""Whose working trees stay in the trial's folder."""

_STATUS: dict[str, Status] = {
    StopReason.MODEL_ERROR: "provider_error",
    StopReason.AUTH_ERROR: "provider_error",
    StopReason.INTERNAL_ERROR: "agent_error",
    StopReason.SANDBOX_UNAVAILABLE: "infra_error",
    StopReason.WORKSPACE_LOCKED: "infra_error",
    StopReason.STATE_UNWRITABLE: "infra_error",
    StopReason.INTERRUPTED: "interrupted",
}
"""What an end says about the trial. All other ends are graded: stopping at a limit is a result as well."""

_OF_MACHINE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO),
    *(errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN),
}
"""Faults of disk, memory and process table."""


class Trial(Struct, kw_only=True):
    """One attempt of an agent at a task. `run` is called once."""

    task: BenchTask
    agent: BenchAgent
    attempt: int
    isolation: Isolation
    folder: Path
    """Its logs; must not exist yet."""
    keep: Keep = "failed"
    arm: str = ""
    """The agent's name where it is empty."""
    network: Network = "none"
    timeout_multiplier: float = 1.0
    """Of the task's limits. Anything but 1 makes the row one that is not comparable."""
    tries: int = 1
    """Counted from 1: with the one to come."""
    hidden: Sequence[Path] = ()
    notify: Callable[[Trial, Phase], None] = lambda trial, phase: None
    """Told at the beginning of each phase."""
    seconds: dict[Phase, float] = field(default_factory=dict)
    phase: Phase = "setup"
    started: str = ""

    @property
    def name(self) -> str:
        """Unique in a job."""
        return f"{self.task.short_name}.{self.arm or self.agent.name}.{self.attempt}"

    def run(self) -> Row:
        """Live the trial.

        Raises:
            ConfigError: the agent cannot work with its settings, on this task or any other.
        """
        self.started = datetime.now(UTC).isoformat(timespec="seconds")
        if lack := unmet_need(self.task, self.isolation):
            return self.row("skipped", error=self.error("unmet_need", lack))
        try:
            self.folder.mkdir(parents=True)
            with private_folder("bench") as desk:
                return self._live(desk)
        except ConfigError:
            raise
        except Exception as fault:  # noqa: BLE001  (one odd trial must not cost a job of hours; the row tells it)
            self._keep_trace()
            return self.row("infra_error", error=self.error(type(fault).__name__, str(fault)))

    def _keep_trace(self) -> None:
        with suppress(OSError):
            (self.folder / "fault.txt").write_text(traceback.format_exc(), encoding="utf-8")

    def row(self, status: Status, **known: Any) -> Row:
        """The row of this trial."""
        if status == "agent_error":
            known.setdefault("reward", 0.0)
        return Row(
            trial=self.name,
            task=self.task.name,
            task_digest=self.task.digest,
            suite=self.task.suite,
            attempt=self.attempt,
            agent=self.agent.name,
            isolation=self.isolation,
            status=status,
            seed=self.task.seed,
            arm=self.arm or self.agent.name,
            network=self.network,
            comparable=self.timeout_multiplier == 1,
            started=self.started,
            tries=self.tries,
            seconds={phase: round(spent, 3) for phase, spent in self.seconds.items()},
            **{"model": self.agent.model, **known},
        )

    def _live(self, desk: Path) -> Row:
        tree = desk / "app"
        with self._timed("setup"):
            make_start_tree(self.task, tree)
            shadow = ShadowRepository(desk / "shadow", tree)
            start = shadow.snapshot().tree
        with self._timed("agent"):
            work = self._work(
                Desk(
                    folder=desk,
                    tree=tree,
                    isolation=self.isolation,
                    logs=self.folder,
                    hidden=self.hidden,
                    network=self.network,
                    attempt=self.attempt,
                )
            )
        patch, changed = _changes(shadow, start)
        (self.folder / "patch.diff").write_text(patch, encoding="utf-8")
        row = replace(self._judge(work, tree), **changed)
        if self.keep == "all" or (self.keep == "failed" and not row.passed):
            copy_files(tree, self.folder / "workspace")
        return row

    def _work(self, desk: Desk) -> Work:
        """The agent's own account. A bug of an agent is part of its result, and its trace is kept."""
        try:
            return self.agent.work(self._limited_task(), desk)
        except Exception as fault:
            if _is_of_machine(fault):
                raise
            self._keep_trace()
            return Work(fault=f"{type(fault).__name__}: {fault} (see fault.txt)")

    def _limited_task(self) -> BenchTask:
        factor = self.timeout_multiplier
        return replace(
            self.task,
            agent_timeout_s=self.task.agent_timeout_s * factor,
            verifier_timeout_s=self.task.verifier_timeout_s * factor,
        )

    def _judge(self, work: Work, tree: Path) -> Row:
        if work.skipped:
            return self.row("skipped", error=self.error("not_begun", work.skipped))
        known = _known(work)
        status: Status = "agent_error" if work.fault else _STATUS.get(work.stop_reason or "", "graded")
        if status != "graded":
            message = work.fault or (work.run.message if work.run else "")
            return self.row(status, error=self.error(work.stop_reason or "failed", message), **known)
        with self._timed("verify"):
            verdict = grade(
                self._limited_task(), tree, isolation=self.isolation, logs=self.folder / "verifier"
            )
        known["tampered"] = verdict.tampered
        if verdict.reward is None:
            return self.row("verifier_error", error=self.error("no_reward", verdict.fault or ""), **known)
        return self.row("graded", reward=verdict.reward, passed=verdict.reward == 1, **known)

    def error(self, kind: str, message: str) -> TrialError:
        """What went wrong in the present phase."""
        return TrialError(phase=self.phase, kind=kind, message=message)

    @contextmanager
    def _timed(self, phase: Phase) -> Iterator[None]:
        self.phase = phase
        self.notify(self, phase)
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[phase] = time.monotonic() - began


def _is_of_machine(fault: Exception) -> bool:
    """Whether the machine failed, or the settings: nothing that the agent did."""
    if isinstance(fault, OSError):
        return fault.errno in _OF_MACHINE
    return isinstance(fault, ChimeraError | MemoryError)


def _changes(shadow: ShadowRepository, start: str) -> tuple[str, dict[str, Any]]:
    """What the agent changed, as a patch for people and as fields of a row; grading does not depend on it."""
    try:
        end = shadow.snapshot().tree
        files = shadow.changes(start, end)
        counts = {
            "files_changed": len(files),
            "lines_added": sum(file.added for file in files),
            "lines_removed": sum(file.removed for file in files),
        }
        return shadow.diff(start, end), counts
    except WorkspaceError as fault:
        return f"no patch: {fault}\n", {}


def _known(work: Work) -> dict[str, Any]:
    """The fields of a row that the agent's own account fills."""
    run = work.run
    if run is None:
        return {"stop_reason": work.stop_reason}
    if run.stop_reason is StopReason.USAGE_ERROR:
        raise ConfigError(run.message)
    known: dict[str, Any] = {
        "stop_reason": work.stop_reason,
        "claimed_done": run.stop_reason is StopReason.ANSWERED,
        "steps": run.steps,
        "tokens": Tokens.of(run.usage) if run.usage else None,
        "cost_usd": run.usage.cost_usd if run.usage else None,
        "context": ContextUse.of(run, work.measures),
        "run_dir": run.run_dir,
    }
    if (measures := work.measures) is not None:
        known |= {
            "invariants": measures.invariants,
            "rework": measures.rework,
            "summariser_tokens": measures.summariser_tokens,
        }
    return known | ({"model": run.model} if run.model else {})
