"""Agents that other processes can import."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from chimera.bench.agents import Desk, Oracle, Work, run_script
from chimera.bench.task import BenchTask
from chimera.config import process_environment
from chimera.core.state import RunResult, Stop, StopReason
from chimera.errors import ConfigError


@dataclass(frozen=True)
class Base:
    name: str = "base"
    model: str | None = None

    def check(self, task: BenchTask) -> None:
        pass


@dataclass(frozen=True)
class Dying(Base):
    """The oracle, but its process is killed in the second attempt."""

    name: str = "dying"

    def work(self, task: BenchTask, desk: Desk) -> Work:
        if desk.attempt == 2:
            (desk.logs / "desk.txt").write_text(str(desk.folder))
            os.kill(os.getpid(), signal.SIGKILL)
        return Oracle().work(task, desk)


@dataclass(frozen=True)
class Sleeping(Base):
    """Does nothing in the first attempt and never ends in the others, once it has said that it began."""

    name: str = "sleeping"
    mark: str = "600"
    begun: Path = Path()

    def work(self, task: BenchTask, desk: Desk) -> Work:
        if desk.attempt == 1:
            while len(list(self.begun.iterdir())) < 1:
                pass
            return Work()
        (self.begun / str(desk.attempt)).touch()
        return run_script(f"sleep {self.mark}", "sleep", {}, task, desk)


@dataclass(frozen=True)
class Flaky(Base):
    """Fails for the provider until a folder holds as many files as it must; then the oracle."""

    name: str = "flaky"
    tried: Path = Path()
    failures: int = 1
    reason: StopReason = StopReason.MODEL_ERROR

    def work(self, task: BenchTask, desk: Desk) -> Work:
        count = len(list(self.tried.iterdir()))
        (self.tried / str(count)).touch()
        if count < self.failures:
            result = RunResult.of_stop(Stop(self.reason, message="out of order"))
            return Work(stop_reason=str(self.reason), run=result)
        return Oracle().work(task, desk)


@dataclass(frozen=True)
class Picky(Base):
    """Finds out at work that it cannot."""

    name: str = "picky"

    def work(self, task: BenchTask, desk: Desk) -> Work:
        raise ConfigError("there is no such model")


@dataclass(frozen=True)
class Telling(Base):
    """Tells a secret that its process knows, and whether the process was started with it."""

    name: str = "telling"

    def work(self, task: BenchTask, desk: Desk) -> Work:
        secret = process_environment()["SOME_API_KEY"]
        started = secret.encode() in Path("/proc/self/environ").read_bytes()
        return Work(fault=f"known: {secret}; started with it: {started}")
