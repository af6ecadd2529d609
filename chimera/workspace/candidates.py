"""Which files of a workspace belong in a snapshot: all that the user's ignore rules do not exclude, or that git tracks."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from chimera.config import process_environment
from chimera.errors import WorkspaceError
from chimera.workspace.files import is_file
from chimera.workspace.folders import scan_folders
from chimera.workspace.git_folders import enclosing_checkout, git_folders
from chimera.workspace.git_program import GitError, GitProgram
from chimera.workspace.ignore_rules import IgnoreRules, rules_now, self_ignoring
from chimera.workspace.tree_watch import Stamp

MAX_FILE_BYTES = 10 * 1024**2
ANYTHING = b"/"
"""Stands for every name among those that rules exclude."""
_MAX_NESTED = 100


class Candidates(Struct, frozen=True, kw_only=True):
    """The files to record and those that cannot be."""

    files: Mapping[bytes, Stamp]
    """By path relative to the workspace."""
    modes: Mapping[bytes, int]
    """Permission bits of the regular files."""
    folders: Mapping[bytes, int]
    """Permission bits of the folders that hold files to record, or nothing at all."""
    omitted: Mapping[bytes, str]
    """What cannot be recorded, with a note as in an annex. A folder that was not looked into ends in `/`."""
    ignored: frozenset[bytes]
    """What the user's rules exclude, if it was asked for. A folder that is excluded as a whole ends in `/`."""
    total_bytes: int
    rules: IgnoreRules
    """Those that hold now, if what they exclude was asked for."""


def find_candidates(
    git: GitProgram,
    git_dir: Path,
    root: Path,
    *,
    at_most: int,
    excluded: Path,
    also: Iterable[bytes] = (),
    with_ignored: bool = False,
    rules: IgnoreRules | None = None,
) -> Candidates:
    """The files below `root`, nothing below `excluded` included.

    Args:
        git: runs the listings.
        git_dir: a git directory of our own.
        root: the workspace.
        at_most: how many files may be found.
        excluded: a folder that is not part of the workspace.
        also: files to record even where the user's rules exclude them.
        with_ignored: look for what the rules exclude as well.
        rules: hold instead of those of now. A folder that came since and ignores itself is omitted, and so is what new
            repositories ignore.

    Raises:
        WorkspaceError: more than `at_most` files, or git fails.
    """
    listing = _Listing(
        git=git, git_dir=git_dir, root=root, at_most=at_most, with_ignored=with_ignored, rules=rules
    )
    listing.add_checkout(root)
    base = os.fsencode(root) + b"/"
    if rules is not None:
        listing.leave_out(self_ignoring(base, listing.names, set(also)))
    listing.add_plain(also)
    skipped = os.fsencode(excluded.relative_to(root)) + b"/" if excluded.is_relative_to(root) else b"//"
    names = sorted(name for name in listing.names if not name.startswith(skipped))
    files: dict[bytes, Stamp] = {}
    modes: dict[bytes, int] = {}
    omitted, total = dict(listing.omitted), 0
    for name in names:
        try:
            status = os.lstat(base + name)
        except OSError:
            continue  # tracked, but not on disk
        if stat.S_ISDIR(status.st_mode):
            continue  # a submodule, as the repository around it records it
        if note := omission(status) or _unreadable(base + name, status):
            omitted[name] = note
            continue
        files[name] = (status.st_ctime_ns, status.st_ino)
        if stat.S_ISREG(status.st_mode):
            modes[name] = stat.S_IMODE(status.st_mode)
        total += status.st_size
    scan = scan_folders(base, names)
    return Candidates(
        files=files,
        modes=modes,
        folders={f: bits for f, bits in scan.modes.items() if not (f + b"/").startswith(skipped)},
        omitted={**omitted, **scan.left_out},
        ignored=frozenset(listing.ignored) - files.keys(),
        total_bytes=total,
        rules=IgnoreRules(checkouts=listing.found_rules),
    )


def shown_name(path: bytes) -> str:
    """A path as text that can be printed and stored anywhere."""
    return path.decode("utf-8", "backslashreplace")


class _Listing(Struct, kw_only=True):
    """Collects the names of one workspace, checkout by checkout."""

    git: GitProgram
    git_dir: Path
    root: Path
    at_most: int
    with_ignored: bool
    rules: IgnoreRules | None
    names: set[bytes] = field(default_factory=set)
    ignored: set[bytes] = field(default_factory=set)
    omitted: dict[bytes, str] = field(default_factory=dict)
    checkouts: int = 0
    plain_folders: dict[bytes, bool] = field(default_factory=dict)
    found_rules: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    users_rules: dict[Path, Path | None] = field(default_factory=dict)

    def add_checkout(self, place: Path) -> None:
        """The files of the checkout at `place`, at or below the root, and of those nested in it."""
        self.checkouts += 1
        # Ignore rules of folders above the workspace hold in it too, up to the top of the repository.
        top = enclosing_checkout(place) or place
        if top != place and self._is_ignored(top, place):
            top = place
        rules = self.rules.text(place, top) if self.rules is not None else None
        prefix = _prefix(top, self.root)
        unknown = self._unknown(top, place, rules)
        nested = [top / os.fsdecode(name) for name in unknown if name.endswith(b"/")]
        names = {name for name in unknown if not name.endswith(b"/")} | self._tracked_within(top, place)
        self.names.update(map(prefix, names))
        self._add_ignored(top, place, rules, names)
        if len(self.names) > self.at_most:
            raise WorkspaceError(
                f"the workspace {str(self.root)!r} holds more than {self.at_most:,} files outside ignored folders; "
                "ignore what git need not see, or choose a folder below it"
            )
        for inner in nested:
            if self.checkouts < _MAX_NESTED and inner != place:
                self.add_checkout(inner)
            else:
                self.omitted[os.fsencode(inner.relative_to(self.root)) + b"/"] = (
                    f"the workspace holds more than {_MAX_NESTED} repositories"
                )

    def _tracked_within(self, top: Path, place: Path) -> set[bytes]:
        above, within = os.fsencode(top) + b"/", os.fsencode(place) + b"/"
        return {
            name
            for name in self._tracked(top)
            if (above + name).startswith(within) and self._is_plain(above + name)
        }

    def _add_ignored(self, top: Path, place: Path, rules: bytes | None, names: set[bytes]) -> None:
        is_new = rules is None and self.rules is not None
        if not self.with_ignored and not is_new:
            return
        prefix = _prefix(top, self.root)
        try:
            ignored = set(self._unknown(top, place, rules, "--ignored", "--directory"))
            self.ignored.update(map(prefix, ignored))
        except GitError:  # too many to list: anything may have been there
            ignored = set()
            self.ignored.add(ANYTHING)
        if is_new:
            self.omitted |= dict.fromkeys(map(prefix, ignored), "ignored by a repository that came since")
        elif self.rules is None:
            text = rules_now(top, self._general_rules(top), names, ignored)
            self.found_rules[os.fspath(place)] = (os.fspath(top), text)

    def _general_rules(self, top: Path) -> list[Path]:
        """Files with rules for all of a repository, the weakest first."""
        if top not in self.users_rules:
            self.users_rules[top] = users_rules(self.git, top)
        found = [rules] if (rules := self.users_rules[top]) else []
        folders = git_folders(top)
        if folders is not None and is_file(folders.common / "info" / "exclude"):
            found.append(folders.common / "info" / "exclude")
        return found

    def leave_out(self, folders: Collection[bytes]) -> None:
        """Leave folders out, each with `/` at its end."""
        self.omitted |= dict.fromkeys(folders, "it ignores itself")
        if folders:
            self.names = {name for name in self.names if not name.startswith(tuple(folders))}

    def add_plain(self, names: Iterable[bytes]) -> None:
        """Add names that the rules may exclude, unless a link on the way leads elsewhere."""
        base = os.fsencode(self.root) + b"/"
        self.names.update(n for n in set(names) - self.names if self._is_plain(base + n))

    def _is_plain(self, path: bytes) -> bool:
        """Whether the folder of a path is reached without a link on the way."""
        folder = path.rpartition(b"/")[0]
        if folder not in self.plain_folders:
            self.plain_folders[folder] = os.path.realpath(folder) == folder
        return self.plain_folders[folder]

    def _unknown(self, top: Path, place: Path, rules: bytes | None, *options: str) -> list[bytes]:
        """With an index that does not exist every file is unknown. A nested repository is one name that ends in `/`."""
        arguments = [f"--git-dir={self.git_dir}", f"--work-tree={top}", "-c", "core.bare=false"]
        listing = ["ls-files", "-z", "--others", *options]
        if rules is not None:
            place_of_rules = self.git_dir / "rules.tmp"
            place_of_rules.write_bytes(rules)
            arguments += [*listing, f"--exclude-from={place_of_rules}"]
        else:
            arguments += [*listing, "--exclude-standard"]
            arguments += [f"--exclude-from={path}" for path in self._general_rules(top)]
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


def users_rules(git: GitProgram, cwd: Path) -> Path | None:
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


def _prefix(top: Path, root: Path) -> Callable[[bytes], bytes]:
    """How a name below `top` becomes one below `root`; one of the two holds the other."""
    if top == root:
        return lambda name: name
    if top.is_relative_to(root):
        below = os.fsencode(top.relative_to(root)) + b"/"
        return lambda name: below + name
    above = os.fsencode(root.relative_to(top)) + b"/"
    return lambda name: name.removeprefix(above)


def omission(status: os.stat_result) -> str:
    """Why what has this status cannot be recorded, and what changes with its content; empty if it can be."""
    if stat.S_ISLNK(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_size <= MAX_FILE_BYTES):
        return ""
    return _stamped("large", status) if stat.S_ISREG(status.st_mode) else "special"


def _unreadable(path: bytes, status: os.stat_result) -> str:
    if stat.S_ISLNK(status.st_mode) or os.access(path, os.R_OK):
        return ""
    return _stamped("unreadable", status)


def _stamped(reason: str, status: os.stat_result) -> str:
    return f"{reason} {status.st_size} {status.st_ctime_ns}"
