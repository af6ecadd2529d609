"""Snapshots of the workspace in the course of a run: before its first step, and around each step that may change it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal

from chimera.core.state import FileSummary
from chimera.errors import ToolError, WorkspaceError
from chimera.record.events import Event
from chimera.workspace.checkpoint import QUOTA_BYTES, ShadowRepository, Snapshot
from chimera.workspace.paths import Workspace

LOOKING_TOOLS = frozenset({"read_file", "search", "update_plan"})
"""All others may change files."""
_EDITING_TOOLS = frozenset({"edit_file", "write_file"})

Author = Literal["run", "user", "unknown", "undo", "redo"]
"""Whose work lies between two snapshots. `unknown`: of a call that was cut short, or of the user after it."""


class Checkpoints:
    """The snapshots of one run. Without a usable shadow repository there are none, and `notices` says why.

    What changes while no call runs is the user's work. So there is a snapshot before the first changing call of a step
    as well as after the last one.
    """

    def __init__(
        self,
        home: Path,
        root: Path,
        run_id: str,
        *,
        start_tree: str | None = None,
        last_tree: str | None = None,
        interrupted: bool = False,
    ) -> None:
        """Take the first snapshot.

        Args:
            home: the state directory.
            root: the workspace.
            run_id: the run that the snapshots belong to.
            start_tree: the first snapshot of an earlier part of the same run.
            last_tree: the last one.
            interrupted: that part ended in the middle of a call.
        """
        self._shadow: ShadowRepository | None = ShadowRepository(home, root)
        self._root = root
        self._run_id = run_id
        self.notices: list[str] = []
        """Why there are no snapshots, or none of older runs."""
        self._changing = False
        self._last: Snapshot | None = None
        self._names: set[bytes] = set()
        """Everything recorded once stays recorded, also where a rule of the run comes to ignore it."""
        self._recall(last_tree)
        self._snapshot(with_ignored=True)
        self._drop_old_runs()
        self.start_tree = start_tree or self.tree
        self.taken_up = self._event(0, "unknown" if interrupted else "user") if start_tree else None
        """For a run that goes on: the event of its first snapshot, to be recorded after `run_started`."""

    @property
    def tree(self) -> str | None:
        """The newest snapshot."""
        return self._last.tree if self._last else None

    def start_fields(self) -> dict[str, Any]:
        """What `run_started` says about the first snapshot."""
        return {
            "start_tree": self.start_tree,
            "start_annex": self._last.annex if self._last else None,
            "start_ignored": self._last.ignored if self._last else None,
            "omitted": list(self._last.omitted) if self._last else [],
        }

    def before(self, event: Event) -> Event | None:
        """To be called with every event before it is recorded.

        Returns:
            The event of a snapshot to record first: before a call that may change files, if something was changed since
            the last one, or if it names a file that was not recorded so far because rules exclude it.
        """
        if event.type != "tool_started" or event.fields["name"] in LOOKING_TOOLS:
            return None
        joining = self._joining(event)
        by: Author = "run" if self._changing else "user"
        if self._changing and joining is None:
            return None
        self._changing = True
        if joining is not None:
            self._names.add(joining)
        changed = self._snapshot()
        if changed or joining is not None:
            return self._event(event.fields["step"], by, joining)
        return None

    def take(self, step: int) -> Event | None:
        """A snapshot if a changing call ran since the last one; its event if anything is different."""
        if not self._changing:
            return None
        self._changing = False
        return self._event(step, "run") if self._snapshot() else None

    def changed_since(self, tree: str | None) -> tuple[FileSummary, ...]:
        """What differs between a tree and the newest snapshot."""
        if self._shadow is None or tree is None or self._last is None:
            return ()
        try:
            changes = self._shadow.changes(tree, self._last.tree)
        except WorkspaceError as fault:
            self._give_up(fault)
            return ()
        return tuple(FileSummary(path=c.path, added=c.added, removed=c.removed) for c in changes)

    def _event(self, step: int, by: Author, joined: bytes | None = None) -> Event | None:
        if self._last is None:
            return None
        return Event(
            "checkpoint",
            {
                "step": step,
                "by": by,
                "tree": self._last.tree,
                "annex": self._last.annex,
                "ignored": self._last.ignored,
                "omitted": list(self._last.omitted),
                "joined": [] if joined is None else [os.fsdecode(joined)],
            },
        )

    def _joining(self, event: Event) -> bytes | None:
        """The file that an editing call names, if no snapshot holds it."""
        if self._shadow is None or event.fields["name"] not in _EDITING_TOOLS:
            return None
        try:
            path = json.loads(event.fields["arguments"])["path"]
            real = Workspace(root=self._root).locate(path, write=True).path
        except (ToolError, ValueError, TypeError, KeyError, AttributeError):
            return None
        name = os.fsencode(real.relative_to(self._root))
        return None if name in self._names else name

    def _recall(self, tree: str | None) -> None:
        if self._shadow is None or tree is None:
            return
        try:
            self._names.update(self._shadow.trees().entries(tree))
        except WorkspaceError:
            return  # dropped: what rules exclude now stays excluded

    def _snapshot(self, *, with_ignored: bool = False) -> bool:
        """Take a snapshot. True if it differs from the one before."""
        if self._shadow is None:
            return False
        before = self._last
        try:
            self._last = self._shadow.snapshot(
                run_id=self._run_id, also=self._names, with_ignored=with_ignored
            )
        except WorkspaceError as fault:
            self._give_up(fault)
            return False
        self._names |= self._last.paths
        return before is None or (before.tree, before.annex) != (self._last.tree, self._last.annex)

    def _drop_old_runs(self) -> None:
        if self._shadow is None:
            return
        try:
            dropped = self._shadow.keep_within(QUOTA_BYTES, but=[self._run_id])
        except WorkspaceError as fault:
            self._give_up(fault)
            return
        if dropped:
            self.notices.append(
                f"The snapshots of this workspace took more than {QUOTA_BYTES // 1024**3} GiB: those of the oldest runs "
                f"were dropped, and these can no longer be undone: {', '.join(dropped)}"
            )

    def _give_up(self, fault: WorkspaceError) -> None:
        self._shadow = None
        self.notices.append(f"No snapshot of the workspace, so no list of changes and no undo: {fault}")
