"""Where trials run: one after the other in this process, or several at once in processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from pickle import PicklingError
from types import FrameType
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

import chimera
from chimera.bench.isolation import remove_folders_of
from chimera.bench.row import Phase, Row
from chimera.bench.trial import Trial
from chimera.config import process_environment, set_default_environment, variables_set_aside
from chimera.errors import ConfigError
from chimera.interruption import Interrupted
from chimera.workspace.secret_variables import secret_variables

OnPhase = Callable[[Trial, Phase], None]
# An interrupted trial ends its own processes first; one that takes longer is stuck.
_GRACE_S = 30.0


class Finished(Struct, frozen=True, kw_only=True):
    """A trial and what came of it."""

    trial: Trial
    row: Row


class Workers(Protocol):
    """Runs trials. At most as many at once as there is room for."""

    @property
    def free(self) -> bool:
        """There is room for one more trial."""
        ...

    @property
    def busy(self) -> bool:
        """Some trial has no row yet."""
        ...

    def start(self, trial: Trial, delay_s: float = 0.0) -> None:
        """Run a trial, after a delay."""
        ...

    def next(self) -> Finished:
        """The next trial that ends."""
        ...

    def stop(self) -> None:
        """Interrupt whatever runs. Each trial still has a row to fetch."""
        ...

    def close(self) -> None:
        """End whatever still runs, without a row."""
        ...


class InTurn:
    """One trial at a time, here. `next` does the work."""

    def __init__(self, on_phase: OnPhase, sleep: Callable[[float], None] = time.sleep) -> None:
        self._on_phase = on_phase
        self._sleep = sleep
        self._waiting: tuple[Trial, float] | None = None

    @property
    def free(self) -> bool:
        return self._waiting is None

    @property
    def busy(self) -> bool:
        return self._waiting is not None

    def start(self, trial: Trial, delay_s: float = 0.0) -> None:
        self._waiting = trial, delay_s

    def next(self) -> Finished:
        assert self._waiting is not None
        (trial, delay_s), self._waiting = self._waiting, None
        trial.notify = self._on_phase
        try:
            if delay_s:
                self._sleep(delay_s)
            return Finished(trial=trial, row=trial.run())
        except KeyboardInterrupt:
            return Finished(trial=trial, row=trial.row("interrupted"))

    def stop(self) -> None:
        self._waiting = None

    def close(self) -> None:
        pass


class InProcesses:
    """Several trials at once, each in a process of its own that ends with it, and with this process.

    A process that is killed costs its trial a row of `infra_error` and nothing else.
    """

    def __init__(self, jobs: int, on_phase: OnPhase) -> None:
        self._jobs = jobs
        self._on_phase = on_phase
        self._context = multiprocessing.get_context("spawn")
        self._running: dict[Connection, tuple[Trial, SpawnProcess]] = {}
        self._stopping = False

    @property
    def free(self) -> bool:
        return len(self._running) < self._jobs

    @property
    def busy(self) -> bool:
        return bool(self._running)

    def start(self, trial: Trial, delay_s: float = 0.0) -> None:
        here, there = self._context.Pipe(duplex=False)
        bare = replace(trial, notify=say_nothing)
        secrets = secret_variables(process_environment())
        arguments = (bare, delay_s, there, dict(secrets))
        process = self._context.Process(target=_live, args=arguments, name=trial.name)
        try:
            # What a process was started with can be read by others as long as it lives.
            with variables_set_aside(secrets), _chimera_on_import_path():
                process.start()
        except (PicklingError, TypeError, AttributeError) as fault:
            raise ConfigError(
                f"agent {trial.agent.name!r} cannot be handed to another process ({fault}); use --jobs 1"
            ) from fault
        there.close()
        self._running[here] = trial, process

    def next(self) -> Finished:
        while True:
            for connection in wait(list(self._running)):
                assert isinstance(connection, Connection)
                if finished := self._listen(connection):
                    return finished

    def _listen(self, connection: Connection) -> Finished | None:
        trial, process = self._running[connection]
        try:
            kind, *said = connection.recv()
        except EOFError:
            process.join()
            remove_folders_of(process.pid or 0)
            kind, said = "lost", [f"the process of the trial ended with exit code {process.exitcode}"]
        if kind == "phase":
            trial.phase = said[0]
            self._on_phase(trial, said[0])
            return None
        del self._running[connection]
        process.join()
        connection.close()
        match kind:
            case "row":
                return Finished(trial=trial, row=said[0])
            case "config":
                raise ConfigError(said[0])
            case _ if self._stopping:
                # It was ended before it could even begin to listen.
                return Finished(trial=trial, row=trial.row("interrupted"))
            case _:
                return Finished(trial=trial, row=trial.row("infra_error", error=trial.error("lost", said[0])))

    def stop(self) -> None:
        self._stopping = True
        for _, process in self._running.values():
            process.terminate()

    def close(self) -> None:
        self.stop()
        for connection, (_, process) in self._running.items():
            process.join(_GRACE_S)
            if process.is_alive():
                process.kill()
                process.join()
                remove_folders_of(process.pid or 0)
            connection.close()
        self._running.clear()


def say_nothing(trial: Trial, phase: Phase) -> None:
    """Notify nobody: what a trial has on its way to another process."""


@contextmanager
def _chimera_on_import_path() -> Iterator[None]:
    """A new process gets the import path of this one, which may lack the place that chimera itself was loaded from."""
    home = str(Path(chimera.__file__).parents[1])
    if home in sys.path:
        yield
        return
    sys.path.append(home)
    try:
        yield
    finally:
        sys.path.remove(home)


def _live(trial: Trial, delay_s: float, told: Connection, secrets: Mapping[str, str]) -> None:
    """The whole life of a process: one trial."""
    set_default_environment(secrets)
    # A Ctrl-C reaches every process of the terminal; the one that began them decides what ends.
    signal.signal(signal.SIGINT, lambda number, frame: None)
    signal.signal(signal.SIGTERM, _interrupt)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    told.send(life_of(replace(trial, notify=lambda _, phase: told.send(("phase", phase))), delay_s))


def life_of(trial: Trial, delay_s: float) -> tuple[Any, ...]:
    """Live a trial, after a delay: ("row", its row), or ("config", what cannot be)."""
    try:
        time.sleep(delay_s)
        return "row", trial.run()
    except KeyboardInterrupt:
        return "row", trial.row("interrupted")
    except ConfigError as fault:
        return "config", str(fault)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted("SIGTERM")


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)
