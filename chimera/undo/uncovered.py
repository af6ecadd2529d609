"""What undo cannot cover: files that no snapshot holds and that were changed since a run began."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from chimera.workspace.candidates import ANYTHING, shown_name

_MAX_ENTRIES = 20_000
"""Files in excluded folders that are looked at."""


_GONE = "ignored, and removed since the run began"


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncovered:
    """A file, or a folder as a whole."""

    path: str
    """As people read it; a folder ends in `/`."""
    reason: str


def changed_and_not_recorded(
    root: Path, unseen: Iterable[bytes], known: Collection[bytes], since_s: float
) -> tuple[Uncovered, ...]:
    """The unseen files that were changed since then, by anybody.

    Args:
        root: the workspace.
        unseen: what no snapshot holds, relative to it; folders end in `/`.
        known: files below those folders that are recorded nevertheless.
        since_s: seconds of the epoch.
    """
    walk = _Walk(os.fsencode(root) + b"/", known, since_s)
    return tuple(walk.look(sorted(unseen)))


def removed_and_not_recorded(root: Path, unseen: Iterable[bytes]) -> tuple[Uncovered, ...]:
    """Those of these files and folders that are not there any more."""
    base = os.fsencode(root) + b"/"
    gone = (
        name for name in sorted(unseen) if name != ANYTHING and not os.path.lexists(base + name.rstrip(b"/"))
    )
    return tuple(Uncovered(path=shown_name(name), reason=_GONE) for name in gone)


class _Walk:
    """A walk that gives up after a number of files."""

    def __init__(self, base: bytes, known: Collection[bytes], since_s: float) -> None:
        self._base = base
        self._known = known
        self._since_ns = int(since_s * 1e9)
        self._left = _MAX_ENTRIES

    def look(self, names: Iterable[bytes]) -> Iterator[Uncovered]:
        for name in names:
            if name == ANYTHING:
                yield Uncovered(path="/", reason="too many ignored files to look at each")
            elif not name.endswith(b"/"):
                if (status := self._changed(name)) is not None:
                    yield Uncovered(path=shown_name(name), reason=_reason(status))
            elif count := sum(1 for path in self._files(name) if self._changed(path) is not None):
                files = "1 file" if count == 1 else f"{count:,} files"
                yield Uncovered(path=shown_name(name), reason=f"ignored, {files} changed since the run began")
            if self._left <= 0:
                yield Uncovered(
                    path="/", reason=f"more than {_MAX_ENTRIES:,} ignored files: not all were looked at"
                )
                return

    def _files(self, folder: bytes) -> Iterator[bytes]:
        waiting = [folder]
        while waiting and self._left > 0:
            above = waiting.pop()
            with suppress(OSError), os.scandir(self._base + above) as entries:
                for entry in entries:
                    self._left -= 1
                    path = above + entry.name
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(path + b"/")
                    elif path not in self._known:
                        yield path

    def _changed(self, path: bytes) -> os.stat_result | None:
        with suppress(OSError):
            status = os.lstat(self._base + path)
            return status if status.st_ctime_ns >= self._since_ns else None
        return None


def _reason(status: os.stat_result) -> str:
    if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
        return "ignored, too large or unreadable, and changed since the run began"
    return "not a regular file, and changed since the run began"
