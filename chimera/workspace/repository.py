"""What the user's repository is and where it stands. Nothing configured in it is run, and nothing in it is written."""

from __future__ import annotations

import configparser
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chimera.config import process_environment
from chimera.errors import WorkspaceError
from chimera.workspace.files import real_path
from chimera.workspace.git_program import GitError, find_git

if TYPE_CHECKING:
    import git  # noqa: TID251

# Where HEAD points in a repository whose references are not files: no name that a branch could have.
_REFERENCES_NOT_IN_FILES = ".invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A checkout: an ordinary one, a linked worktree or a submodule."""

    root: Path
    """Real path of the visible checkout."""
    start_commit: str | None
    """Hash of HEAD; None before the first commit."""
    branch: str | None
    """None for a detached HEAD."""


def find_repository(path: Path) -> Repository | None:
    """The checkout that `path` lies in. None where there is none, in a bare repository, and for one that is broken."""
    real = real_path(path)
    _import_git(real)
    import git  # noqa: TID251

    # A broken settings file surfaces as an error of whatever reads it.
    broken = (git.GitError, OSError, ValueError, configparser.Error)
    try:
        with git.Repo(real, search_parent_directories=True, expand_vars=False) as repo:
            if repo.bare or repo.working_tree_dir is None:
                return None
            root = real_path(Path(repo.working_tree_dir))
            if not real.is_relative_to(root):
                return None
            start_commit, branch = _head(repo, root)
            return Repository(root=root, start_commit=start_commit, branch=branch)
    except broken:
        return None


def _import_git(path: Path) -> None:
    """Import GitPython, told of a git that the workspace does not supply."""
    program = "/usr/bin/git"
    with suppress(WorkspaceError):
        program = str(find_git(process_environment(), outside=path).path)
    if "git" in sys.modules:
        sys.modules["git"].Git.GIT_PYTHON_GIT_EXECUTABLE = program
        return
    # At import it tries the git that it is told of, with the whole environment of this process, keys included: so at
    # first it is told of none.
    variables = {"GIT_PYTHON_REFRESH": "quiet", "GIT_PYTHON_GIT_EXECUTABLE": os.devnull}
    earlier = {name: os.environ.get(name) for name in variables}  # noqa: TID251
    os.environ.update(variables)  # noqa: TID251
    try:
        import git  # noqa: TID251
    finally:
        for name, value in earlier.items():
            os.environ.pop(name)  # noqa: TID251
            if value is not None:
                os.environ[name] = value  # noqa: TID251
    git.Git.GIT_PYTHON_GIT_EXECUTABLE = program


def _head(repo: git.Repo, root: Path) -> tuple[str | None, str | None]:
    """Commit and branch of HEAD. Read from files where that is possible: asking git costs two processes."""
    import git  # noqa: TID251

    # GitPython looks for references where this variable says, which may be another repository.
    if "GIT_COMMON_DIR" not in process_environment():
        with suppress(ValueError, TypeError, OSError):
            branch = None if repo.head.is_detached else str(repo.head.reference.name)
            if branch != _REFERENCES_NOT_IN_FILES:
                commit = git.SymbolicReference.dereference_recursive(repo, "HEAD")
                return str(commit), branch
    return _asked(repo, root, "rev-parse", "--verify", "--quiet", "HEAD"), _asked(
        repo, root, "symbolic-ref", "--quiet", "--short", "HEAD"
    )


def _asked(repo: git.Repo, root: Path, *arguments: str) -> str | None:
    with suppress(GitError, WorkspaceError):
        program = find_git(process_environment(), outside=root)
        answer = program.run([f"--git-dir={repo.git_dir}", *arguments], cwd=root)
        return answer.decode("utf-8", "backslashreplace").strip() or None
    return None
