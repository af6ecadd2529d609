"""What happened in a run, kept as facts while it happens. The compaction note is written from it, never from memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict


class FileRead(Struct, frozen=True, kw_only=True):
    """A range of a text file was shown to the model."""

    path: str
    """Relative to the workspace, `/` as separator; `@run/...` for files of the run directory."""
    first: int
    """First line shown, counted from 1; 0 for an empty file."""
    last: int
    total: int
    """Lines in the whole file."""


class FileChanged(Struct, frozen=True, kw_only=True):
    """A file was written by one of the file tools."""

    path: str
    added: int
    removed: int
    line: int
    """Where the last change begins, counted from 1: restoration shows the region around it."""
    created: bool = False


class CommandRun(Struct, frozen=True, kw_only=True):
    """A shell command ended, or was ended."""

    command: str
    exit_code: int | None
    """None when it was killed (timeout, interruption)."""
    error: str = ""
    """For a failure: the most telling line of its output, else empty."""


Fact = FileRead | FileChanged | CommandRun
_KINDS: dict[str, type[Fact]] = {"read": FileRead, "changed": FileChanged, "command": CommandRun}


def fact_fields(fact: Fact) -> dict[str, Any]:
    """A fact as JSON values, for the record."""
    kind = next(name for name, cls in _KINDS.items() if isinstance(fact, cls))
    return {"kind": kind, **asdict(fact)}


def fact_of(fields: Mapping[str, Any]) -> Fact:
    """The fact behind the values of `fact_fields`."""
    values = dict(fields)
    return _KINDS[values.pop("kind")](**values)


class Verification(Struct, frozen=True, kw_only=True):
    """The last result of the user's `--verify` command."""

    command: str
    passed: bool
    error: str = ""


class ChangeTotal(Struct, frozen=True):
    """All changes of one file added up."""

    added: int = 0
    removed: int = 0
    times: int = 0
    created: bool = False


class CommandTotal(Struct, frozen=True):
    """All runs of one command: how often, and how the last one ended."""

    exit_code: int | None
    error: str
    times: int


class Ledger(Struct):
    """The facts of a run, added up per file and per command, newest last. Complete: nothing is ever dropped."""

    changed: dict[str, ChangeTotal] = field(default_factory=dict)
    read: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """Path -> disjoint ranges of lines, ascending."""
    commands: dict[str, CommandTotal] = field(default_factory=dict)
    verification: Verification | None = None
    edited: FileChanged | None = None
    """The last change: the file being edited."""
    news: int = 0
    """Grows by one with every change and with every command or range not seen before."""

    def add(self, fact: Fact) -> None:
        """Record one fact."""
        match fact:
            case FileRead():
                self._add_range(fact.path, fact.first, fact.last)
            case FileChanged():
                total = self.changed.pop(fact.path, ChangeTotal())
                self.changed[fact.path] = ChangeTotal(
                    added=total.added + fact.added,
                    removed=total.removed + fact.removed,
                    times=total.times + 1,
                    created=total.created or fact.created,
                )
                self.edited = fact
                self.news += 1
            case CommandRun():
                before = self.commands.pop(fact.command, None)
                times = before.times if before else 0
                self.commands[fact.command] = CommandTotal(fact.exit_code, fact.error, times + 1)
                self.news += before is None

    def open_errors(self) -> dict[str, CommandTotal]:
        """Commands whose last run failed, newest last."""
        return {command: total for command, total in self.commands.items() if total.exit_code != 0}

    def no_longer_shown(self, shown: Iterable[FileRead]) -> dict[str, tuple[tuple[int, int], ...]]:
        """What was read and is not in the prompt any more, given what still is there. Ranges as in `read`."""
        gone = dict(self.read)
        for here in shown:
            ranges = gone.pop(here.path, ())
            cut = [
                part
                for low, high in ranges
                for part in ((low, min(high, here.first - 1)), (max(low, here.last + 1), high))
            ]
            if left := tuple((low, high) for low, high in cut if low <= high):
                gone[here.path] = left
        return gone

    def _add_range(self, path: str, first: int, last: int) -> None:
        ranges = self.read.pop(path, ())
        merged: list[tuple[int, int]] = []
        for low, high in sorted((*ranges, (first, last))):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(merged[-1][1], high))
            else:
                merged.append((low, high))
        self.read[path] = tuple(merged)
        self.news += self.read[path] != ranges
