"""Which files of a workspace belong in a snapshot: all that the user's ignore rules do not exclude, or that git tracks."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from chimera.config import process_environment
from chimera.errors import WorkspaceError
from chimera.workspace.files import is_file
from chimera.workspace.git_folders import enclosing_checkout, git_folders
from chimera.workspace.git_program import GitError, GitProgram

MAX_FILE_BYTES = 10 * 1024**2
_MAX_NESTED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The files to record and those that cannot be."""

    files: Mapping[bytes, int]
    """Path relative to the workspace -> time of the last change of content or status in ns, which nobody can set."""
    omitted: tuple[str, ...]
    total_bytes: int


def find_candidates(
    git: GitProgram, git_dir: Path, root: Path, *, at_most: int, excluded: Path
) -> Candidates:
    """The files below `root`, nothing below `excluded` included. `git_dir` is a git directory of our own.

    Raises:
        WorkspaceError: more than `at_most` files, or git fails.
    """
    listing = _Listing(git=git, git_dir=git_dir, root=root, at_most=at_most)
    listing.add_checkout(root)
    base, skipped = os.fsencode(root) + b"/", os.fsencode(excluded) + b"/"
    names = sorted(name for name in listing.names if not (base + name).startswith(skipped))
    files: dict[bytes, int] = {}
    omitted, total = set(listing.omitted), 0
    for name in names:
        try:
            status = os.lstat(base + name)
        except OSError:
            continue  # tracked, but not on disk
        if stat.S_ISDIR(status.st_mode):
            continue  # a submodule, as the repository around it records it
        if not _can_record(base + name, status):
            omitted.add(shown_name(name))
            continue
        files[name] = status.st_ctime_ns
        total += status.st_size
    omitted.update(_left_out(base, names))
    return Candidates(files=files, omitted=tuple(sorted(omitted)), total_bytes=total)


def shown_name(path: bytes) -> str:
    """A path as text that can be printed and stored anywhere."""
    return path.decode("utf-8", "backslashreplace")


@dataclass(slots=True, kw_only=True)
class _Listing:
    """Collects the names of one workspace, checkout by checkout."""

    git: GitProgram
    git_dir: Path
    root: Path
    at_most: int
    names: set[bytes] = field(default_factory=set)
    omitted: list[str] = field(default_factory=list)
    checkouts: int = 0

    def add_checkout(self, place: Path) -> None:
        """The files of the checkout at `place`, at or below the root, and of those nested in it."""
        self.checkouts += 1
        # Ignore rules of folders above the workspace hold in it too, up to the top of the repository.
        top = enclosing_checkout(place) or place
        if top != place and self._is_ignored(top, place):
            top = place
        nested = []
        for name in self._untracked(top, place):
            if name.endswith(b"/"):
                nested.append(top / os.fsdecode(name))
            else:
                self._add(top, name)
        for name in self._tracked(top):
            if _is_plainly_below(top, name, place):
                self._add(top, name)
        if len(self.names) > self.at_most:
            raise WorkspaceError(
                f"the workspace {str(self.root)!r} holds more than {self.at_most:,} files outside ignored folders; "
                "ignore what git need not see, or choose a folder below it"
            )
        for inner in nested:
            if self.checkouts < _MAX_NESTED and inner != place:
                self.add_checkout(inner)
            else:
                self.omitted.append(inner.relative_to(self.root).as_posix() + "/")

    def _add(self, top: Path, name: bytes) -> None:
        self.names.add(os.path.relpath(os.fsencode(top) + b"/" + name, os.fsencode(self.root)))

    def _untracked(self, top: Path, place: Path) -> list[bytes]:
        """With an index that does not exist every file is untracked. A nested repository is one name that ends in `/`."""
        arguments = [f"--git-dir={self.git_dir}", f"--work-tree={top}", "-c", "core.bare=false"]
        if rules := _users_rules(self.git, top):
            arguments += ["-c", f"core.excludesFile={rules}"]
        arguments += ["ls-files", "-z", "--others", "--exclude-standard"]
        folders = git_folders(top)
        if folders is not None and is_file(folders.common / "info" / "exclude"):
            arguments.append(f"--exclude-from={folders.common / 'info' / 'exclude'}")
        if place != top:
            arguments += ["--", f":(literal){place.relative_to(top).as_posix()}/"]
        git = self.git.with_index(self.git_dir / "no-index")
        return git.list_paths(arguments, cwd=top, at_most=self.at_most)

    def _is_ignored(self, top: Path, place: Path) -> bool:
        """Whether the repository around the workspace ignores all of it."""
        arguments = [f"--git-dir={self.git_dir}", f"--work-tree={top}", "-c", "core.bare=false"]
        arguments += ["check-ignore", "--quiet", "--no-index", "--", str(place)]
        with suppress(GitError):
            self.git.run(arguments, cwd=top)
            return True
        return False

    def _tracked(self, top: Path) -> list[bytes]:
        """What the user's own index names, ignored files included. Unreadable counts as empty: it only adds names."""
        folders = git_folders(top)
        if folders is None:
            return []
        with suppress(GitError):
            arguments = [f"--git-dir={folders.own}", f"--work-tree={top}", "ls-files", "-z", "--cached"]
            return self.git.list_paths(arguments, cwd=top, at_most=4 * self.at_most)
        return []


def _users_rules(git: GitProgram, cwd: Path) -> Path | None:
    """The user's own ignore file: where their settings say, else where git looks by default."""
    environment = process_environment()
    home = environment.get("HOME") or "/nonexistent"
    settings_home = environment.get("XDG_CONFIG_HOME") or str(Path(home, ".config"))
    users_git = replace(
        git,
        environment={
            **{name: value for name, value in git.environment.items() if name != "GIT_CONFIG_GLOBAL"},
            "HOME": home,
            "XDG_CONFIG_HOME": settings_home,
        },
    )
    rules = Path(settings_home, "git", "ignore")
    with suppress(GitError):
        answer = users_git.run(["config", "--global", "--type=path", "--get", "core.excludesFile"], cwd=cwd)
        rules = Path(os.fsdecode(answer.rstrip(b"\n")))
    return rules if rules.is_absolute() and is_file(rules) else None


def _is_plainly_below(top: Path, name: bytes, place: Path) -> bool:
    """Whether a tracked name lies below `place` without a link on the way, which would lead elsewhere."""
    folder = Path(top, os.fsdecode(name)).parent
    return folder.is_relative_to(place) and os.path.realpath(folder) == str(folder)


def _can_record(path: bytes, status: os.stat_result) -> bool:
    if stat.S_ISLNK(status.st_mode):
        return True
    return stat.S_ISREG(status.st_mode) and status.st_size <= MAX_FILE_BYTES and os.access(path, os.R_OK)


def _left_out(base: bytes, names: Iterable[bytes]) -> set[str]:
    """What git does not even list, in the folders that hold listed files: pipes, sockets, unreadable folders."""
    left_out: set[str] = set()
    for folder in {b"".join(name.rpartition(b"/")[:2]) for name in names} | {b""}:
        try:
            with os.scandir(base + folder) as entries:
                left_out.update(shown_name(folder + entry.name) for entry in entries if _is_left_out(entry))
        except OSError:
            continue
    return left_out


def _is_left_out(entry: os.DirEntry[bytes]) -> bool:
    if entry.is_dir(follow_symlinks=False):
        return not os.access(entry.path, os.R_OK | os.X_OK)
    return not (entry.is_file(follow_symlinks=False) or entry.is_symlink())
