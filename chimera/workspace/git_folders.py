"""Where git keeps its own files: of a folder, of the repository around it, of repositories inside it. Runs nothing."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field

from chimera.workspace.clock import surely_past
from chimera.workspace.files import is_file, is_folder, real_path

# As git reads them: what we took for another folder than git does would not be protected.
_POINTER_BYTES = 1 << 20
_POINTER_PREFIX = "gitdir: "
GOVERNING = ("config", "config.worktree", "commondir", "hooks", "info", "modules", "worktrees")
"""What in a git folder makes git run programs, or look for settings elsewhere."""
STATE = ("HEAD", "packed-refs", "objects", "refs", "logs")
"""Where its history is."""
GIT_NAMES = frozenset({*GOVERNING, *STATE, "gitdir", "index", "rebase-merge", "rebase-apply", "sequencer"})
# Both may name files in the checkout: more settings, and the hooks.
_PATH_SETTING = re.compile(r"^\s*(path|hookspath)\s*=\s*\"?([^\"\n;#]+)", re.MULTILINE | re.IGNORECASE)
_WORKTREE_SETTING = re.compile(r"^\s*worktree\s*=\s*(.+?)\s*$", re.MULTILINE | re.IGNORECASE)


class GitFolders(Struct, frozen=True, kw_only=True):
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
        if target is None or not target.startswith(_POINTER_PREFIX):
            return None
        own = real_path(Path(checkout, target.removeprefix(_POINTER_PREFIX)))
    if not is_file(own / "HEAD") and not (own / "HEAD").is_symlink():
        return None
    return _with_common(own)


def folders_of(entry: Path) -> GitFolders | None:
    """The same for what `CheckoutWatch` finds: a `.git`, or a repository without a checkout."""
    return git_folders(entry.parent) if entry.name == ".git" else _with_common(entry)


def _with_common(own: Path) -> GitFolders:
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


def named_in_settings(folders: GitFolders, checkout: Path) -> tuple[list[Path], list[Path]]:
    """The files that the settings of a checkout include, and the folders where they have git look for hooks.

    Real paths, whether they exist or not. More than git would take from the same text, never less.
    """
    files: list[Path] = []
    folder_names: list[Path] = []
    for settings in (folders.common / "config", folders.own / "config.worktree"):
        for key, value in _PATH_SETTING.findall(_pointer(settings) or ""):
            if key.lower() == "path":
                files.append(real_path(Path(folders.common, value.strip())))
            else:
                folder_names.append(real_path(Path(checkout, value.strip())))
    return files, folder_names


def enclosing_checkout(folder: Path) -> Path | None:
    """The nearest folder above `folder`, itself included, that has a `.git`."""
    return next(enclosing_checkouts(folder), None)


def enclosing_checkouts(folder: Path) -> Iterator[Path]:
    """Every folder above `folder`, itself included, that has a `.git`, from the inside out."""
    return (place for place in (folder, *folder.parents) if os.path.lexists(place / ".git"))


def looks_like_git(folder: Path, *, adding: str = "") -> bool:
    """Whether git would take the folder for one of its own, whatever its name; also if `adding` were an entry of it.

    Only names count: what a link among them leads to can come and go without a trace in the folder.
    """
    return _marks_git(lambda name: name == adding or os.path.lexists(folder / name))


def _marks_git(has: Callable[[str], bool]) -> bool:
    return has("HEAD") and (has("commondir") or (has("objects") and has("refs")))


def inode_of(entry: Path) -> int:
    """Tells an entry from another one at its place; 0 if it is gone."""
    try:
        return entry.lstat().st_ino
    except OSError:
        return 0


FolderState: TypeAlias = tuple[int, int, int]
"""Device, inode and time of the last change, which nobody can set; 0 where the clock may not tell the next one."""


class _Folder(Struct, frozen=True):
    """A folder as it was when its entries were read."""

    state: FolderState
    children: tuple[str, ...]
    found: tuple[str, ...]
    """Git's entry in it, or the folder itself where it is a repository without a checkout."""


class CheckoutWatch(Struct):
    """Finds the repositories at and below a folder, as often as asked. Follows no links.

    The first look reads every folder, later ones only those that were changed since: a look costs one `lstat` a folder.
    """

    root: Path
    limit: int
    """Folders that are looked at, those near the root first."""
    clock: Callable[[], int] = time.time_ns
    complete: bool = True
    """False once the limit was reached, so that some repositories may not have been found."""
    closed: frozenset[str] = frozenset()
    """Folders that could not be read at the last look: what is in them was not found."""
    _folders: dict[str, _Folder] = field(default_factory=dict)

    def look(self) -> list[Path]:
        """The `.git` of every checkout, and every folder that is a repository without one; those near the root first."""
        now_ns = self.clock()
        seen: dict[str, _Folder] = {}
        found: list[Path] = []
        waiting = deque([str(self.root)])
        self.complete = True
        closed = set()
        while waiting:
            if len(seen) == self.limit:
                self.complete = False
                break
            path = waiting.popleft()
            folder = self._folder(path, now_ns)
            if folder is None:
                closed.add(path)
                continue
            seen[path] = folder
            found += map(Path, folder.found)
            waiting += folder.children
        self._folders, self.closed = seen, frozenset(closed)
        return found

    def states(self) -> dict[str, FolderState]:
        """The folders of the last look, each as it was."""
        return {path: folder.state for path, folder in self._folders.items()}

    def _folder(self, path: str, now_ns: int) -> _Folder | None:
        try:
            status = os.lstat(path)
            sure = surely_past(status.st_ctime_ns, now_ns)
            state = (status.st_dev, status.st_ino, status.st_ctime_ns)
            known = self._folders.get(path)
            if known is not None and known.state == state:
                return known
            children, names = [], set()
            with os.scandir(path) as entries:
                for entry in entries:
                    names.add(entry.name)
                    if entry.name != ".git" and entry.is_dir(follow_symlinks=False):
                        children.append(entry.path)
        except OSError:
            return None
        found = [f"{path}/.git"] if ".git" in names else []
        if _marks_git(names.__contains__):
            found.append(path)
        return _Folder((*state[:2], state[2] if sure else 0), tuple(children), tuple(found))


def _pointer(file: Path) -> str | None:
    """A text file without line ends at its end, up to the first NUL; None if it cannot be read."""
    try:
        if not is_file(file):
            return None
        with file.open("rb") as stream:
            text = stream.read(_POINTER_BYTES).rstrip(b"\r\n")
    except OSError:
        return None
    return os.fsdecode(text.partition(b"\0")[0]) or None
