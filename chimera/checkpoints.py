"""Snapshots of the workspace in the course of a run: before its first step, and around each step that may change it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from chimera.attribution import LOOKING_TOOLS, Mark, Picture, mark_of
from chimera.config import Mode
from chimera.core.state import FileSummary
from chimera.errors import ToolError, WorkspaceError
from chimera.record.events import Event
from chimera.run_work import work_of_run
from chimera.tools.approval import Ask, Denial, approval
from chimera.tools.base import Approve, Tool
from chimera.workspace.candidates import shown_name
from chimera.workspace.checkpoint import QUOTA_BYTES, ShadowRepository, Snapshot
from chimera.workspace.paths import Workspace

_EDITING_TOOLS = frozenset({"edit_file", "write_file"})

_NEW_RULES = (
    "By the ignore rules from before the run the workspace is too large to record, so those of now are obeyed: what they "
    "hide is in no list of changes, and `chimera undo` does not cover it."
)

_COPYING = "Recording the workspace, so that it can be undone: {:,} files to copy; later only what changed."

Author = Literal["start", "run", "user", "unknown", "undo", "redo"]
"""Whose work lies between two snapshots. `start`: before the first one is none; `unknown`: of a call that was cut short, or
of the user after it."""


class Checkpoints:
    """The snapshots of one run. Without a usable shadow repository there are none, and `notices` says why.

    The first one is taken by `begin`, which can wait until the model thinks, and for nothing that may change a file. What
    changes while no call runs is the user's work. So there is a snapshot before the first changing call of a step
    as well as after the last one, and around each question to the user.
    """

    def __init__(
        self,
        home: Path,
        root: Path,
        run_id: str,
        *,
        earlier: Sequence[Mark] = (),
        interrupted: bool = False,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Name the snapshots of a run, and see what was changed since the last one of its earlier parts.

        Args:
            home: the state directory.
            root: the workspace.
            run_id: the run that the snapshots belong to.
            earlier: the snapshots of earlier parts of the same run.
            interrupted: the last part ended in the middle of a call.
            tell: called with what takes a while, before it does.
        """
        self._shadow: ShadowRepository | None = ShadowRepository(
            home, root, tell=lambda count: tell(_COPYING.format(count))
        )
        self._root = root
        self._run_id = run_id
        self.step = 0
        """The step under way, which snapshots belong to; whoever sees a step begin sets it."""
        self.notices: list[str] = []
        """What the user should know: why there are no snapshots, or none of older runs, and what is nobody's for sure."""
        self.unsaved = False
        """A call that may have changed something was not followed by a snapshot."""
        self.lately: tuple[str, ...] = ()
        """What was changed since the last snapshot of the earlier part."""
        self.taken_up: Event | None = None
        """For a run that goes on: the event of its first snapshot, to be recorded after `run_started`."""
        self._marks = list(earlier)
        self._part = earlier[-1].part + 1 if earlier else 0
        self._last: Snapshot | None = None
        self._names: set[bytes] = set()
        """Everything recorded once stays recorded, also where a rule of the run comes to ignore it."""
        self._recorded = 0
        """How many of the names the last snapshot was asked for."""
        if earlier:
            self._recall()
            self._snapshot(with_ignored=True)
            self._take_up(interrupted)

    def begin(self) -> tuple[Event, ...]:
        """Take the first snapshot of the run, if there is none: before anything may change the workspace.

        Returns:
            Its event, and what the user should know about it, to be recorded.
        """
        if self._last is not None or self._shadow is None:
            return ()
        told = len(self.notices)
        self._snapshot(with_ignored=True)
        first = self._event(0, "start")
        return (
            *filter(None, [first]),
            *(Event("warning", {"text": text, "notice": True}) for text in self.notices[told:]),
        )

    def before(self, name: str, arguments: Mapping[str, Any]) -> Event | None:
        """To be called directly before a call has its effect, so after everybody who may deny it was asked.

        Returns:
            The event of a snapshot to record first: before a call that may change files, if something was changed since
            the last one, or if it names a file that was not recorded so far because rules exclude it.
        """
        if name in LOOKING_TOOLS:
            return None
        joining = self._joining(name, arguments)
        by: Author = "run" if self.unsaved else "user"
        if self.unsaved and joining is None:
            return None
        if joining is not None:
            self._names.add(joining)
        changed = self._snapshot()
        self.unsaved = True
        if changed or joining is not None:
            return self._event(self.step, by, joining)
        return None

    def take(self) -> Event | None:
        """A snapshot if a changing call ran since the last one; its event if anything is different."""
        if not self.unsaved:
            return None
        changed = self._snapshot()
        self.unsaved = self._shadow is None
        return self._event(self.step, "run") if changed else None

    def files_changed(self) -> tuple[FileSummary, ...]:
        """What the run changed, all its parts together, as far as the snapshots tell it from what the user changed."""
        if self._shadow is None or not self._marks:
            return ()
        try:
            return work_of_run(self._shadow, self._run_id, self._marks).files(self._shadow)
        except WorkspaceError as fault:
            self._give_up(fault)
            return ()

    def _take_up(self, interrupted: bool) -> None:
        """See what was changed since the last snapshot of the earlier part, and whose work it is."""
        before = self._marks[-1]
        self.taken_up = self._event(0, "unknown" if interrupted else "user")
        if self._shadow is None or self.taken_up is None:
            return
        try:
            trees, after = self._shadow.trees(), self._marks[-1]
            old, new = (Picture.of(trees, self._run_id, mark.tree, mark.annex) for mark in (before, after))
        except WorkspaceError:
            return  # dropped: nothing to compare with
        found = sorted(old.differences(new))
        self.lately = tuple(
            shown_name(path)
            for path, *states in found
            if any(state is not None and state.kind != "folder" for state in states)
        )
        if interrupted and self.lately:
            self.notices.append(
                f"Changed where the run was interrupted, by its last call or by you: {listed(self.lately)}. `chimera undo` "
                "leaves these as they are and names them; `chimera undo --force` takes them back, too."
            )

    def _event(self, step: int, by: Author, joined: bytes | None = None) -> Event | None:
        if self._last is None:
            return None
        event = Event("checkpoint", {**self._fields(), "step": step, "by": by, "joined": _names(joined)})
        self._marks.append(mark_of(event.fields, self._part))
        return event

    def _fields(self) -> dict[str, Any]:
        assert self._last is not None
        return {
            "tree": self._last.tree,
            "annex": self._last.annex,
            "ignored": self._last.ignored,
            "omitted": list(self._last.omitted),
        }

    def _joining(self, name: str, arguments: Mapping[str, Any]) -> bytes | None:
        """The file that an editing call names, if no snapshot holds it."""
        if self._shadow is None or name not in _EDITING_TOOLS:
            return None
        try:
            real = Workspace(root=self._root).locate(arguments["path"], write=True).path
        except ToolError:
            return None
        found = os.fsencode(real.relative_to(self._root))
        return None if found in self._names else found

    def _recall(self) -> None:
        if self._shadow is None or not self._marks:
            return
        try:
            self._names.update(self._shadow.trees().entries(self._marks[-1].tree))
        except WorkspaceError:
            return  # dropped: what rules exclude now stays excluded

    def _snapshot(self, *, with_ignored: bool = False) -> bool:
        """Take a snapshot. True if it differs from the last one that is recorded."""
        if self._shadow is None:
            return False
        if self._last is None or len(self._names) > self._recorded or not self._shadow.unchanged():
            try:
                self._last = self._shadow.snapshot(
                    run_id=self._run_id, also=self._names, with_ignored=with_ignored
                )
            except WorkspaceError as fault:
                self._give_up(fault)
                return False
            self._names |= self._last.paths
            self._recorded = len(self._names)
        if self._last.by_new_rules and _NEW_RULES not in self.notices:
            self.notices.append(_NEW_RULES)
        mark = self._marks[-1] if self._marks else None
        return mark is None or (mark.tree, mark.annex) != (self._last.tree, self._last.annex)

    def drop_old_runs(self, within_bytes: int = QUOTA_BYTES) -> None:
        """Drop the snapshots of the oldest runs in this workspace, this one's never, until all take so little disk."""
        if self._shadow is None or self._last is None:
            return
        try:
            dropped = self._shadow.keep_within(within_bytes, but=[self._run_id])
        except WorkspaceError as fault:
            self.notices.append(f"The snapshots of older runs were not bounded: {fault}")
            return
        if dropped:
            self.notices.append(
                f"The snapshots of this workspace took more than {within_bytes / 1024**3:.0f} GiB: those of the oldest runs "
                f"were dropped, and these can no longer be undone: {', '.join(dropped)}"
            )

    def _give_up(self, fault: WorkspaceError) -> None:
        self._shadow = None
        self.notices.append(f"No snapshot of the workspace, so no list of changes and no undo: {fault}")


def watched_approval(
    checkpoints: Checkpoints,
    emit: Callable[[Event], None],
    mode: Mode,
    *,
    ask: Ask | None = None,
    workspace: Workspace | None = None,
) -> Approve:
    """The check of each call before it runs, with snapshots around the question.

    What the run did so far is kept before somebody is asked, and what they did until they answered is kept as theirs
    directly before the effect. A call that is denied has none.

    Args:
        checkpoints: of the run.
        emit: records the snapshots.
        mode: as for `approval`, and so are the others.
        ask: see there.
        workspace: see there.
    """

    def record(event: Event | None) -> None:
        if event is not None:
            emit(event)

    def asking(tool: Tool, arguments: Mapping[str, Any]) -> bool | Denial:
        assert ask is not None
        record(checkpoints.take())
        return ask(tool, arguments)

    decide = approval(mode, asking if ask else None, workspace)

    def approve(tool: Tool, arguments: Mapping[str, Any]) -> None:
        for event in checkpoints.begin():
            emit(event)
        decide(tool, arguments)
        record(checkpoints.before(tool.name, arguments))

    return approve


def listed(names: Sequence[str], most: int = 20) -> str:
    """The first of the names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _names(joined: bytes | None) -> list[str]:
    return [] if joined is None else [os.fsdecode(joined)]
