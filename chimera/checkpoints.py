"""Snapshots of the workspace in the course of a run: before the first step, and after each step that may change it."""

from __future__ import annotations

from pathlib import Path

from chimera.core.state import FileSummary
from chimera.errors import WorkspaceError
from chimera.record.events import Event
from chimera.workspace.checkpoint import ShadowRepository

CHANGING_TOOLS = frozenset({"edit_file", "write_file", "shell", "verify"})


class Checkpoints:
    """The snapshots of one run. Without a usable shadow repository there are none, and `notice` says why."""

    def __init__(self, home: Path, root: Path, *, start_tree: str | None = None) -> None:
        """Take the first snapshot. `start_tree`: the one from before an earlier part of the same run."""
        self._shadow: ShadowRepository | None = ShadowRepository(home, root)
        self.notice = ""
        self._changing = False
        self._last: str | None = None
        self._omitted: tuple[str, ...] = ()
        self._snapshot()
        self.start_tree = start_tree or self._last

    @property
    def tree(self) -> str | None:
        """The newest snapshot."""
        return self._last

    def note(self, event: Event) -> None:
        """Remember that a call ran that may have changed something."""
        if event.type == "tool_started" and event.fields["name"] in CHANGING_TOOLS:
            self._changing = True

    def take(self, step: int) -> Event | None:
        """A snapshot if a changing call ran since the last one; its event if the tree is another one."""
        if not self._changing:
            return None
        self._changing = False
        before = self._last
        self._snapshot()
        return self.event(step) if self._last != before else None

    def event(self, step: int) -> Event:
        """The event of the newest snapshot."""
        return Event("checkpoint", {"step": step, "tree": self._last, "omitted": list(self._omitted)})

    def changed_since(self, tree: str | None) -> tuple[FileSummary, ...]:
        """What differs between a tree and the newest snapshot."""
        if self._shadow is None or tree is None or self._last is None:
            return ()
        try:
            changes = self._shadow.changes(tree, self._last)
        except WorkspaceError as fault:
            self._give_up(fault)
            return ()
        return tuple(FileSummary(path=c.path, added=c.added, removed=c.removed) for c in changes)

    def _snapshot(self) -> None:
        if self._shadow is None:
            return
        try:
            snapshot = self._shadow.snapshot()
        except WorkspaceError as fault:
            self._give_up(fault)
        else:
            self._last, self._omitted = snapshot.tree, snapshot.omitted

    def _give_up(self, fault: WorkspaceError) -> None:
        self._shadow = None
        self.notice = f"No snapshot of the workspace, so no list of changes and no undo: {fault}"
