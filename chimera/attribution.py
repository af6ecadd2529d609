"""Whose work a change is: what a run did to each path, read from its snapshots and from what lies between them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from chimera.errors import RecordError
from chimera.workspace.annex import LINK, Annex, git_mode
from chimera.workspace.placing import State
from chimera.workspace.trees import Entry, Trees

LOOKING_TOOLS = frozenset({"read_file", "search", "update_plan"})
"""All others may change files."""

Obstacle = Literal["", "not recorded", "user", "unknown"]
"""Why a change cannot simply be taken back: what was there before is in no snapshot, the user changed the path as well,
or it is not known whether the run or the user did."""


class Mark(Struct, frozen=True, kw_only=True):
    """A snapshot in the course of a run."""

    by: str
    """Whose work lies between the snapshot before and this one: `run`, `user` or `unknown`; `start` for the first one."""
    part: int
    """0, and one more each time that the run was taken up again."""
    step: int
    """0 for what was there when the part began."""
    tree: str
    annex: str
    ignored: str | None
    joined: frozenset[bytes]
    """Files that are recorded from here on although rules exclude them; what was there before is this snapshot."""


class PathChange(Struct, frozen=True, kw_only=True):
    """What a run did to one path, from a given point on."""

    path: bytes
    before: State | None
    """What was there before the first change; None for nothing."""
    after: State | None
    """What the last snapshot of the run holds, or what the last undo since left."""
    or_after: frozenset[State | None] = frozenset()
    """What an undo that was killed may have left instead."""
    obstacle: Obstacle = ""
    by_run: State | None = None
    """What the last change of the run itself left."""
    between: tuple[tuple[State | None, State | None], ...] = ()
    """What the user changed after the first change of the run and before its last one."""
    maybe: bool = False
    """One of the changes may be the user's."""


def ends_in_a_call(events: Iterable[Mapping[str, Any]]) -> bool:
    """Whether calls that may have changed something were not followed by a snapshot.

    One that was taken within a call, around the question whether it may run, tells nothing of what the call then did.
    """
    pending = running = False
    for event in events:
        match event["type"]:
            case "tool_started":
                running = True
                pending = pending or event.get("name") not in LOOKING_TOOLS
            case "tool_finished":
                running = False
            case "prompt" | "run_started":
                pending = running = False
            case "run_finished":
                pending, running = bool(event.get("unsaved")), False
            case "checkpoint" if event.get("by") not in {"undo", "redo"} and not running:
                pending = False
            case _:
                pass
    return pending


def entry_of(state: State | None) -> Entry | None:
    """What a git tree holds of a state: files and links."""
    if state is None or state.kind not in {"file", "link"}:
        return None
    return Entry(LINK if state.kind == "link" else git_mode(state.bits), state.oid)


def read_marks(events: Iterable[Mapping[str, Any]]) -> list[Mark]:
    """The snapshots of a run in order, the one from before its first step first.

    Where events are missing, a snapshot may be, so the work up to the next one is nobody's for sure. Records of version 0.1
    name the first snapshot in `run_started`.

    Returns:
        None of them for a run that ended, or is, before its first snapshot: it has changed nothing.

    Raises:
        RecordError: the record lacks them.
    """
    marks: list[Mark] = []
    part, expected, gap, acted = -1, 0, False, False
    try:
        for event in events:
            gap = gap or event.get("seq") != expected
            expected = event.get("seq", expected) + 1
            if event["type"] == "run_started":
                part += 1
                if part == 0 and event.get("start_tree") is not None:
                    opening = {name: event[f"start_{name}"] for name in ("tree", "annex", "ignored")}
                    marks.append(mark_of({**opening, "step": 0, "by": "start"}, part))
                gap = False
            elif event["type"] == "tool_started":
                acted = acted or not (marks or event.get("name") in LOOKING_TOOLS)
            elif event["type"] == "checkpoint" and event.get("by") not in {"undo", "redo"}:
                mark = mark_of(event, part)
                if not marks and mark.by != "start":
                    raise RecordError(
                        "the first snapshot is missing in the record of this run, so nothing to go back to"
                    )
                marks.append(replace(mark, by="unknown") if gap and marks else mark)
                gap = False
    except KeyError as fault:
        raise RecordError(f"a snapshot in the record of this run has no {fault.args[0]!r}") from fault
    if part < 0:
        raise RecordError("the record of this run has no beginning, so nothing to go back to")
    if acted:
        raise RecordError(
            "no snapshot of the workspace was taken before the first call of this run (its notices say why), so there is "
            "nothing to compare with and nothing to go back to"
        )
    return marks


def mark_of(event: Mapping[str, Any], part: int) -> Mark:
    """The snapshot that an event tells of.

    Raises:
        KeyError: it is no such event.
    """
    return Mark(
        by=event.get("by", "unknown"),
        part=part,
        step=event["step"],
        tree=event["tree"],
        annex=event["annex"],
        ignored=event["ignored"],
        joined=frozenset(os.fsencode(path) for path in event.get("joined", [])),
    )


def start_of(marks: Sequence[Mark], events: Iterable[Mapping[str, Any]], step: int | None) -> int:
    """The index of the last mark from before a step; of the newest part that has it where the run was taken up again.

    Raises:
        RecordError: the run has no such step.
    """
    if step is None:
        return 0
    reached: list[int] = []
    for event in events:
        if event["type"] == "run_started":
            reached.append(0)
        elif event["type"] == "prompt" and reached:
            reached[-1] = max(reached[-1], event.get("step", 0))
    part = max((n for n, last in enumerate(reached) if last >= step), default=None)
    if part is None:
        raise RecordError(f"this run has no step {step}; its last one is {max(reached, default=0)}")
    later = (n for n, mark in enumerate(marks) if (mark.part, mark.step) >= (part, step))
    return max(0, next(later, len(marks)) - 1)


class Picture(Struct, frozen=True, kw_only=True):
    """Everything in one snapshot, by path."""

    tree: str
    files: Mapping[bytes, Entry]
    annex: Annex

    @classmethod
    def of(cls, trees: Trees, run_id: str, tree: str, annex: str) -> Picture:
        """The picture of a recorded tree.

        Raises:
            WorkspaceError: it is not there any more.
        """
        return cls(tree=tree, files=trees.entries(tree), annex=trees.annex(run_id, annex))

    def next(self, trees: Trees, tree: str, annex: Annex) -> Picture:
        """The picture of a later tree, from what differs."""
        files = dict(self.files)
        for path, (_, entry) in trees.differences(self.tree, tree).items():
            if entry is None:
                files.pop(path, None)
            else:
                files[path] = entry
        return Picture(tree=tree, files=files, annex=annex)

    def state(self, path: bytes) -> State | None:
        """What it shows at a path."""
        entry = self.files.get(path)
        if entry is not None and entry.mode == LINK:
            return State("link", entry.oid)
        if entry is not None:
            return State("file", entry.oid, self.annex.bits(path, entry.mode))
        if path in self.annex.folders:
            return State("folder", bits=self.annex.folders[path])
        note = self.annex.unrecorded.get(path)
        return None if note is None else State("other", note)

    def differences(self, other: Picture) -> Iterator[tuple[bytes, State | None, State | None]]:
        """The paths at which the other one shows something else, with what each shows."""
        mine, theirs = self.annex, other.annex
        paths = {path for path, _ in self.files.items() ^ other.files.items()}
        paths |= {path for path, _ in mine.folders.items() ^ theirs.folders.items()}
        unrecorded = mine.unrecorded.items() ^ theirs.unrecorded.items()
        paths |= {path for path, _ in unrecorded if not path.endswith(b"/")}
        paths |= {path for path, _ in mine.modes.items() ^ theirs.modes.items()}
        if mine.usual != theirs.usual:
            paths |= self.files.keys()
        for path in paths:
            before, after = self.state(path), other.state(path)
            if before != after:
                yield path, before, after


def path_changes(trees: Trees, run_id: str, marks: Sequence[Mark], start: int) -> tuple[PathChange, ...]:
    """What the run changed after the mark with index `start`, sorted by path.

    Raises:
        WorkspaceError: a snapshot is not there any more.
    """
    tales: dict[bytes, _Tale] = {}
    picture = Picture.of(trees, run_id, marks[start].tree, marks[start].annex)
    unseen = [picture.annex, *(trees.annex(run_id, m.ignored) for m in marks[: start + 1] if m.ignored)]
    for mark in marks[start + 1 :]:
        after = picture.next(trees, mark.tree, trees.annex(run_id, mark.annex))
        for path in mark.joined:
            tales.setdefault(path, _Tale()).known = True
        for path, old, new in picture.differences(after):
            if path not in mark.joined:
                tale = tales.setdefault(path, _Tale())
                tale.add(mark.by, old, new, lambda path=path: any(annex.misses(path) for annex in unseen))  # type: ignore[misc]
        unseen.append(after.annex)
        if mark.ignored:
            unseen.append(trees.annex(run_id, mark.ignored))
        picture = after
    told = (tale.told(path) for path, tale in sorted(tales.items()))
    return tuple(change for change in told if change is not None)


class _Tale(Struct):
    """What happened at one path, snapshot by snapshot."""

    known: bool = False
    """What was there before is known although rules exclude the path."""
    touched: bool = False
    """The run changed it."""
    before: State | None = None
    after: State | None = None
    unrecorded: bool = False
    foreign: Obstacle = ""
    """Whose work came on top of the run's: `user`, `unknown` or nobody's."""
    states: set[State | None] = field(default_factory=set)
    """Those before and after changes of the run."""
    by_run: State | None = None
    between: list[tuple[State | None, State | None]] = field(default_factory=list)
    later: list[tuple[State | None, State | None]] = field(default_factory=list)
    """What the user changed since the last change of the run."""
    maybe: bool = False

    def add(
        self, by: str, old: State | None, new: State | None, may_have_been_there: Callable[[], bool]
    ) -> None:
        """One change from a snapshot to the next."""
        if by != "user":
            if not self.touched:
                self.touched, self.before = True, old
                self.unrecorded = old is None and not self.known and may_have_been_there()
            self.states |= {old, new}
            self.between += self.later
            self.later.clear()
            self.by_run = new
            self.maybe = self.maybe or by == "unknown"
        elif self.touched:
            self.later.append((old, new))
        if by == "unknown":
            self.foreign = "unknown"
        elif by == "user" and self.touched and new not in self.states:
            self.foreign = "user"
        if new == self.before:
            self.foreign = ""
        self.after = new

    def told(self, path: bytes) -> PathChange | None:
        """The change as a whole; None where the run did nothing, or made a folder of which nothing is known."""
        is_folder = self.after is not None and self.after.kind == "folder"
        if not self.touched or (self.unrecorded and is_folder):
            return None
        return PathChange(
            path=path,
            before=self.before,
            after=self.after,
            obstacle=self._obstacle(),
            by_run=self.by_run,
            between=tuple(self.between),
            maybe=self.maybe,
        )

    def _obstacle(self) -> Obstacle:
        if self.unrecorded or (self.before is not None and self.before.kind == "other"):
            return "not recorded"
        return self.foreign
