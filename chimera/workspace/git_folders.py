"""Where git keeps its own files: of a folder, of the repository around it, of repositories inside it. Runs nothing."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chimera.workspace.files import is_file, is_folder, real_path

_POINTER_BYTES = 4096
_WORKTREE_SETTING = re.compile(r"^\s*worktree\s*=\s*(.+?)\s*$", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GitFolders:
    """The folders in which git keeps the state of one checkout. Real paths."""

    own: Path
    """HEAD and index of this checkout."""
    common: Path
    """Objects, refs and config; the same as `own` but for a linked worktree."""


def git_folders(checkout: Path) -> GitFolders | None:
    """The git folders that `checkout/.git` is or points to, or None when it is neither folder nor valid pointer."""
    entry = checkout / ".git"
    if is_folder(entry):
        own = real_path(entry)
    else:
        target = _pointer(entry)
        if target is None or not target.startswith("gitdir:"):
            return None
        own = real_path(Path(checkout, target.removeprefix("gitdir:").strip()))
    if not is_file(own / "HEAD") and not (own / "HEAD").is_symlink():
        return None
    common = _pointer(own / "commondir")
    return GitFolders(own=own, common=real_path(Path(own, common)) if common else own)


def belongs_to(folders: GitFolders, checkout: Path) -> bool:
    """Whether the git folder itself names this checkout as its own.

    A pointer in a checkout can name any folder of the user. Only git writes the way back.
    """
    if way_back := _pointer(folders.own / "gitdir"):
        return real_path(Path(folders.own, way_back)) == real_path(checkout / ".git")
    settings = _pointer(folders.own / "config") or ""
    return any(
        real_path(Path(folders.own, found.strip('"'))) == real_path(checkout)
        for found in _WORKTREE_SETTING.findall(settings)
    )


def enclosing_checkout(folder: Path) -> Path | None:
    """The nearest folder above `folder`, itself included, that has a `.git`."""
    return next((place for place in (folder, *folder.parents) if os.path.lexists(place / ".git")), None)


@dataclass(slots=True)
class CheckoutScan:
    """A walk for checkouts at and below a folder that stops after `limit` folders and follows no links."""

    root: Path
    limit: int
    complete: bool = True
    """False once the limit was reached, so that some checkouts may not have been found."""

    def __iter__(self) -> Iterator[Path]:
        waiting, seen = deque([self.root]), 0
        while waiting:
            folder = waiting.popleft()
            seen += 1
            if seen > self.limit:
                self.complete = False
                return
            found = False
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        if entry.name == ".git":
                            found = True
                        elif entry.is_dir(follow_symlinks=False):
                            waiting.append(folder / entry.name)
            except OSError:
                continue
            if found:
                yield folder


def _pointer(file: Path) -> str | None:
    """The start of a small text file, without white space around it; None if it cannot be read."""
    try:
        if not is_file(file):
            return None
        with file.open("rb") as stream:
            text = stream.read(_POINTER_BYTES).decode("utf-8", "surrogateescape").strip()
    except OSError:
        return None
    return None if "\0" in text else text
