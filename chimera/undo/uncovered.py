"""What undo cannot cover: files that no snapshot holds and that were changed since a run began."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from chimera.workspace.candidates import ANYTHING, shown_name

_MAX_ENTRIES = 20_000
"""Files in excluded folders that are looked at."""
_TOO_MANY = (
    f"git ignores more files here than are looked at ({_MAX_ENTRIES:,}), and some may have been changed since the run "
    "began: look at them yourself"
)

_GONE = (
    "git ignores it, so it was not recorded, and it was removed since the run began, by the run or by you: only a copy "
    "of your own brings it back"
)
_MOST_REPOSITORIES = 200
_GONE_REPOSITORY = (
    "git's own files are never recorded, and these were removed or moved since the run began: only a copy of your own or "
    "a remote brings them back"
)
_CHANGED = "was changed since the run began, by the run or by you: look at it yourself"
_WHY = {
    "ignored": "git ignores it, so it was not recorded, and it",
    "large": "it is larger than 10 MiB, so it was not recorded, and it",
    "unreadable": "it cannot be read, so it was not recorded, and it",
    "special": "it is a pipe, socket or device, which is not recorded, and it",
}


class Uncovered(Struct, frozen=True, kw_only=True):
    """A file, or a folder as a whole."""

    path: str
    """As people read it; a folder ends in `/`."""
    reason: str


def changed_and_not_recorded(
    root: Path, unseen: Mapping[bytes, str], known: Collection[bytes], since_s: float
) -> tuple[Uncovered, ...]:
    """The unseen files that were changed since then, by anybody.

    Args:
        root: the workspace.
        unseen: what no snapshot holds, relative to it, with the reason; folders end in `/`.
        known: files that are recorded nevertheless.
        since_s: seconds of the epoch.
    """
    walk = _Walk(os.fsencode(root) + b"/", known, since_s)
    return tuple(walk.look({path: unseen[path] for path in sorted(unseen) if path not in known}))


def removed_and_not_recorded(root: Path, unseen: Iterable[bytes]) -> tuple[Uncovered, ...]:
    """Those of these files and folders that are not there any more."""
    base = os.fsencode(root) + b"/"
    gone = (
        name for name in sorted(unseen) if name != ANYTHING and not os.path.lexists(base + name.rstrip(b"/"))
    )
    return tuple(Uncovered(path=shown_name(name), reason=_GONE) for name in gone)


def gone_repositories(root: Path, entries: object) -> tuple[Uncovered, ...]:
    """Those of these git folders and pointers, relative to the workspace, that are not there any more."""
    names = [str(name) for name in entries] if isinstance(entries, list) else []
    gone = (name for name in names[:_MOST_REPOSITORIES] if not os.path.lexists(root / name))
    return tuple(Uncovered(path=shown_name(os.fsencode(name)), reason=_GONE_REPOSITORY) for name in gone)


class _Walk:
    """A walk that gives up after a number of files."""

    def __init__(self, base: bytes, known: Collection[bytes], since_s: float) -> None:
        self._base = base
        self._known = known
        self._since_ns = int(since_s * 1e9)
        self._left = _MAX_ENTRIES

    def look(self, names: Mapping[bytes, str]) -> Iterator[Uncovered]:
        for name, note in names.items():
            why = _WHY.get(note.partition(" ")[0], f"it is not recorded ({note}), and it")
            if name == ANYTHING:
                yield Uncovered(path="/", reason=_TOO_MANY)
            elif not name.endswith(b"/"):
                if self._is_changed(name):
                    yield Uncovered(path=shown_name(name), reason=f"{why} {_CHANGED}")
            elif count := sum(1 for path in self._files(name) if self._is_changed(path)):
                files = "1 file in it" if count == 1 else f"{count:,} files in it"
                changed = _CHANGED if count == 1 else _CHANGED.replace("was", "were", 1)
                reason = f"{why.removesuffix('it')}{files} {changed}"
                yield Uncovered(path=shown_name(name), reason=reason)
            if self._left <= 0:
                yield Uncovered(path="/", reason=_TOO_MANY)
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

    def _is_changed(self, path: bytes) -> bool:
        with suppress(OSError):
            return os.lstat(self._base + path).st_ctime_ns >= self._since_ns
        return False
