"""Running git so that nothing configured by the user or the repository runs with it, and nothing is bounded by luck."""

from __future__ import annotations

import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from msgspec import Struct
from msgspec.structs import replace

from chimera.errors import WorkspaceError
from chimera.workspace.programs import DEFAULT_PATH, find_program, trusted_entries

_TIMEOUT_S = 120.0
_LISTING_TIMEOUT_S = 20.0
_CHUNK_BYTES = 1 << 16
# Any of these could start a program (fsmonitor, hooks, pager, signing, maintenance) or change what bytes mean.
_SETTINGS = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.quotePath=false",
    "core.autocrlf=false",
    "core.precomposeUnicode=false",
    "core.protectNTFS=false",
    "core.protectHFS=false",
    "core.untrackedCache=false",
    "core.fsyncMethod=batch",
    "core.compression=1",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
)


class GitError(WorkspaceError):
    """git failed, took too long or listed too much."""


class GitProgram(Struct, frozen=True, kw_only=True):
    """A git executable with the only environment it is ever given."""

    path: Path
    environment: Mapping[str, str]

    def with_index(self, index: Path) -> GitProgram:
        """The same, reading and writing `index` instead of the index of the git directory."""
        return replace(self, environment={**self.environment, "GIT_INDEX_FILE": str(index)})

    def run(self, arguments: Sequence[str], *, cwd: Path, stdin: bytes = b"") -> bytes:
        """What git printed.

        Raises:
            GitError: it failed (the message ends with git's own last line) or took too long.
        """
        try:
            done = subprocess.run(
                self._command(arguments),
                cwd=cwd,
                env=dict(self.environment),
                input=stdin,
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as fault:
            raise GitError(f"git {_verb(arguments)} took longer than {_TIMEOUT_S:.0f} s") from fault
        except OSError as fault:
            raise GitError(f"git cannot be started in {str(cwd)!r}: {fault}") from fault
        if done.returncode != 0:
            raise GitError(f"git {_verb(arguments)} failed: {_last_line(done.stderr)}")
        return done.stdout

    def list_paths(self, arguments: Sequence[str], *, cwd: Path, at_most: int) -> list[bytes]:
        """The NUL-terminated records that git prints, read only as far as needed to know that they are too many.

        Raises:
            GitError: it failed, took too long, or printed more than `at_most` records.
        """
        deadline = time.monotonic() + _LISTING_TIMEOUT_S
        with tempfile.TemporaryFile() as stderr:
            try:
                process = subprocess.Popen(
                    self._command(arguments),
                    cwd=cwd,
                    env=dict(self.environment),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                )
            except OSError as fault:
                raise GitError(f"git cannot be started in {str(cwd)!r}: {fault}") from fault
            with process:
                assert process.stdout is not None
                output = None
                try:
                    output = _read_records(process.stdout, at_most, deadline)
                finally:
                    if output is None:
                        process.kill()
            if output is None:
                raise GitError(f"{str(cwd)!r} holds too much to record: more than {at_most:,} files")
            if process.returncode != 0:
                stderr.seek(0)
                raise GitError(f"git {_verb(arguments)} failed: {_last_line(stderr.read())}")
        return output.split(b"\0")[:-1]

    def _command(self, arguments: Sequence[str]) -> list[str]:
        options = [part for setting in _SETTINGS for part in ("-c", setting)]
        return [str(self.path), "--no-optional-locks", *options, *arguments]


def find_git(environment: Mapping[str, str], *, outside: Path) -> GitProgram:
    """The git on the PATH of `environment`, never one that a repository supplies (`find_program`).

    Raises:
        WorkspaceError: there is none.
    """
    search_path = environment.get("PATH", DEFAULT_PATH)
    path = find_program("git", search_path, outside=outside)
    if path is None:
        raise WorkspaceError("git was not found on PATH; install git to see what a run changed")
    return GitProgram(
        path=path,
        environment={
            "PATH": os.pathsep.join(trusted_entries(search_path, outside=outside)),
            "LC_ALL": "C",
            "HOME": "/nonexistent",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_DEFAULT_REF_FORMAT": "files",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_EDITOR": "true",
            "GIT_PAGER": "cat",
        },
    )


def _read_records(stream: IO[bytes], at_most: int, deadline: float) -> bytes | None:
    """All output, or None once it holds more than `at_most` records."""
    output, records = bytearray(), 0
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - time.monotonic())):
            chunk = os.read(stream.fileno(), _CHUNK_BYTES)
            if not chunk:
                return bytes(output)
            output += chunk
            records += chunk.count(b"\0")
            if records > at_most:
                return None
    raise GitError(f"listing the files took longer than {_LISTING_TIMEOUT_S:.0f} s")


def _verb(arguments: Sequence[str]) -> str:
    """The subcommand, behind git's own options, some of which have a value of their own."""
    words = iter(arguments)
    for word in words:
        if word in {"-c", "-C"}:
            next(words, None)
        elif not word.startswith("-"):
            return word
    return ""


def _last_line(stderr: bytes) -> str:
    lines = stderr.decode("utf-8", "backslashreplace").strip().splitlines()
    return lines[-1] if lines else "it gave no reason"
