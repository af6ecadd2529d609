"""What undo would do to each path, and doing it: each file in one step, nothing that was changed since."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from chimera.attribution import PathChange, Picture, entry_of
from chimera.undo.reasons import OCCUPIED, can_be_forced, fault_reason, reason_to_leave
from chimera.workspace import placing
from chimera.workspace.annex import Annex
from chimera.workspace.files import fault_text
from chimera.workspace.placing import State
from chimera.workspace.trees import Entry, Trees

Done = Literal["restored", "recreated", "removed"]
_OPEN = 0o700


class Action(Struct, frozen=True, kw_only=True):
    """One path that is to become something else."""

    path: bytes
    now: State | None
    """What is there and must still be there when its turn comes."""
    target: State | None
    forced: bool = False
    """What is there is the user's: it is copied away first."""

    @property
    def done(self) -> Done:
        """What this is called once it is done."""
        if self.target is None:
            return "removed"
        return "recreated" if self.now is None else "restored"


class Refusal(Struct, frozen=True, kw_only=True):
    """One path that is left alone."""

    path: bytes
    reason: str
    before: State | None
    """What undo would have put there."""


class Plan(Struct, frozen=True, kw_only=True):
    """What is to be done and what is not."""

    actions: tuple[Action, ...]
    refusals: tuple[Refusal, ...]

    @classmethod
    def make(cls, changes: Iterable[PathChange], now: Picture, *, force: bool) -> Plan:
        """Three ways: where nobody changed what the change left, it is taken back; else it stays as it is."""
        actions, refusals = [], []
        for change in changes:
            there = now.state(change.path)
            if there == change.before and _kind(there) != "other":
                continue
            reason = reason_to_leave(change, there)
            forced = bool(reason) and force and can_be_forced(change, there)
            if reason and not forced:
                refusals.append(Refusal(path=change.path, reason=reason, before=change.before))
            else:
                actions.append(Action(path=change.path, now=there, target=change.before, forced=forced))
        return cls(actions=tuple(actions), refusals=tuple(refusals))


def grafts(actions: Iterable[Action]) -> dict[bytes, Entry | None]:
    """The files and links of the tree that these actions lead to, where it differs from what was there."""
    return {a.path: entry_of(a.target) for a in actions if entry_of(a.target) != entry_of(a.now)}


def annex_after(actions: Iterable[Action], now: Annex) -> Annex:
    """The annex that these actions lead to."""
    modes, folders = dict(now.modes), dict(now.folders)
    unrecorded = dict(now.unrecorded)
    for action in actions:
        path, target = action.path, action.target
        for notes in (modes, folders, unrecorded):
            notes.pop(path, None)
        if target is not None and target.kind == "folder":
            folders[path] = target.bits
        elif target is not None and target.kind == "file" and target.bits != now.usual_bits(target.bits):
            modes[path] = target.bits
    return replace(now, modes=modes, folders=folders, unrecorded=unrecorded)


class Shelf:
    """A folder of the run directory for what is not in the workspace: versions not put back, and files replaced by force.

    Made when first used, a new one for every undo.
    """

    def __init__(self, run_dir: Path) -> None:
        self._above = run_dir / "undo"
        self._folder: Path | None = None

    def place(self, kind: Literal["old", "replaced"], path: bytes) -> Path:
        """Where a file of that path can be written.

        Raises:
            OSError: its folder cannot be made.
        """
        if self._folder is None:
            self._above.mkdir(mode=0o700, exist_ok=True)
            number = sum(1 for _ in self._above.iterdir()) + 1
            self._folder = self._above / f"{number:04}"
            self._folder.mkdir(mode=0o700)
        place = self._folder / kind / os.fsdecode(path)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return place

    def keep_old(self, path: bytes, state: State, content: bytes) -> Path | None:
        """Keep a version that was not put back; None where it cannot be kept under its name."""
        with suppress(OSError):
            place = self.place("old", path)
            if state.kind == "link":
                place.symlink_to(os.fsdecode(content))
            else:
                place.write_bytes(content)
                place.chmod(0o700 if state.bits & 0o100 else 0o600)
            return place
        return None


class PuttingBack(Struct, kw_only=True):
    """Carries out a plan."""

    root: Path
    trees: Trees
    like: str
    """An id in the format of the shadow repository."""
    shelf: Shelf
    done: dict[bytes, Done] = field(default_factory=dict)
    replaced: dict[bytes, Path] = field(default_factory=dict)
    """Where the user's files are that were replaced by force."""
    kept: list[bytes] = field(default_factory=list)
    """Folders of the run that hold other files now."""
    refused: list[Refusal] = field(default_factory=list)

    @property
    def really_done(self) -> Set[bytes]:
        """The paths that are now as planned."""
        return self.done.keys() - set(self.kept)

    def run(self, actions: Sequence[Action]) -> None:
        """Do everything, in an order in which each folder is there and open while it is needed."""
        actions = sorted((a for a in actions if not a.forced or self._set_aside(a)), key=_depth)
        between_folders = [a for a in actions if _kind(a.target) == _kind(a.now) == "folder"]
        made = [a for a in actions if _kind(a.target) == "folder" and a not in between_folders]
        self._each([a for a in between_folders if _stays_open(a)], self._set_bits)
        self._each([a for a in actions if _is_filed(a.now) and not _is_filed(a.target)], self._unlink)
        gone = [a for a in actions if _kind(a.now) == "folder" and _kind(a.target) != "folder"]
        self._each(reversed(gone), self._remove_folder)
        self._each(made, self._make_folder)
        filed = [a for a in actions if _is_filed(a.target)]
        occupied = [a for a in filed if a.path in self.kept]
        self.refused += [Refusal(path=a.path, reason=OCCUPIED, before=a.target) for a in occupied]
        self._put_all([a for a in filed if a not in occupied])
        closing = [a for a in actions if a in between_folders or (a.path in self.done and a in made)]
        self._each(reversed([a for a in closing if not _stays_open(a)]), self._set_bits)

    def _each(self, actions: Iterable[Action], step: Callable[[Action], None]) -> None:
        for action in actions:
            try:
                step(action)
            except OSError as fault:
                self.done.pop(action.path, None)
                self.refused.append(
                    Refusal(path=action.path, reason=fault_reason(fault), before=action.target)
                )
            else:
                self.done[action.path] = action.done

    def _set_aside(self, action: Action) -> bool:
        """Copy away what the user has there."""
        if not _is_filed(action.now):
            return True
        try:
            place = self.shelf.place("replaced", action.path)
            placing.copy_out(self.root, action.path, place)
        except OSError as fault:
            reason = (
                f"what is there cannot be copied away ({fault_text(fault)}), so it stays as it is; move it away and run the "
                "command again"
            )
            self.refused.append(Refusal(path=action.path, reason=reason, before=action.target))
            return False
        self.replaced[action.path] = place
        return True

    def _set_bits(self, action: Action) -> None:
        assert action.target is not None
        placing.set_folder_bits(self.root, action.path, action.target.bits)

    def _unlink(self, action: Action) -> None:
        assert action.now is not None
        placing.remove(self.root, action.path, expected=action.now, like=self.like)

    def _remove_folder(self, action: Action) -> None:
        try:
            placing.remove_folder(self.root, action.path)
        except OSError as fault:
            if fault.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                raise
            self.kept.append(action.path)

    def _make_folder(self, action: Action) -> None:
        assert action.target is not None
        # Open to us until what belongs into it is there.
        placing.make_folder(self.root, action.path, action.target.bits | _OPEN)

    def _put_all(self, actions: Sequence[Action]) -> None:
        states = [action.target for action in actions if action.target is not None]
        contents = self.trees.contents([state.oid for state in states])
        for action, state, (_, content) in zip(actions, states, contents, strict=True):
            self._each([action], partial(self._put, state, content))

    def _put(self, state: State, content: bytes, action: Action) -> None:
        if action.forced:
            placing.make_parents(self.root, action.path)
        there = None if _kind(action.now) == "folder" else action.now
        placing.put(self.root, action.path, state, content, instead_of=there, like=self.like)


def _kind(state: State | None) -> str:
    return "nothing" if state is None else state.kind


def _is_filed(state: State | None) -> bool:
    return _kind(state) not in {"nothing", "folder"}


def _depth(action: Action) -> int:
    return action.path.count(b"/")


def _stays_open(action: Action) -> bool:
    return action.target is not None and action.target.bits & _OPEN == _OPEN
