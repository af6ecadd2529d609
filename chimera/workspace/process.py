"""Runs commands: own session, bounded output, a limit that always fires, and nothing left behind at the end of a run."""

from __future__ import annotations

import math
import os
import secrets
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from chimera.errors import ToolError
from chimera.workspace import process_table
from chimera.workspace.output_buffer import OutputBuffer
from chimera.workspace.process_table import Process
from chimera.workspace.programs import DEFAULT_PATH, find_program
from chimera.workspace.sandbox import Sandbox

MARK_VARIABLE = "CHIMERA_MARK"
"""Environment variable by which the processes of a run are found again. Its value is the same for all of them."""

_TERM_GRACE_S = 2.0
_LINGER_S = 0.5
_POLL_S = 0.05
_CHUNK_BYTES = 64 * 1024
_KILL_ROUNDS = 50
# One argument may have 128 KiB on Linux (MAX_ARG_STRLEN, man 2 execve); longer commands come through a descriptor.
_ARGUMENT_BYTES = 100_000
_READ_SCRIPT = "IFS= read -r -d '' <&{fd}; exec {fd}<&-; eval \"$REPLY\""


class CommandResult(Struct, frozen=True, kw_only=True):
    """How a command ended and what it printed, standard output and error in the order of writing."""

    exit_code: int | None
    """As bash counts it: 128 + n for death by signal n. None when it was killed for its time."""
    timed_out: bool
    run_ended: bool
    """What was up was the time of the whole run, not the command's own."""
    output: bytes
    """Whole if at most 128 KiB, else head and tail with a line between them that says what is missing."""
    size: int
    """Bytes of the whole output."""
    spool: Path | None
    """File with the whole output (its first 50 MiB), only when `output` is cut. The caller's to move or delete."""
    left_running: bool
    """Processes that the command started are still there. `CommandRunner.close` ends them."""
    notes: tuple[str, ...]
    """What happened to git repositories of the workspace, one sentence each, for the model and the user."""
    duration_s: float


class CommandRunner:
    """Runs the commands of one run and remembers what they left running.

    Without a sandbox, a process that has left its session, cleared its environment and lost its parent is not found
    again; with bubblewrap it ends with its command.

    Args:
        root: working directory of every command.
        sandbox: wraps every command.
        environment: the whole environment of the commands.
        spool_dir: where the whole output of a command goes that printed much.
        grace_s: seconds between the request to end and the kill.
        linger_s: seconds to read on after the shell has ended while somebody still holds its output.
    """

    def __init__(
        self,
        root: Path,
        sandbox: Sandbox,
        environment: Mapping[str, str],
        spool_dir: Path,
        *,
        grace_s: float = _TERM_GRACE_S,
        linger_s: float = _LINGER_S,
    ) -> None:
        self.root = root
        self._sandbox = sandbox
        self._mark = secrets.token_hex(8)
        self._environment = {**environment, MARK_VARIABLE: self._mark}
        self._spool_dir = spool_dir
        self._grace_s = grace_s
        self._linger_s = linger_s
        self._left: set[Process] = set()
        self._scratch: Path | None = None
        self._bash: Path | None = None
        self.ends_at = math.inf
        """When the time of the run is up, by `time.monotonic`: no command goes on then."""
        self.notes: list[str] = []
        """Those of all results so far."""
        self._noted = 0

    def run(self, command: str, timeout_s: float) -> CommandResult:
        """Run `command` with bash and return when its shell has ended or the time is up.

        Raises:
            ToolError: the command could not be started.
        """
        if self.ends_at <= time.monotonic():
            raise ToolError("The time of the run is up, so nothing was started.")
        buffer = OutputBuffer(self._spool_dir)
        began = time.monotonic()
        first_tick = process_table.tick_now()
        try:
            with ExitStack() as confinement:
                with _script(command) as (arguments, descriptors):
                    process = self._start(arguments, descriptors, confinement)
                with process:
                    running = _Running(process, buffer)
                    timed_out = self._follow(
                        running,
                        min(began + timeout_s, self.ends_at),
                        lambda: self._family(process, first_tick),
                    )
        except KeyboardInterrupt:
            buffer.leave()
            self._note_repositories()
            raise
        except BaseException:
            buffer.discard()
            raise
        left = set() if timed_out else self._remaining(running, first_tick)
        self._left |= left
        output, spool = buffer.finish()
        notes = self._note_repositories()
        return CommandResult(
            exit_code=None if timed_out else _exit_code(process.returncode),
            timed_out=timed_out,
            run_ended=timed_out and self.ends_at < began + timeout_s,
            output=output,
            size=buffer.size,
            spool=spool,
            left_running=bool(left),
            notes=(*notes, *self._sandbox.denials(output)),
            duration_s=time.monotonic() - began,
        )

    def fresh_notes(self) -> list[str]:
        """The notes since the last call of this."""
        self._note_repositories()
        fresh, self._noted = self.notes[self._noted :], len(self.notes)
        return fresh

    def _note_repositories(self) -> tuple[str, ...]:
        notes = self._sandbox.guard.notes() if self._sandbox.guard else ()
        self.notes += notes
        return notes

    def close(self) -> None:
        """End every process that a command of this run has left behind, and remove their temporary files."""

        def still_there() -> set[Process]:
            now = process_table.living()
            sessions = {p.session for p in self._left if p.pid in now and now[p.pid].started == p.started}
            found = process_table.marked(MARK_VARIABLE, self._mark, now.values())
            for session in sessions:
                found |= process_table.started_by(session, now)
            return found

        if still_there():
            _end(still_there, self._grace_s, time.sleep)
        self._left.clear()
        if self._scratch is not None:
            _remove(self._scratch)
            self._scratch = None

    def _start(
        self, arguments: list[str], descriptors: tuple[int, ...], confinement: ExitStack
    ) -> subprocess.Popen[bytes]:
        if not self.root.is_dir():
            raise ToolError(f"The workspace {str(self.root)!r} is no longer there, so no command can start.")
        bash = self._bash = self._bash or find_program("bash", DEFAULT_PATH, outside=self.root)
        if bash is None:
            raise ToolError(
                f"There is no bash on {DEFAULT_PATH}, so no command can start. Use the file tools."
            )
        try:
            confined = confinement.enter_context(
                self._confinement().confine([str(bash), "--noprofile", "--norc", "-c", *arguments])
            )
            return subprocess.Popen(
                confined.arguments,
                cwd=self.root,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(*descriptors, *confined.descriptors),
                bufsize=0,
            )
        except OSError as fault:
            raise ToolError(f"The command could not be started: {fault.strerror or fault}.") from fault

    def _confinement(self) -> Sandbox:
        """The sandbox, with a folder for temporary files where it has none of its own: made when first needed."""
        if not self._sandbox.needs_scratch:
            return self._sandbox
        if self._scratch is None:
            self._scratch = Path(tempfile.mkdtemp(prefix="chimera-commands-")).resolve()
        return self._sandbox.with_scratch(self._scratch)

    def _follow(self, running: _Running, deadline: float, family: Callable[[], set[Process]]) -> bool:
        """Read until the shell has ended, and a little longer if its output is held. True if time ran out."""
        try:
            while running.process.poll() is None:
                wait_s = min(_POLL_S, deadline - time.monotonic())
                if wait_s <= 0:
                    self._end_family(running, family)
                    return True
                running.read(wait_s)
            running.drain(self._linger_s)
        except BaseException:
            self._end_family(running, family)
            raise
        return False

    def _end_family(self, running: _Running, family: Callable[[], set[Process]]) -> None:
        process = running.process
        try:
            _end(family, self._grace_s, running.read, group=process.pid)
            process.poll()
        finally:
            if process.returncode is None:
                _signal_group(process.pid, signal.SIGKILL)
        running.drain(self._linger_s)

    def _family(self, process: subprocess.Popen[bytes], first_tick: int) -> set[Process]:
        """All living processes that a command has started, whatever session they moved to."""
        now = process_table.living()
        marked = process_table.marked(MARK_VARIABLE, self._mark, now.values())
        earlier = {p.session for p in marked if p.started < first_tick}
        moved = {p for p in marked if p.started >= first_tick and p.session not in earlier}
        return process_table.started_by(process.pid, now) | moved

    def _remaining(self, running: _Running, first_tick: int) -> set[Process]:
        # Looking through all processes costs milliseconds, so only where there is a sign of one.
        if running.ended and not _group_exists(running.process.pid):
            return set()
        found = self._family(running.process, first_tick)
        if found and running.ended:
            # Output ends a moment before the process that wrote it does.
            time.sleep(_POLL_S)
            found = process_table.still(found)
        return found


class _Running:
    """A started command and the reading end of its output."""

    def __init__(self, process: subprocess.Popen[bytes], buffer: OutputBuffer) -> None:
        assert process.stdout is not None
        self.process = process
        self.ended = False
        """Nobody holds the writing end any more."""
        self._buffer = buffer
        self._descriptor = process.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)

    def read(self, wait_s: float) -> None:
        """Take what comes within `wait_s`, one chunk at most; wait for the shell once the output has ended."""
        if self.ended:
            try:
                self.process.wait(wait_s)
            except subprocess.TimeoutExpired:
                self._buffer.keep()
            return
        if self._poll.poll(max(1, wait_s * 1000)):
            chunk = os.read(self._descriptor, _CHUNK_BYTES)
            self.ended = not chunk
            self._buffer.add(chunk)
        else:
            self._buffer.keep()

    def drain(self, wait_s: float) -> None:
        """Read to the end of the output, at most `wait_s` long."""
        until = time.monotonic() + wait_s
        while not self.ended and time.monotonic() < until:
            self.read(until - time.monotonic())


def _end(
    find: Callable[[], set[Process]], grace_s: float, pause: Callable[[float], None], group: int | None = None
) -> None:
    """TERM, some time to end by themselves, then KILL until none is found.

    What was found once stays a target: with the death of its parent the trace that led to it may be gone.
    """
    targets = find()
    process_table.send(targets, signal.SIGTERM)
    if group is not None and not targets:
        _signal_group(group, signal.SIGTERM)
    until = time.monotonic() + grace_s
    try:
        while (targets := find() | process_table.still(targets)) and time.monotonic() < until:
            pause(_POLL_S)
    finally:
        for _ in range(_KILL_ROUNDS):
            if not targets:
                break
            process_table.send(targets, signal.SIGKILL)
            time.sleep(_POLL_S / 10)
            targets = find() | process_table.still(targets)


def _remove(folder: Path) -> None:
    # Caches of packages may hold folders that were made read-only, which stop all but root.
    for path, _, _ in os.walk(folder):
        with suppress(OSError):
            Path(path).chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def _group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _exit_code(returncode: int) -> int:
    return returncode if returncode >= 0 else 128 - returncode


@contextmanager
def _script(command: str) -> Iterator[tuple[list[str], tuple[int, ...]]]:
    """What follows `bash -c`, and the descriptors the shell needs for it."""
    encoded = command.encode()
    if len(encoded) <= _ARGUMENT_BYTES:
        yield [command], ()
        return
    file: BinaryIO
    with tempfile.TemporaryFile() as file:
        file.write(encoded)
        file.seek(0)
        yield [_READ_SCRIPT.format(fd=file.fileno())], (file.fileno(),)
