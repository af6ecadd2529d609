"""Which files of a workspace commands are not to read: those that by their names hold secrets, exist and are not tracked.

What git tracks is no secret of the user's machine: certificates and settings of a project's own tests are among it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from chimera.errors import WorkspaceError
from chimera.workspace.candidates import users_rules
from chimera.workspace.files import is_file, real_path
from chimera.workspace.git_folders import enclosing_checkout, git_folders
from chimera.workspace.git_program import GitProgram, find_git
from chimera.workspace.sandbox import Sandbox
from chimera.workspace.secret_files import is_secret_file

_SCANNED_FOLDERS = 20_000
_NAMED_FILES = 5
_MOST_FILES = 200
"""A mount takes bwrap about a millisecond."""
# Libraries bring the public certificates that they check others with, under names of secrets.
_LIBRARIES = frozenset(
    {
        ".git",
        ".nox",
        ".tox",
        "__pycache__",
        "node_modules",
        "site-packages",
        "dist-packages",
        ".cargo",
        "target",
    }
)
_LIBRARY_MARKS = frozenset({"pyvenv.cfg", "conda-meta"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenSecrets:
    """Files to hide, as real paths in order, and why there may be more."""

    files: tuple[Path, ...]
    missing: tuple[str, ...] = ()


def find_hidden_secrets(root: Path, environment: Mapping[str, str]) -> HiddenSecrets:
    """The files below `root`, a real path, that commands are not to read.

    In a repository those that its rules ignore, elsewhere all with such a name. Folders of libraries are left out.
    """
    scan = _Scan(root)
    named = sorted(set(scan.files()))
    hidden = _ignored(named, root, environment)
    missing = []
    if not scan.complete:
        missing.append(
            f"files that hold secrets are hidden only in the first {_SCANNED_FOLDERS:,} folders of the workspace"
        )
    if len(hidden) > _MOST_FILES:
        missing.append(f"of {len(hidden):,} files that hold secrets only the first {_MOST_FILES} are hidden")
    return HiddenSecrets(files=tuple(hidden[:_MOST_FILES]), missing=tuple(missing))


def hide_secrets(sandbox: Sandbox, root: Path, environment: Mapping[str, str]) -> Sandbox:
    """The sandbox in which commands do not read those files, as far as its backend can do that."""
    if sandbox.backend == "none":
        return sandbox
    found = find_hidden_secrets(root, environment)
    narrowed = sandbox.narrowed(masked=found.files)
    return replace(narrowed, missing=(*narrowed.missing, *found.missing))


def about_secrets(sandbox: Sandbox, root: Path, *, shown: bool) -> str:
    """What the user should know of it before a run; empty where there is nothing to say."""
    if shown:
        return "Commands can read the files of the workspace that hold secrets (--allow-secret-files)."
    if not sandbox.masked:
        return ""
    names = [str(file.relative_to(root)) for file in sandbox.masked]
    more = f" and {len(names) - _NAMED_FILES} more" if len(names) > _NAMED_FILES else ""
    named = ", ".join(names[:_NAMED_FILES]) + more
    return f"Hidden from commands, because they hold secrets: {named}. --allow-secret-files shows them."


class _Scan:
    """A walk below a folder that follows no links to folders."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.complete = True

    def files(self) -> Iterator[Path]:
        waiting, seen = deque([str(self._root)]), 0
        while waiting:
            if seen == _SCANNED_FOLDERS:
                self.complete = False
                return
            seen += 1
            try:
                with os.scandir(waiting.popleft()) as entries:
                    found = list(entries)
            except OSError:
                continue
            if not _LIBRARY_MARKS.isdisjoint(entry.name for entry in found):
                continue
            for entry in found:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in _LIBRARIES:
                        waiting.append(entry.path)
                elif is_secret_file(os.path.relpath(entry.path, self._root)):
                    # A link leads to what it hides: the cover has to lie on that.
                    real = real_path(Path(entry.path))
                    if is_file(real) and real.is_relative_to(self._root):
                        yield real


def _ignored(files: Sequence[Path], root: Path, environment: Mapping[str, str]) -> list[Path]:
    by_checkout: dict[Path | None, list[Path]] = {}
    for file in files:
        by_checkout.setdefault(enclosing_checkout(file.parent), []).append(file)
    hidden = by_checkout.pop(None, [])
    for checkout, inside in by_checkout.items():
        if checkout is not None:
            try:
                hidden += _ignored_in(checkout, inside, find_git(environment, outside=root))
            except WorkspaceError:
                hidden += inside
    return sorted(hidden)


def _ignored_in(checkout: Path, files: Sequence[Path], git: GitProgram) -> list[Path]:
    """Those that git ignores and does not track; all of them where git does not know the checkout.

    Raises:
        GitError: git fails.
    """
    folders = git_folders(checkout)
    if folders is None:
        return list(files)
    arguments = [f"--git-dir={folders.own}", f"--work-tree={checkout}"]
    with suppress(WorkspaceError):
        if rules := users_rules(git, checkout):
            arguments += ["-c", f"core.excludesFile={rules}"]
    arguments += ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--"]
    names = [f":(literal){file.relative_to(checkout).as_posix()}" for file in files]
    listed = git.list_paths([*arguments, *names], cwd=checkout, at_most=len(files))
    return [checkout / os.fsdecode(name) for name in listed]
