"""Git's own files of a workspace, guarded against its commands: what bwrap is to mount over them, anew for each command.

A repository that was there before a command is protected from it. The folders above it are mounted on themselves, because
what is a mount point cannot be moved: with a folder that is moved, the protection of the next command would look for a
repository where none is any more. A repository that a command makes is its own to write; what git would run out of it is
taken out when the command has ended (`git_disarm`).
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct, field

from chimera import interruption
from chimera.workspace.files import is_file, is_folder, open_to_owner
from chimera.workspace.git_folders import (
    GOVERNING,
    STATE,
    CheckoutWatch,
    GitFolders,
    belongs_to,
    folders_of,
    looks_like_git,
    named_in_settings,
)
from chimera.workspace.git_links import strange_entries

_GOVERNING_OF_WORKTREE = ("config.worktree", "commondir", "gitdir")
_FOLDERS = frozenset({"hooks", "info", "modules", "worktrees"})
# To git the same as no such file: the common folder is the folder itself. Git never writes it this way.
_SAME_FOLDER = b"./.\n"
_WATCHED_FOLDERS = 20_000
# A command may make folders only to have a repository overlooked.
_TIMES_DURING_A_RUN = 10
# Where a repository that was known is looked for, if it is nowhere else.
_SEARCHED_FOLDERS = 5_000_000
# A mount takes bwrap about a millisecond, and the more there are the longer.
_PROTECTED_REPOSITORIES = 200
_PINNED_FOLDERS = 20

Identity = tuple[int, int, int]
"""Device, inode, kind: where nothing is mounted a command can have an inode used again."""
Access = Literal["write", "read"]


class _Plan(Struct):
    """What is to be mounted on itself, and what has to be made for it."""

    root: Path
    access: dict[Path, Access] = field(default_factory=dict)
    holders: list[Path] = field(default_factory=list)
    """Where something may be missing that nobody may create: files and folders to make for the time of the command."""
    links: dict[Path, str] = field(default_factory=dict)
    """Each `.git` that is a link, with its target."""
    writable: list[Path] = field(default_factory=list)
    """Git folders of the user in which commands may write."""
    missing: list[str] = field(default_factory=list)

    def mount(self, path: Path, access: Access) -> None:
        self.access[path] = "read" if "read" in (access, self.access.get(path)) else "write"

    def pin(self, more: Iterable[Path]) -> None:
        """Keep the folders above `more`, and as many above everything that is mounted, from being moved.

        A repository that was moved all the same is found again before the next command.
        """
        around = self._above([*self.access, *self.links])
        for folder in [*self._above(more), *around[:_PINNED_FOLDERS]]:
            if not any(self.access.get(place) == "read" for place in (folder, *folder.parents)):
                self.mount(folder, "write")

    def _above(self, places: Iterable[Path]) -> list[Path]:
        """The folders between the workspace and these places, those near the workspace first."""
        inside = (place for place in places if place.is_relative_to(self.root))
        above = {folder for place in inside for folder in place.parents if folder.is_relative_to(self.root)}
        return sorted(above - {self.root}, key=lambda folder: (len(folder.parts), folder))

    def arguments(self) -> Iterator[str]:
        """For bwrap, after the workspace itself."""
        for path in sorted(self.access, key=lambda p: p.parts):
            around = next((self.access[p] for p in path.parents if p in self.access), None)
            if self.access[path] == "write":
                yield from ("--bind-try", str(path), str(path))
            elif around != "read":
                yield from ("--ro-bind-try", str(path), str(path))


class Disarmer(Protocol):
    """Makes repositories harmless."""

    def __call__(self, entries: Collection[Path], protected: Collection[Path]) -> list[str]:
        """The entries of those that commands made, and what they could not write. Says what was taken out."""

    def set_aside(self, path: Path, why: str) -> str:
        """Take a file or link out of a git folder. Says so."""


class GitGuard:
    """Watches over the repositories of one workspace for the time of a run.

    Args:
        root: the workspace, a real path.
        allow_write: commands may write git's files, but for what is `GOVERNING`.
        mounting: something is made of the arguments; without, repositories that were there are only looked after.
        folders: how many are looked at; during the run ten times as many, if these were all there were.
    """

    def __init__(
        self, root: Path, *, allow_write: bool, mounting: bool, folders: int = _WATCHED_FOLDERS
    ) -> None:
        self.root = root
        self.disarm: Disarmer | None = None
        self.pinned: frozenset[Path] = frozenset()
        """Files, real paths, that are mounted over otherwise: folders around them are kept from being moved as well."""
        self._allow_write = allow_write
        self._mounting = mounting
        self._watch = CheckoutWatch(root=root, limit=folders)
        self._known: dict[Identity, Path] = {}
        """The user's own, those that were there when the run began first."""
        self._made: dict[Identity, Path] = {}
        self._notes: list[str] = []
        self.found: list[Path] = []
        """Git's entries that were there at the last look."""
        self._known = self._look()
        self._all_seen = self._watch.complete
        self._in_sight = True
        """Whether the last look after a command saw everything, if ever one did."""
        plan = self._plan()
        if self._all_seen:
            self._watch.limit = folders * _TIMES_DURING_A_RUN
        self.missing = tuple(plan.missing)
        """What cannot be protected, for people."""
        self._told = {*self.missing}
        self.arguments = tuple(plan.arguments()) if mounting else ()
        """For a first command that does nothing: `holding` is for who has the workspace for himself."""
        self._cleared = False

    @contextmanager
    def holding(self) -> Iterator[tuple[str, ...]]:
        """For the time of one command: its arguments for bwrap. Afterwards what it made is looked at."""
        self._see_the_users()
        plan = self._plan()
        self._notes += [text for text in plan.missing if text not in self._told]
        self._told.update(plan.missing)
        if not self._cleared:
            self._cleared = True
            # A chimera that was killed had no time for this.
            _release(path / "commondir" for path in plan.access)
        earlier = {folder: strange_entries(folder) for folder in plan.writable}
        made = list(_held(plan.holders)) if self._mounting else []
        try:
            yield tuple(plan.arguments()) if self._mounting else ()
        finally:
            # A command that made traps may have had chimera ended, too.
            with interruption.shielded():
                _release(made)
                self._after(plan)
                self._clear(earlier)

    def users_own(self) -> list[Path]:
        """Git's entries at the last look that no command made."""
        return [*self._known.values()]

    def take_up(self, recorded: Mapping[str, int]) -> None:
        """After a run that ended in a command: what was not there when it began counts as made by it, and is made harmless.

        Args:
            recorded: the user's own entries of then, relative to the workspace, with their inodes; 0 where not known.
        """
        inodes = {identity[1] for identity in self._known}
        for identity, entry in [*self._known.items()]:
            name = os.path.relpath(entry, self.root)
            moved_away = recorded.get(name) in inodes
            if identity[1] not in recorded.values() and (name not in recorded or moved_away):
                self._made[identity] = self._known.pop(identity)
        self._disarm_made(self._plan())

    def notes(self) -> tuple[str, ...]:
        """What happened to repositories since the last call, one sentence each, for the model and the user."""
        notes, self._notes = tuple(self._notes), []
        return notes

    def _see_the_users(self) -> None:
        """What came since the last command is the user's, unless it may have been there unseen."""
        for identity, entry in self._look().items():
            if identity not in self._made:
                (self._known if self._in_sight else self._made).setdefault(identity, entry)

    def _plan(self) -> _Plan:
        plan = _Plan(root=self.root)
        for entry in [*self._known.values()][:_PROTECTED_REPOSITORIES]:
            self._protect(entry, plan)
        if len(self._known) > _PROTECTED_REPOSITORIES:
            plan.missing.append(
                f"of {len(self._known):,} git repositories in the workspace commands can change git's files in all but "
                f"the first {_PROTECTED_REPOSITORIES}"
            )
        if not self._watch.complete:
            plan.missing.append(
                f"git's files of nested repositories are protected only in the first {self._watch.limit:,} folders"
            )
        plan.pin(self.pinned)
        return plan

    def _after(self, plan: _Plan) -> None:
        for entry, target in plan.links.items():
            self._restore_link(entry, target)
        before = self._watch.complete
        now = self._look(opening=True)
        if before and not self._watch.complete:
            self._notes.append(
                f"the workspace has more than {self._watch.limit:,} folders now: there may be repositories among them that "
                "have git run what a command left there"
            )
        self._in_sight = self._watch.complete or not self._all_seen
        self._made |= {identity: entry for identity, entry in now.items() if identity not in self._known}
        self._disarm_made(plan)

    def _disarm_made(self, plan: _Plan) -> None:
        if self.disarm is not None and self._made:
            protected = [path for path in plan.access if looks_like_git(path)]
            self._notes += self.disarm([*self._made.values()], protected)

    def _clear(self, earlier: Mapping[Path, Mapping[Path, str]]) -> None:
        """Take what git would write through out of the user's own git folders, if it was not there before."""
        for folder, before in earlier.items():
            for path, why in strange_entries(folder).items():
                if before.get(path) != why and self.disarm is not None:
                    self._notes.append(self.disarm.set_aside(path, why))

    def _look(self, *, opening: bool = False) -> dict[Identity, Path]:
        """What is there. A repository that was moved is told from one that is gone by its inode.

        One that is known is seen wherever it is, however many folders there are. With `opening`, folders that were closed
        to their owner since the last look are opened.
        """
        closed = self._watch.closed
        found = _opened(self._watch, closed) if opening else self._watch.look()
        now = _by_identity(found)
        for identity, entry in (*self._known.items(), *self._made.items()):
            if identity not in now and _identity(entry) == identity:
                now[identity] = entry
        if not self._watch.complete and (lost := self._known.keys() - now.keys()):
            now |= self._search(lost, closed)
        for identity, entry in self._known.items():
            if identity not in now and not os.path.lexists(entry):
                self._notes.append(
                    f"{os.path.relpath(entry, self.root)} is gone: the history of that repository is lost unless it was "
                    "moved out of the workspace; chimera has no copy of it"
                )
        self._known = {identity: now[identity] for identity in self._known if identity in now}
        self._made = {
            identity: now.get(identity, entry)
            for identity, entry in self._made.items()
            if identity in now or not self._watch.complete
        }
        self.found = [*now.values()]
        return now

    def _search(self, lost: Collection[Identity], closed: Collection[str]) -> dict[Identity, Path]:
        """Those of the lost that were moved to where the watch does not look any more."""
        found = _opened(CheckoutWatch(root=self.root, limit=_SEARCHED_FOLDERS), closed)
        return {identity: entry for identity, entry in _by_identity(found).items() if identity in lost}

    def _protect(self, entry: Path, plan: _Plan) -> None:
        if entry.name != ".git":
            folders = folders_of(entry)
            common = folders.common if folders else entry
            for folder in {entry, common} if common.is_relative_to(self.root) else {entry}:
                self._protect_folder(folder, plan, linked=folder != common)
        else:
            self._protect_checkout(entry, plan)

    def _protect_checkout(self, entry: Path, plan: _Plan) -> None:
        checkout, folders = entry.parent, folders_of(entry)
        if entry.is_symlink():
            with suppress(OSError):
                plan.links[entry] = str(entry.readlink())
        elif not is_folder(entry):
            plan.mount(entry, "read")
        if folders is not None:
            for file in named_in_settings(folders, checkout)[0]:
                if file.is_relative_to(self.root) and is_file(file):
                    plan.mount(file, "read")
            for folder in _to_mount(folders, checkout, self.root):
                self._protect_folder(folder, plan, linked=folder != folders.common)
        elif is_folder(entry) and not entry.is_symlink():
            plan.mount(entry, "read")

    def _protect_folder(self, folder: Path, plan: _Plan, *, linked: bool = False) -> None:
        piecewise = self._holds_checkouts(folder)
        writable = self._allow_write and os.access(folder, os.W_OK)
        names = _GOVERNING_OF_WORKTREE if linked else GOVERNING
        links = [folder / name for name in names if (folder / name).is_symlink()]
        for link in links:
            target = Path(os.path.realpath(link))
            if target.is_relative_to(self.root) and target.exists():
                plan.mount(target, "read")
        if links and writable:
            plan.missing.append(f"{links[0]} is a link, so all of {folder} is read-only")
        if not piecewise and (links or not writable):
            if folder != self.root:
                plan.mount(folder, "read")
            return
        plan.writable.append(folder)
        if folder != self.root:
            plan.mount(folder, "write")
        for name in names:
            plan.mount(folder / name, "read")
            if not (folder / name).exists():
                plan.holders.append(folder / name)
        for name in () if writable else STATE:
            plan.mount(folder / name, "read")

    def _holds_checkouts(self, folder: Path) -> bool:
        """Whether a git folder lies around checkouts, which must stay writable, or is the workspace."""
        return folder == self.root or any(
            entry != folder and entry.is_relative_to(folder) and entry.parent != folder / "worktrees"
            for entry in self.found
        )

    def _restore_link(self, entry: Path, target: str) -> None:
        """A link cannot be mounted over. What a command put in its place goes aside."""
        if entry.is_symlink() and str(entry.readlink()) == target:
            return
        name = os.path.relpath(entry, self.root)
        try:
            if entry.is_symlink() or not is_folder(entry):
                entry.unlink(missing_ok=True)
            else:
                shutil.rmtree(entry)
            entry.symlink_to(target)
        except OSError as fault:
            self._notes.append(
                f"{name} was a link to {target}; a command replaced it, and that cannot be undone: {fault}"
            )
        else:
            self._notes.append(f"{name} is again the link that it was; what a command put there is removed")


def _held(paths: Iterable[Path]) -> Iterator[Path]:
    """Make what is missing, empty, so that a command cannot make it with content. What is there stays."""
    for path in paths:
        with suppress(FileExistsError, FileNotFoundError):
            if path.name in _FOLDERS:
                path.mkdir()
            else:
                with path.open("xb") as file:
                    file.write(_filling(path))
            yield path


def _release(made: Iterable[Path]) -> None:
    for path in made:
        with suppress(OSError):
            if path.name in _FOLDERS:
                path.rmdir()
            elif path.read_bytes() == _filling(path):
                path.unlink()


def _filling(path: Path) -> bytes:
    return _SAME_FOLDER if path.name == "commondir" else b""


def _opened(watch: CheckoutWatch, closed: Collection[str]) -> list[Path]:
    found = watch.look()
    while [path for path in watch.closed.difference(closed) if open_to_owner(Path(path))]:
        found = watch.look()
    return found


def _by_identity(entries: Iterable[Path]) -> dict[Identity, Path]:
    return {identity: entry for entry in entries if (identity := _identity(entry))}


def _identity(entry: Path) -> Identity | None:
    try:
        status = entry.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, stat.S_IFMT(status.st_mode)


def _to_mount(folders: GitFolders, checkout: Path, workspace: Path) -> list[Path]:
    """The git folders of a checkout. One outside the workspace counts only if it names the checkout as its own.

    Otherwise a repository could name any folder of the user, and have it shown.
    """
    both = list(dict.fromkeys((folders.common, folders.own)))
    if folders.own.is_relative_to(workspace):
        return [folder for folder in both if folder.is_relative_to(workspace)]
    return both if belongs_to(folders, checkout) else []
