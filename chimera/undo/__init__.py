"""Undo and redo: what a run changed is put back, and taken back again, never over the user's own later work.

Nothing here touches the user's repository: not its index, nor its refs, nor its objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from chimera.attribution import (
    Mark,
    PathChange,
    Picture,
    ends_in_a_call,
    mark_of,
    path_changes,
    read_marks,
    start_of,
)
from chimera.errors import RecordError
from chimera.record.damage import damage_text
from chimera.record.events import Event
from chimera.record.run_directory import EVENTS, RunDirectory, read_events, read_record
from chimera.undo.plan import Action, Done, Plan, PuttingBack, Refusal, Shelf, annex_after, grafts
from chimera.undo.reasons import KEPT
from chimera.undo.uncovered import (
    Uncovered,
    changed_and_not_recorded,
    gone_repositories,
    removed_and_not_recorded,
)
from chimera.workspace.candidates import shown_name
from chimera.workspace.checkpoint import ShadowRepository, Snapshot
from chimera.workspace.lock import workspace_lock
from chimera.workspace.paths import Workspace
from chimera.workspace.placing import remove_left_overs

Fields = Mapping[str, Any]


class Left(Struct, frozen=True, kw_only=True):
    """A path that was left alone."""

    path: str
    reason: str
    old_version: Path | None
    """Where the version lies that was not put back; None where there was none, or it was not recorded."""


class Outcome(Struct, frozen=True, kw_only=True):
    """What undo or redo did. Paths as people read them, relative to the workspace."""

    run_id: str
    put_back: Mapping[str, Done]
    left: tuple[Left, ...]
    replaced: Mapping[str, Path]
    """With force: where the user's own versions are now."""
    not_covered: tuple[Uncovered, ...]
    """What may have been changed during the run, but is in no snapshot."""


def undo(home: Path, run_dir: Path, *, step: int | None = None, force: bool = False) -> Outcome:
    """Put back what a run changed.

    Args:
        home: the state directory.
        run_dir: of the run.
        step: only what it changed in this step and later.
        force: put back also where the user has changed something since; their version is copied away first.

    Raises:
        RecordError: the record has no snapshots, or cannot be written.
        WorkspaceLockedError: a run, or another undo, is at work in the workspace.
        WorkspaceError: the workspace is gone, or the snapshots are.
    """
    with _Desk.open(home, run_dir) as desk:
        marks = read_marks(desk.events) or [desk.mark_of_now()]
        trees = desk.shadow.trees()
        told = path_changes(trees, desk.record.run_id, marks, start_of(marks, desk.events, step))
        changes: Sequence[PathChange] = [change for change in told if change.before != change.after]
        last = Picture.of(trees, desk.record.run_id, marks[-1].tree, marks[-1].annex)
        changes = desk.as_left_by_undos(changes)
        return desk.put_back("undo", changes, last, force=force, step=step or 0)


def redo(home: Path, run_dir: Path, *, force: bool = False) -> Outcome:
    """Take back the last undo of a run.

    Raises:
        RecordError: there is none, or as for `undo`.
        WorkspaceError: as for `undo`, and its other kinds.
    """
    with _Desk.open(home, run_dir) as desk:
        undone = undone_last(desk.events)
        if not undone:
            raise RecordError(f"there is nothing to redo: run {run_dir.name} has no undo that was not redone")
        changes, last = desk.changes_of(undone)
        return desk.put_back("redo", changes, last, force=force, step=0)


def undone_last(events: Iterable[Fields]) -> list[Fields]:
    """The last undo that was not redone, and those before it that were killed before their end.

    Each is the event of its beginning; one that has an end names as `after_tree` and `after_annex` what was really done.
    """
    stack: list[list[Fields]] = []
    open_group: list[Fields] = []
    for event in events:
        if event["type"] == "run_started":
            stack, open_group = [], []
        match event.get("by"), event.get("phase"):
            case "undo", "begin":
                open_group.append(event)
            case "undo", "end":
                stack.append([*open_group[:-1], *(_ended(begin, event) for begin in open_group[-1:])])
                open_group = []
            case "redo", "end":
                if open_group:
                    open_group = []
                elif stack:
                    stack.pop()
            case _:
                pass
    return open_group or (stack[-1] if stack else [])


def _ended(begin: Fields, end: Fields) -> Fields:
    """The beginning of an undo with its end; as if killed where the record has lost what it really did."""
    if "tree" not in end or "annex" not in end:
        return {**begin, "ended": False}
    return {**begin, "after_tree": end["tree"], "after_annex": end["annex"], "ended": True}


class _Desk(Struct, frozen=True, kw_only=True):
    """A run with its workspace locked and its record open."""

    root: Path
    events: Sequence[Fields]
    record: RunDirectory
    shadow: ShadowRepository

    @classmethod
    @contextmanager
    def open(cls, home: Path, run_dir: Path) -> Iterator[_Desk]:
        damage = damage_text(run_dir / EVENTS, read_record(run_dir).damage)
        try:
            with cls._open(home, run_dir) as desk:
                yield desk
        except RecordError as fault:
            raise RecordError(f"{fault}. {damage}" if damage else str(fault)) from fault

    @classmethod
    @contextmanager
    def _open(cls, home: Path, run_dir: Path) -> Iterator[_Desk]:
        start = next((e for e in read_events(run_dir) if e["type"] == "run_started"), None)
        if start is None:
            raise RecordError(
                f"the record of run {run_dir.name} has no beginning: if the run was killed before it, it changed nothing, "
                "and chimera run starts it anew"
            )
        if "workspace" not in start:
            raise RecordError(f"the record of run {run_dir.name} does not name its workspace")
        root = Workspace.open(Path(start["workspace"])).root
        with workspace_lock(home, root, run_dir.name):
            record = RunDirectory.reopen(run_dir)
            try:
                shadow = ShadowRepository(home, root)
                yield cls(root=root, events=list(read_events(run_dir)), record=record, shadow=shadow)
            finally:
                record.close()

    def as_left_by_undos(self, changes: Sequence[PathChange]) -> tuple[PathChange, ...]:
        """The changes with what undo and redo have made of them since the run last went on."""
        found = {change.path: change for change in changes}
        begun: list[Fields] = []
        for event in self.events:
            if event["type"] == "run_started":
                begun.clear()
            elif event.get("phase") == "begin":
                begun.append({**event, "ended": False})
            elif event.get("phase") == "end" and begun:
                begun[-1] = _ended(begun[-1], event)
        for event in begun:
            before, after = self._pictures(event)
            for path, _, new in before.differences(after):
                if path in found and event["ended"]:
                    found[path] = replace(found[path], after=new)
                elif path in found:
                    found[path] = replace(found[path], or_after=found[path].or_after | {new})
        return tuple(found.values())

    def changes_of(self, undone: Sequence[Fields]) -> tuple[list[PathChange], Picture]:
        """What these undos did, path by path, and the picture of what the last of them left."""
        changes: dict[bytes, PathChange] = {}
        after = None
        for event in undone:
            before, after = self._pictures(event)
            for path, old, new in before.differences(after):
                first = changes.get(path)
                changes[path] = PathChange(path=path, before=first.before if first else old, after=new)
        assert after is not None
        return [changes[path] for path in sorted(changes)], after

    def put_back(
        self,
        by: Literal["undo", "redo"],
        changes: Sequence[PathChange],
        last: Picture,
        *,
        force: bool,
        step: int,
    ) -> Outcome:
        """Put the workspace back from `last` to the beginnings of the changes."""
        for folder in {change.path.rpartition(b"/")[0] for change in changes}:
            remove_left_overs(self.root, folder)
        snapshot = self._snapshot([*last.files, *(change.path for change in changes)])
        trees, run_id = self.shadow.trees(), self.record.run_id
        now = Picture.of(trees, run_id, snapshot.tree, snapshot.annex or "")
        if by == "undo" and ends_in_a_call(self.events):
            changes = _with_unsaved(changes, last, now)
        plan = Plan.make(changes, now, force=force)
        shelf = Shelf(self.record.path)
        work = PuttingBack(root=self.root, trees=trees, like=now.tree, shelf=shelf)
        if plan.actions:
            tree, annex = self._keep(now, plan.actions)
            ids = {"tree": now.tree, "annex": snapshot.annex, "after_tree": tree, "after_annex": annex}
            self._note(by, step, phase="begin", **ids)
            work.run(plan.actions)
            tree, annex = self._keep(now, [a for a in plan.actions if a.path in work.really_done])
            self._note(by, step, phase="end", tree=tree, annex=annex)
        refusals = [*plan.refusals, *work.refused]
        not_covered: tuple[Uncovered, ...] = ()
        if by == "undo":
            known = now.files.keys() | {change.path for change in changes}
            not_covered = self._not_covered(now, snapshot, known)
        told = {refusal.path for refusal in refusals}
        kept = [Uncovered(path=shown_name(path) + "/", reason=KEPT) for path in work.kept if path not in told]
        done = {path: how for path, how in sorted(work.done.items()) if path in work.really_done}
        return Outcome(
            run_id=run_id,
            put_back={shown_name(path): how for path, how in done.items()},
            left=tuple(self._left(shelf, refusals)),
            replaced={shown_name(path): place for path, place in sorted(work.replaced.items())},
            not_covered=(*kept, *not_covered),
        )

    def _keep(self, now: Picture, actions: Sequence[Action]) -> tuple[str, str]:
        """Keep the snapshot that these actions lead to."""
        return self.shadow.graft(
            self.record.run_id, now.tree, grafts(actions), annex_after(actions, now.annex)
        )

    def _pictures(self, event: Fields) -> tuple[Picture, Picture]:
        """What an undo or redo found, and what it left; what it meant to leave if it was killed."""
        trees, run_id = self.shadow.trees(), self.record.run_id
        try:
            ids = [(event["tree"], event["annex"]), (event["after_tree"], event["after_annex"])]
        except KeyError as fault:
            raise RecordError(f"an undo in the record of this run has no {fault.args[0]!r}") from fault
        before, after = (Picture.of(trees, run_id, tree, annex) for tree, annex in ids)
        return before, after

    def mark_of_now(self) -> Mark:
        """The workspace as it is, for a run without a snapshot."""
        now = self._snapshot(())
        return mark_of(
            {"by": "start", "step": 0, "tree": now.tree, "annex": now.annex, "ignored": now.ignored}, 0
        )

    def _snapshot(self, also: Iterable[bytes]) -> Snapshot:
        return self.shadow.snapshot(run_id=self.record.run_id, also=also, with_ignored=True)

    def _note(self, by: str, step: int, **fields: Any) -> None:
        self.record.emit(Event("checkpoint", {"step": step, "by": by, **fields}))

    def _not_covered(self, now: Picture, snapshot: Snapshot, known: Set[bytes]) -> tuple[Uncovered, ...]:
        """What rules exclude, or could not be recorded, and was changed or removed since the run began."""
        trees, run_id = self.shadow.trees(), self.record.run_id
        start = next(event for event in self.events if event["type"] == "run_started")
        excluded: Mapping[bytes, str] = {}
        marks = read_marks(self.events)
        if marks and (ignored := marks[0].ignored):
            excluded = trees.annex(run_id, ignored).unrecorded
        unseen = {**trees.annex(run_id, snapshot.ignored or "").unrecorded, **now.annex.unrecorded}
        try:
            began_s = datetime.fromisoformat(start["time"]).timestamp()
        except (KeyError, TypeError, ValueError):
            began_s = 0.0
        return (
            *gone_repositories(self.root, start.get("git_entries", ())),
            *removed_and_not_recorded(self.root, excluded.keys() - known),
            *changed_and_not_recorded(self.root, unseen, known, began_s),
        )

    def _left(self, shelf: Shelf, refusals: Sequence[Refusal]) -> Iterator[Left]:
        filed = [
            (r, r.before) for r in refusals if r.before is not None and r.before.kind in {"file", "link"}
        ]
        contents = self.shadow.trees().contents([before.oid for _, before in filed])
        old_versions = {
            refusal.path: shelf.keep_old(refusal.path, before, content)
            for (refusal, before), (_, content) in zip(filed, contents, strict=True)
        }
        for refusal in sorted(refusals, key=lambda r: r.path):
            old_version = old_versions.get(refusal.path)
            yield Left(path=shown_name(refusal.path), reason=refusal.reason, old_version=old_version)


def _with_unsaved(changes: Sequence[PathChange], last: Picture, now: Picture) -> list[PathChange]:
    """The changes with those after the last snapshot of a run that was killed in a call: the call's or the user's."""
    found = {change.path: change for change in changes}
    for path, old, new in last.differences(now):
        before = found[path].before if path in found else old
        if before != new:
            found[path] = PathChange(path=path, before=before, after=new, obstacle="unknown")
    return [found[path] for path in sorted(found)]
