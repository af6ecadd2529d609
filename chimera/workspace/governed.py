"""Files that tell other programs what to run or an agent what to do. A change of one is worth a look by a person."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from chimera.workspace.files import is_folder
from chimera.workspace.git_folders import CheckoutWatch, folders_of, inode_of, named_in_settings

FILES = (
    "AGENTS.md",
    "AGENT.md",
    "CLAUDE.md",
    "GEMINI.md",
    ".cursorrules",
    ".windsurfrules",
    ".clinerules",
    ".github/copilot-instructions.md",
    ".chimera.toml",
    ".envrc",
    ".mcp.json",
    ".gitmodules",
    ".gitattributes",
    ".pre-commit-config.yaml",
)
FOLDERS = (
    ".github/workflows",
    ".chimera",
    ".claude",
    ".cursor",
    ".devcontainer",
    ".husky",
    ".idea",
    ".vscode",
)
# The last one is what a rebase that was left in the middle does next; it can name commands.
_GIT_FILES = ("config", "config.worktree", "commondir", "info/attributes", "rebase-merge/git-rebase-todo")
_WATCHED_FOLDERS = 20_000
_MOST_FILES = 500
_MOST_HASHED_BYTES = 1 << 20


class _State(Struct, frozen=True):
    """A file as it was last seen. The hash is looked at only where something else differs."""

    stat: tuple[int, ...]
    digest: str


class GovernedFiles:
    """The governed files of a workspace, watched from the moment this is made.

    Args:
        root: the workspace, a real path.
        repositories: the git entries to watch, nested ones included; None: all that are found at each look.
    """

    def __init__(self, root: Path, repositories: Callable[[], Iterable[Path]] | None = None) -> None:
        self._root = root
        self._repositories = repositories or CheckoutWatch(root=root, limit=_WATCHED_FOLDERS).look
        self.reported: list[str] = []
        """Every name that was ever returned by `changed`, in order."""
        self._seen = self._look({})

    def git_entries(self) -> dict[str, list[str] | list[int]]:
        """For the record: the `.git` of every repository that is there now, relative to the workspace, with its inode."""
        entries = [*self._repositories()]
        return {
            "git_entries": [os.path.relpath(entry, self._root) for entry in entries],
            "git_inodes": [inode_of(entry) for entry in entries],
        }

    def changed(self) -> tuple[str, ...]:
        """Names of what was changed, added or removed since the last look, relative to the workspace, sorted."""
        before, self._seen = self._seen, self._look(self._seen)
        names = sorted(
            name
            for name in before.keys() | self._seen.keys()
            if _digest(before.get(name)) != _digest(self._seen.get(name))
        )
        self.reported += [name for name in names if name not in self.reported]
        return tuple(names)

    def _look(self, known: dict[str, _State]) -> dict[str, _State]:
        found = {}
        for path in self._paths():
            try:
                status = path.lstat()
            except OSError:
                continue
            name = os.path.relpath(path, self._root)
            mark = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
            earlier = known.get(name)
            same = earlier is not None and earlier.stat == mark
            found[name] = earlier if same and earlier else _State(mark, _content(path, status))
        return found

    def _paths(self) -> Iterator[Path]:
        for name in FILES:
            yield self._root / name
        for name in FOLDERS:
            yield from _files_below(self._root / name)
        watched: dict[Path, None] = {}
        for entry in self._repositories():
            if entry.is_symlink() or not is_folder(entry):
                yield entry
            found = folders_of(entry)
            watched |= dict.fromkeys((found.own, found.common) if found else ())
            files, hooks = named_in_settings(found, entry.parent) if found else ([], [])
            yield from files
            for folder in hooks:
                yield from _files_below(folder)
        for folder in watched:
            for name in _GIT_FILES:
                yield folder / name
            yield from (hook for hook in _files_below(folder / "hooks") if hook.suffix != ".sample")


def _files_below(folder: Path) -> Iterator[Path]:
    if folder.is_symlink():
        yield folder
        return
    count = 0
    for here, names, files in os.walk(folder):
        names.sort()
        links = [name for name in names if Path(here, name).is_symlink()]
        for name in sorted([*files, *links]):
            yield Path(here, name)
            count += 1
            if count == _MOST_FILES:
                return


def _content(path: Path, status: os.stat_result) -> str:
    """What a file holds, as far as that decides what it does: link target, or mode for running and content."""
    if stat.S_ISLNK(status.st_mode):
        return f"link {os.readlink(path)}"  # noqa: PTH115  (as bytes are escaped here)
    runs = bool(status.st_mode & 0o111)
    if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_HASHED_BYTES:
        return f"{stat.S_IFMT(status.st_mode)} {runs} {status.st_size} {status.st_mtime_ns}"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return f"{runs} {hashlib.sha256(file.read(_MOST_HASHED_BYTES)).hexdigest()}"
    except OSError as fault:
        return f"unreadable {fault.errno}"


def _digest(state: _State | None) -> str:
    return "" if state is None else state.digest
