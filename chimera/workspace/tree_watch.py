"""Tells that a workspace is as it was at its last snapshot, for the price of one `lstat` a folder and recorded file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from chimera.workspace.clock import surely_past
from chimera.workspace.git_folders import CheckoutWatch, FolderState, git_folders

Stamp: TypeAlias = tuple[int, int]
"""Time of the last change of content or status in ns, which nobody can set, and inode."""

_FOLDERS = 20_000
_GONE: Stamp = (0, 0)


class Look(Struct, frozen=True, kw_only=True):
    """The folders of a workspace at one moment, and the indexes of its repositories, which name files as well."""

    taken_ns: int
    complete: bool
    """False where there are too many folders to look at."""
    folders: Mapping[str, FolderState]
    closed: frozenset[str]
    """Folders that could not be read."""
    indexes: Mapping[str, Stamp]


class _Seen(Struct, frozen=True, kw_only=True):
    """What a snapshot saw: as long as all of it is the same, so is the snapshot."""

    look: Look
    files: Mapping[bytes, Stamp]


class TreeWatch:
    """Remembers what the last snapshot of one workspace saw.

    What was made, moved or removed since shows at its folder, what was written at the file itself. Only files that no
    snapshot holds may change without a sign.
    """

    def __init__(self, root: Path, *, clock: Callable[[], int] = time.time_ns) -> None:
        self._clock = clock
        self._base = os.fsencode(root) + b"/"
        self._checkouts = CheckoutWatch(root=root, limit=_FOLDERS, clock=clock)
        self._seen: _Seen | None = None

    def look(self) -> Look:
        """To be taken before a snapshot: what changes in its course is then different afterwards."""
        taken_ns = self._clock()
        entries = self._checkouts.look()
        return Look(
            taken_ns=taken_ns,
            complete=self._checkouts.complete,
            folders=self._checkouts.states(),
            closed=self._checkouts.closed,
            indexes=dict(pair for entry in entries for pair in _indexes(entry)),
        )

    def keep(self, look: Look, files: Mapping[bytes, Stamp], others: Iterable[bytes]) -> None:
        """Remember what a snapshot saw.

        Args:
            look: from before it.
            files: what it recorded, with the stamps that it saw. Paths relative to the workspace.
            others: what it noted without recording it; folders end in `/`.
        """
        noted = {name: _stamp(self._base + name.rstrip(b"/")) for name in others}
        every = {**files, **noted}
        sure = look.complete and all(
            surely_past(changed_ns, look.taken_ns) for changed_ns, _ in every.values()
        )
        self._seen = _Seen(look=look, files=every) if sure else None

    def forget(self) -> None:
        """Remember nothing, so that nothing counts as unchanged."""
        self._seen = None

    def unchanged(self) -> bool:
        """Whether a snapshot now would surely be the same as the last. Where a clock cannot tell, it is not sure."""
        seen = self._seen
        if seen is None:
            return False
        now = self.look()
        before = seen.look
        same = (now.complete, now.closed, now.indexes) == (before.complete, before.closed, before.indexes)
        if not same or now.folders != before.folders or any(not s[2] for s in now.folders.values()):
            return False
        try:
            return all(_known_stamp(self._base + name) == stamp for name, stamp in seen.files.items())
        except OSError:
            return False


def _indexes(entry: Path) -> Iterable[tuple[str, Stamp]]:
    """What decides which files a repository names. Its folder changes with each of git's lock files, and tells nothing."""
    if entry.name != ".git":
        return
    changed_ns, inode = _stamp(os.fsencode(entry))
    yield str(entry), (0 if entry.is_dir() else changed_ns, inode)
    if folders := git_folders(entry.parent):
        yield str(folders.own / "index"), _stamp(os.fsencode(folders.own / "index"))


def _stamp(path: bytes) -> Stamp:
    try:
        return _known_stamp(path)
    except OSError:
        return _GONE


def _known_stamp(path: bytes) -> Stamp:
    status = os.lstat(path)
    return status.st_ctime_ns, status.st_ino
