"""Which files of a workspace commands are not to read: those that by their names hold secrets, exist and are not tracked.

What git tracks is no secret of the user's machine: certificates and settings of a project's own tests are among it.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from chimera.errors import WorkspaceError
from chimera.workspace.candidates import users_rules
from chimera.workspace.files import is_file, real_path
from chimera.workspace.git_folders import enclosing_checkout, git_folders
from chimera.workspace.git_program import GitProgram, find_git
from chimera.workspace.mounts import homes_of
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
_SETTINGS_BYTES = 1 << 20
_CREDENTIALS = re.compile(rb"://[^/\s\"]*@|extraheader|passw|token|secret", re.IGNORECASE)


class HiddenSecrets(Struct, frozen=True, kw_only=True):
    """Files to hide, as real paths in order, and why there may be more."""

    files: tuple[Path, ...]
    settings: tuple[Path, ...] = ()
    """Settings of git that hold credentials and are to be read without these."""
    missing: tuple[str, ...] = ()


def find_hidden_secrets(root: Path, environment: Mapping[str, str]) -> HiddenSecrets:
    """The files below `root`, a real path, that commands are not to read.

    In a repository those that its rules ignore, elsewhere all with such a name. Folders of libraries are left out, if the
    rules ignore these, too. `root` is none, whatever lies in it.
    """
    scan = _Scan(root=root, environment=environment)
    named = sorted(set(scan.files()))
    return _hidden(_among(named, root, environment, ignored=True), complete=scan.complete, where="workspace")


def find_secrets_around(root: Path, environment: Mapping[str, str]) -> HiddenSecrets:
    """The same for the checkout around a workspace that is a part of one: commands see it, and it is not what they work on.

    So what git does not track is hidden there, ignored or not, and settings of git that hold credentials.
    """
    checkout = enclosing_checkout(root)
    if checkout is None or checkout == root:
        return HiddenSecrets(files=())
    checkout = real_path(checkout)
    if any(home.is_relative_to(checkout) for home in homes_of(environment)):
        return HiddenSecrets(files=())  # commands see nothing of a home, though it be a repository
    scan = _Scan(root=checkout, environment=environment, without=root)
    named = sorted(set(scan.files()))
    hidden = _among(named, root, environment, ignored=False)
    found = _hidden(hidden, complete=scan.complete, where="repository around the workspace")
    return replace(found, settings=tuple(_with_credentials(checkout)))


def _hidden(files: Sequence[Path], *, complete: bool, where: str) -> HiddenSecrets:
    missing = []
    if not complete:
        missing.append(
            f"files that hold secrets are hidden only in the first {_SCANNED_FOLDERS:,} folders of the {where}"
        )
    if len(files) > _MOST_FILES:
        missing.append(f"of {len(files):,} files that hold secrets only the first {_MOST_FILES} are hidden")
    return HiddenSecrets(files=tuple(files[:_MOST_FILES]), missing=tuple(missing))


def _with_credentials(checkout: Path) -> Iterator[Path]:
    """Settings of git in the checkout and of its submodules that hold credentials."""
    folders = git_folders(checkout)
    if folders is None:
        return
    candidates = [folders.common / "config", folders.own / "config.worktree"]
    for pattern in ("modules/*/config", "modules/*/*/config"):
        candidates += folders.common.glob(pattern)
    for file in dict.fromkeys(candidates):
        if is_file(file) and real_path(file) == file and file.is_relative_to(checkout):
            with suppress(OSError), file.open("rb") as stream:
                if _CREDENTIALS.search(stream.read(_SETTINGS_BYTES)):
                    yield file


def _without_credentials(settings: Sequence[Path], copies: Path) -> Iterator[str]:
    """For bwrap: a copy in place of each. The lines with credentials are left out, so that git works there."""
    for number, file in enumerate(settings):
        with suppress(OSError), file.open("rb") as stream:
            lines = stream.read(_SETTINGS_BYTES).splitlines(keepends=True)
            copies.mkdir(mode=0o700, parents=True, exist_ok=True)
            copy = copies / str(number)
            copy.write_bytes(b"".join(line for line in lines if not _CREDENTIALS.search(line)))
            yield from ("--ro-bind", str(copy), str(file))


def hide_secrets(sandbox: Sandbox, root: Path, environment: Mapping[str, str], *, copies: Path) -> Sandbox:
    """The sandbox in which commands do not read those files, as far as its backend can do that.

    Args:
        sandbox: what is to be narrowed.
        root: the workspace, a real path.
        environment: the one chimera was started with.
        copies: folder for copies of settings without credentials, made if needed.
    """
    if sandbox.backend == "none":
        return sandbox
    found, around = find_hidden_secrets(root, environment), find_secrets_around(root, environment)
    if sandbox.backend == "bwrap":
        narrowed = sandbox.narrowed(masked=(*found.files, *around.files))
        shown = _without_credentials(around.settings, copies)
        narrowed = replace(narrowed, covers=(*narrowed.covers, *shown))
    else:
        narrowed = sandbox.narrowed(masked=(*found.files, *around.files, *around.settings))
    return replace(narrowed, missing=(*narrowed.missing, *found.missing, *around.missing))


def about_secrets(sandbox: Sandbox, root: Path, *, shown: bool) -> str:
    """What the user should know of it before a run; empty where there is nothing to say."""
    if shown:
        return "Commands can read the files of the workspace that hold secrets (--allow-secret-files)."
    if not sandbox.masked:
        return ""
    names = [os.path.relpath(file, root) for file in sandbox.masked]
    more = f" and {len(names) - _NAMED_FILES} more" if len(names) > _NAMED_FILES else ""
    named = ", ".join(names[:_NAMED_FILES]) + more
    return f"Hidden from commands, because they hold secrets: {named}. --allow-secret-files shows them."


class _Scan(Struct, kw_only=True):
    """A walk below a folder that follows no links to folders."""

    root: Path
    environment: Mapping[str, str]
    without: Path | None = None
    """A folder that is left out."""
    complete: bool = True
    _waiting: deque[str] = field(default_factory=deque)
    _libraries: list[Path] = field(default_factory=list)
    """Folders that look like those of libraries, not looked into yet."""

    def files(self) -> Iterator[Path]:
        self._waiting.append(str(self.root))
        seen, claimed = 0, set[str]()
        while self._waiting:
            if seen == _SCANNED_FOLDERS:
                self.complete = False
                return
            seen += 1
            path = self._waiting.popleft()
            try:
                with os.scandir(path) as entries:
                    found = list(entries)
            except OSError:
                continue
            marked = not _LIBRARY_MARKS.isdisjoint(entry.name for entry in found)
            library = marked and path != str(self.root) and path not in claimed
            if library:
                self._libraries.append(Path(path))
            yield from self._files_of(found, into=not library)
            if not self._waiting and self._libraries:
                # Anybody can call a folder that, or put a mark there: it is one if the user's git passes it over.
                refuted = _not_ignored(self._libraries, self.root, self.environment)
                self._libraries.clear()
                claimed.update(refuted)
                self._waiting += refuted

    def _files_of(self, found: Iterable[os.DirEntry[str]], *, into: bool) -> Iterator[Path]:
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                if entry.name == ".git" or not into or entry.path == str(self.without):
                    continue
                if entry.name in _LIBRARIES:
                    self._libraries.append(Path(entry.path))
                else:
                    self._waiting.append(entry.path)
            elif is_secret_file(os.path.relpath(entry.path, self.root)):
                # A link leads to what it hides: the cover has to lie on that.
                real = real_path(Path(entry.path))
                if is_file(real) and real.is_relative_to(self.root):
                    yield real


def _not_ignored(folders: Sequence[Path], root: Path, environment: Mapping[str, str]) -> list[str]:
    """Those that git does not ignore, or of which it tracks something. Outside a repository none."""
    by_checkout: dict[Path, list[Path]] = {}
    for folder in folders:
        if checkout := enclosing_checkout(folder.parent):
            by_checkout.setdefault(checkout, []).append(folder)
    refuted: list[str] = []
    for checkout, inside in by_checkout.items():
        ignored: set[bytes] = set()
        own = git_folders(checkout)
        with suppress(WorkspaceError):  # so it answers, too, where none is
            git = find_git(environment, outside=root)
            if own is not None:
                names = b"\0".join(os.fsencode(folder.relative_to(checkout)) for folder in inside)
                arguments = [*_for_checkout(git, own.own, checkout), "check-ignore", "-z", "--stdin"]
                ignored.update(git.run(arguments, cwd=checkout, stdin=names + b"\0").split(b"\0"))
        refuted += [str(f) for f in inside if os.fsencode(f.relative_to(checkout)) not in ignored]
    return refuted


def _for_checkout(git: GitProgram, git_folder: Path, checkout: Path) -> list[str]:
    arguments = [f"--git-dir={git_folder}", f"--work-tree={checkout}"]
    with suppress(WorkspaceError):
        if rules := users_rules(git, checkout):
            arguments += ["-c", f"core.excludesFile={rules}"]
    return arguments


def _among(files: Sequence[Path], root: Path, environment: Mapping[str, str], *, ignored: bool) -> list[Path]:
    by_checkout: dict[Path | None, list[Path]] = {}
    for file in files:
        by_checkout.setdefault(enclosing_checkout(file.parent), []).append(file)
    hidden = by_checkout.pop(None, [])
    for checkout, inside in by_checkout.items():
        if checkout is not None:
            try:
                git = find_git(environment, outside=root)
                hidden += _untracked(checkout, inside, git, ignored=ignored)
            except WorkspaceError:
                hidden += inside
    return sorted(hidden)


def _untracked(checkout: Path, files: Sequence[Path], git: GitProgram, *, ignored: bool) -> list[Path]:
    """Those that git does not track, and ignores if asked for; all of them where git does not know the checkout.

    Raises:
        GitError: git fails.
    """
    folders = git_folders(checkout)
    if folders is None:
        return list(files)
    arguments = [*_for_checkout(git, folders.own, checkout), "ls-files", "-z", "--others"]
    arguments += ["--ignored", "--exclude-standard", "--"] if ignored else ["--"]
    names = [f":(literal){file.relative_to(checkout).as_posix()}" for file in files]
    listed = git.list_paths([*arguments, *names], cwd=checkout, at_most=len(files))
    return [checkout / os.fsdecode(name) for name in listed]
