"""Searching with ripgrep, without its configuration files and within the time given."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from chimera.errors import ToolError
from chimera.tools.searching import Deadline, Hit, Query
from chimera.tools.wording import one_line
from chimera.workspace.programs import DEFAULT_PATH

# Hidden files belong to a project (workflows, settings); git's own do not. Ignore rules are those of the tree alone, so
# that a result does not depend on whose machine it is.
_OPTIONS = (
    *("--no-config", "--color=never", "--no-messages", "--sort=path", "--null", "--hidden", "--crlf"),
    *("--no-require-git", "--no-ignore-global", "--no-ignore-dot", "--max-filesize=50M"),
)
_CHUNK_BYTES = 1 << 16
_KEPT_BYTES = 4000
_NEVER = "!**/.git"


class Ripgrep:
    """The searcher over a workspace."""

    def __init__(self, program: Path, root: Path) -> None:
        self._program = program
        self._root = root

    def hits(self, query: Query, deadline: Deadline) -> Iterator[Hit]:
        options = ["--line-number", "--column", "--no-heading", "--with-filename", "--engine=auto"]
        for record in self._records([*options, "--regexp", query.pattern], query, deadline, b"\n"):
            # Of a binary file that matches there is a remark without these separators.
            name, nul, rest = record.partition(b"\0")
            line, _, rest = rest.partition(b":")
            column, colon, text = rest.partition(b":")
            if nul and colon:
                yield _hit(os.fsdecode(name), int(line), int(column) - 1, text.rstrip(b"\r"))

    def files(self, query: Query, deadline: Deadline) -> Iterator[tuple[str, int]]:
        for record in self._records(["--files"], query, deadline, b"\0"):
            name = os.fsdecode(record).removeprefix("./")
            try:
                yield name, (self._root / name).lstat().st_size
            except OSError:
                continue

    def _records(self, options: list[str], query: Query, deadline: Deadline, end: bytes) -> Iterator[bytes]:
        globs = [f"--glob={glob}" for glob in (*query.globs(), _NEVER)]
        place = "./" if query.place.name == "." else f"./{query.place.name.removeprefix('./')}"
        with subprocess.Popen(
            [str(self._program), *_OPTIONS, *options, *globs, "--", place],
            cwd=self._root,
            env={"PATH": DEFAULT_PATH},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            deadline.call(process.kill)
            begun: list[bytes] = []
            try:
                while chunk := os.read(process.stdout.fileno(), _CHUNK_BYTES):
                    first, *records = chunk.split(end)
                    begun.append(first)
                    if records:
                        yield b"".join(begun)
                        begun = [records.pop()]
                        yield from records
                if fault := process.stderr.read().decode("utf-8", "replace").strip():
                    raise ToolError(_fault_text(query, fault))
            finally:
                process.kill()


def _hit(name: str, line: int, column: int, text: bytes) -> Hit:
    start = max(0, column - _KEPT_BYTES // 2) if len(text) > _KEPT_BYTES else 0
    part = text[start : start + _KEPT_BYTES]
    before = text[start:column].decode("utf-8", "replace")
    return Hit(
        name=name.removeprefix("./"), line=line, column=len(before), text=part.decode("utf-8", "replace")
    )


def _fault_text(query: Query, fault: str) -> str:
    reason = one_line(fault.splitlines()[-1].removeprefix("error: "), 300)
    if "glob" in fault and "regex" not in fault:
        return f"The glob {query.glob!r} cannot be understood: {reason}"
    return bad_pattern(query.pattern, reason)


def bad_pattern(pattern: str, reason: str) -> str:
    """What the model is told about a pattern that is no regular expression."""
    return (
        f"The pattern {pattern!r} is not a regular expression: {reason}. "
        "Put a backslash before each of . * + ? ( ) [ ] { } | ^ $ \\ that is meant literally."
    )
