"""Undo and redo: what a run changed is put back, and taken back again, never over the user's own later work.

Nothing here touches the user's repository: not its index, nor its refs, nor its objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from chimera.checkpoints import LOOKING_TOOLS
from chimera.errors import RecordError
from chimera.record.events import Event
from chimera.record.run_directory import RunDirectory, read_events
from chimera.undo.history import PathChange, Picture, path_changes, read_marks, start_of
from chimera.undo.plan import Done, Plan, PuttingBack, Refusal, Shelf
from chimera.undo.uncovered import Uncovered, changed_and_not_recorded, removed_and_not_recorded
from chimera.workspace.candidates import shown_name
from chimera.workspace.checkpoint import ShadowRepository, Snapshot
from chimera.workspace.lock import workspace_lock
from chimera.workspace.paths import Workspace
from chimera.workspace.placing import remove_left_overs

Fields = Mapping[str, Any]
_KEPT = "kept, because it holds files that are in no snapshot or are not of this run"
_UNSAVED = "it was changed after the last snapshot, by the call in which the run was killed or by you"


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A path that was left alone."""

    path: str
    reason: str
    old_version: Path | None
    """Where the version lies that was not put back; None where there was none, or it was not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
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
        marks = read_marks(desk.events)
        trees = desk.shadow.trees()
        changes = path_changes(trees, desk.record.run_id, marks, start_of(marks, desk.events, step))
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
    """The events of the last undo that was not redone, and of those before it that were killed before their end."""
    stack: list[list[Fields]] = []
    open_group: list[Fields] = []
    for event in events:
        if event["type"] == "run_started":
            stack, open_group = [], []
        match event.get("by"), event.get("phase"):
            case "undo", "begin":
                open_group.append(event)
            case "undo", "end":
                stack.append(open_group)
                open_group = []
            case "redo", "end":
                if open_group:
                    open_group = []
                elif stack:
                    stack.pop()
            case _:
                pass
    return open_group or (stack[-1] if stack else [])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Desk:
    """A run with its workspace locked and its record open."""

    root: Path
    events: Sequence[Fields]
    record: RunDirectory
    shadow: ShadowRepository

    @classmethod
    @contextmanager
    def open(cls, home: Path, run_dir: Path) -> Iterator[_Desk]:
        start = next((e for e in read_events(run_dir) if e["type"] == "run_started"), {})
        if not isinstance(start.get("workspace"), str):
            raise RecordError(f"the record of {run_dir.name} does not name its workspace")
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
                begun[-1] = {**begun[-1], "ended": True}
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
        plan = Plan.make(changes, now, force=force)
        shelf = Shelf(self.record.path)
        work = PuttingBack(root=self.root, trees=trees, like=now.tree, shelf=shelf)
        if plan.actions:
            tree, annex = self.shadow.graft(run_id, now.tree, plan.grafts(), plan.annex(now.annex))
            ids = {"tree": now.tree, "annex": snapshot.annex, "after_tree": tree, "after_annex": annex}
            self._note(by, step, phase="begin", **ids)
            work.run(plan.actions)
            self._note(by, step, phase="end", tree=tree, annex=annex)
        refusals = [*plan.refusals, *work.refused]
        not_covered: tuple[Uncovered, ...] = ()
        if by == "undo":
            refusals += self._unsaved(last, now, {change.path for change in changes})
            known = now.files.keys() | {change.path for change in changes}
            not_covered = self._not_covered(now, snapshot, known)
        kept = [Uncovered(path=shown_name(path) + "/", reason=_KEPT) for path in work.kept]
        done = {path: how for path, how in sorted(work.done.items()) if path not in work.kept}
        return Outcome(
            run_id=run_id,
            put_back={shown_name(path): how for path, how in done.items()},
            left=tuple(self._left(shelf, refusals)),
            replaced={shown_name(path): place for path, place in sorted(work.replaced.items())},
            not_covered=(*kept, *not_covered),
        )

    def _pictures(self, event: Fields) -> tuple[Picture, Picture]:
        """What an undo or redo found, and what it meant to leave."""
        trees, run_id = self.shadow.trees(), self.record.run_id
        return (
            Picture.of(trees, run_id, event["tree"], event["annex"]),
            Picture.of(trees, run_id, event["after_tree"], event["after_annex"]),
        )

    def _snapshot(self, also: Iterable[bytes]) -> Snapshot:
        return self.shadow.snapshot(run_id=self.record.run_id, also=also, with_ignored=True)

    def _note(self, by: str, step: int, **fields: Any) -> None:
        self.record.emit(Event("checkpoint", {"step": step, "by": by, **fields}))

    def _not_covered(self, now: Picture, snapshot: Snapshot, known: Set[bytes]) -> tuple[Uncovered, ...]:
        """What rules exclude, or could not be recorded, and was changed or removed since the run began."""
        trees, run_id = self.shadow.trees(), self.record.run_id
        start = next(event for event in self.events if event["type"] == "run_started")
        excluded = trees.annex(run_id, start["start_ignored"]).unrecorded
        unseen = now.annex.unrecorded | trees.annex(run_id, snapshot.ignored or "").unrecorded
        try:
            began_s = datetime.fromisoformat(start["time"]).timestamp()
        except (KeyError, TypeError, ValueError):
            began_s = 0.0
        return (
            *removed_and_not_recorded(self.root, excluded - known),
            *changed_and_not_recorded(self.root, unseen - known, known, began_s),
        )

    def _unsaved(self, last: Picture, now: Picture, covered: set[bytes]) -> Iterator[Refusal]:
        """What a run that was killed in the middle of a call may have changed after its last snapshot."""
        if not _killed_in_a_call(self.events):
            return
        for path, old, _ in last.differences(now):
            if path not in covered and (old is None or old.kind != "folder"):
                yield Refusal(path=path, reason=_UNSAVED, before=old)

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


def _killed_in_a_call(events: Iterable[Fields]) -> bool:
    """Whether calls that may have changed something were not followed by a snapshot."""
    pending = False
    for event in events:
        match event["type"]:
            case "tool_started":
                pending = pending or event.get("name") not in LOOKING_TOOLS
            case "prompt" | "run_finished" | "run_started":
                pending = False
            case "checkpoint" if event.get("by") not in {"undo", "redo"}:
                pending = False
            case _:
                pass
    return pending
