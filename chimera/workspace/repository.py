"""What the user's repository is and where it stands. Nothing configured in it is run, and nothing in it is written."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from chimera.config import process_environment
from chimera.errors import WorkspaceError
from chimera.workspace.files import is_file, real_path
from chimera.workspace.git_folders import GitFolders, enclosing_checkouts, git_folders
from chimera.workspace.git_program import GitError, find_git

# Where HEAD points in a repository whose references are not files: no name that a branch could have.
_REFERENCES_NOT_IN_FILES = "refs/heads/.invalid"
_POINTER, _BRANCHES = "ref: ", "refs/heads/"
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MOST_BYTES = 1 << 24
"""Of a file with references: as many as the largest known repositories have."""


class Repository(Struct, frozen=True, kw_only=True):
    """A checkout: an ordinary one, a linked worktree or a submodule."""

    root: Path
    """Real path of the visible checkout."""
    start_commit: str | None
    """Hash of HEAD; None before the first commit."""
    branch: str | None
    """None for a detached HEAD."""


def find_repository(path: Path) -> Repository | None:
    """The checkout that `path` lies in. None where there is none, in a bare repository, and for one that is broken.

    HEAD is read from git's files where that is possible: asking git costs two processes, and a library for it more time
    than all else that is done here.
    """
    for place in enclosing_checkouts(real_path(path)):
        if (folders := git_folders(place)) is not None:
            commit, branch = _head(folders, place)
            return Repository(root=place, start_commit=commit, branch=branch)
    return None


def _head(folders: GitFolders, root: Path) -> tuple[str | None, str | None]:
    """Commit and branch of HEAD."""
    head = _text(folders.own / "HEAD")
    reference = head.removeprefix(_POINTER) if head.startswith(_POINTER) else None
    commit = head if reference is None else _reference(folders, reference)
    if reference != _REFERENCES_NOT_IN_FILES and (commit is None or _COMMIT.fullmatch(commit)):
        return commit, reference.removeprefix(_BRANCHES) if reference else None
    return (
        _asked(folders, root, "rev-parse", "--verify", "--quiet", "HEAD"),
        _asked(folders, root, "symbolic-ref", "--quiet", "--short", "HEAD"),
    )


def _reference(folders: GitFolders, name: str) -> str | None:
    """What a reference holds, which may be the name of another one; None where there is none of this name."""
    place = Path(folders.common, name)
    if real_path(place).is_relative_to(folders.common) and is_file(place):
        return _text(place)
    for line in _text(folders.common / "packed-refs").splitlines():
        commit, _, packed = line.partition(" ")
        if packed == name:
            return commit
    return None


def _text(file: Path) -> str:
    with suppress(OSError), file.open("rb") as stream:
        return stream.read(_MOST_BYTES).decode("utf-8", "backslashreplace").strip()
    return ""


def _asked(folders: GitFolders, root: Path, *arguments: str) -> str | None:
    with suppress(GitError, WorkspaceError):
        program = find_git(process_environment(), outside=root)
        answer = program.run([f"--git-dir={folders.own}", *arguments], cwd=root)
        return answer.decode("utf-8", "backslashreplace").strip() or None
    return None
