"""A server that is a program: what is started, with which environment, and what it says about itself."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TextIO

from msgspec import Struct

from chimera.errors import ConfigError
from chimera.tools.mcp_file import Program
from chimera.workspace.programs import DEFAULT_PATH, find_program

_KEPT_BYTES = 4096
_MOST_WAIT_S = 5.0
MOST_MESSAGE = 16_000_000
"""Bytes of a message from a server. Twice of what an imported operation may answer; a model is shown far less."""
# Stands between the server and the SDK, which reads lines of any length. The kernel ends it with the thread that started it,
# and the server with it, so also where chimera is killed (PR_SET_PDEATHSIG, SIGKILL and SIGTERM).
_LAUNCHER = """\
import os, signal, sys
def end_with(parent, by):
    if sys.platform == "linux":
        import ctypes
        ctypes.CDLL(None).prctl(1, by, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
end_with(int(sys.argv[1]), 9)
most, line, launcher = int(sys.argv[2]), sys.argv[3:], os.getpid()
reading, writing = os.pipe()
server = os.fork()
if server == 0:
    end_with(launcher, 15)
    os.dup2(writing, 1)
    try:
        os.execv(line[0], line)
    except OSError as fault:
        os.write(2, f"{line[0]}: {fault.strerror}".encode())
    os._exit(127)
# The group of both is asked to end: the server decides when that is.
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.close(writing)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
length = 0
try:
    while piece := os.read(reading, 65536):
        ends = piece.find(b"\\n"), piece.rfind(b"\\n")
        if length + (len(piece) if ends[0] < 0 else ends[0]) > most:
            os.write(2, f"chimera ended it: a message of more than {most:,} bytes".encode())
            os.kill(server, 9)
            break
        length = length + len(piece) if ends[1] < 0 else len(piece) - ends[1] - 1
        while piece:
            piece = piece[os.write(1, piece):]
except OSError:
    os.kill(server, 15)
os.close(1)
os.close(reading)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(server, 0)[1]) & 255)
"""


class ServerProgram(Struct, frozen=True, kw_only=True):
    """A program ready to be started."""

    executable: Path
    arguments: tuple[str, ...]
    environment: dict[str, str]
    cwd: Path
    errors: TextIO
    """Where its standard error goes."""
    _words: _LastWords

    @classmethod
    @contextmanager
    def of(
        cls, program: Program, environment: Mapping[str, str], *, outside: Path
    ) -> Iterator[ServerProgram]:
        """The program of a server.

        Args:
            program: as the user named it.
            environment: what every command gets.
            outside: the workspace: no program found by its name may lie there.

        Raises:
            ConfigError: there is no such program or folder.
        """
        variables = {**environment, **program.environment}
        search_path = variables.get("PATH", DEFAULT_PATH)
        if "/" in program.command:
            executable = Path(program.command) if os.access(program.command, os.X_OK) else None
        else:
            executable = find_program(program.command, search_path, outside=outside)
        if executable is None:
            raise ConfigError(
                f"there is no program {program.command!r} to start an MCP server with: install it, or give its path"
            )
        if not program.cwd.is_dir():
            raise ConfigError(f"the folder {str(program.cwd)!r} to start an MCP server in does not exist")
        reading, writing = os.pipe()
        with os.fdopen(writing, "w", encoding="utf-8") as errors:
            words = _LastWords(reading, writing)
            yield cls(
                executable=executable,
                arguments=program.arguments,
                environment=variables,
                cwd=program.cwd,
                errors=errors,
                _words=words,
            )

    def command_line(self) -> list[str]:
        """What to start."""
        python = [os.path.realpath(sys.executable), "-I", "-S", "-c", _LAUNCHER]
        return [*python, str(os.getpid()), str(MOST_MESSAGE), str(self.executable), *self.arguments]

    def last_words(self) -> str:
        """The end of what it wrote to standard error."""
        return self._words.text()


class _LastWords:
    """Reads what a program writes to its standard error, so that it never has to wait, and keeps the end of it."""

    def __init__(self, reading: int, writing: int) -> None:
        self._writing = writing
        self._tail = b""
        # Written behind everything that was said, it tells that all of it was read.
        self._mark = secrets.token_bytes(16)
        self._all_read = Event()
        Thread(target=self._read, args=(reading,), daemon=True).start()

    def text(self) -> str:
        """The end of what was written up to now."""
        self._all_read.clear()
        os.write(self._writing, self._mark)
        self._all_read.wait(_MOST_WAIT_S)
        return self._tail.decode("utf-8", "replace")

    def _read(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb", buffering=0) as pipe:
            while piece := pipe.read(_KEPT_BYTES):
                said, mark, more = (self._tail + piece).partition(self._mark)
                self._tail = (said + more)[-_KEPT_BYTES:]
                if mark:
                    self._all_read.set()
