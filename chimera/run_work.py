"""What a run changed, as two trees to compare: with the user's own changes on neither side of them or on both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from chimera.attribution import Mark, PathChange, Picture, entry_of, path_changes
from chimera.core.state import FileSummary
from chimera.workspace.candidates import shown_name
from chimera.workspace.checkpoint import ShadowRepository
from chimera.workspace.placing import State
from chimera.workspace.trees import Entry, Trees

Pair = tuple[Entry | None, Entry | None]


class RunWork(Struct, frozen=True, kw_only=True):
    """The work of a run. Paths as people read them, relative to the workspace."""

    before: str
    """Id of a tree in which nothing of the run's work is done."""
    after: str
    """Id of one in which nothing else is."""
    mixed: tuple[str, ...]
    """Files whose lines cannot be told apart: the user changed them between two changes of the run."""
    maybe: tuple[str, ...]
    """What was changed where the run was interrupted, by its lost call or by the user."""
    unshown: Mapping[str, str]
    """Files that changed but are in no tree, with what is known of them."""

    def files(self, shadow: ShadowRepository) -> tuple[FileSummary, ...]:
        """Every file, by path. Those in no tree count no lines.

        Raises:
            WorkspaceError: git fails.
        """
        found = [
            FileSummary(path=change.path, added=change.added, removed=change.removed)
            for change in shadow.changes(self.before, self.after)
        ]
        found += [FileSummary(path=path, added=0, removed=0) for path in self.unshown]
        return tuple(sorted(found, key=lambda file: file.path))


def work_of_run(shadow: ShadowRepository, run_id: str, marks: Sequence[Mark]) -> RunWork:
    """What a run did from its first mark to its last.

    Raises:
        WorkspaceError: a snapshot is not there any more, or git fails.
    """
    trees = shadow.trees()
    marks = _without_needless(marks)
    changes = path_changes(trees, run_id, marks, 0)
    wanted = {c.path: pair for c in changes if (pair := _pair(c))[0] != pair[1] and not _unshown(c)}
    between = {c.path: c.between for c in changes if c.path in wanted and c.between}
    before, after = marks[0].tree, marks[-1].tree
    mixed: tuple[bytes, ...] = ()
    if between or wanted != trees.differences(before, after):
        with shadow.opened() as trees:
            mixed = tuple(_take_out(trees, wanted, between))
            before = trees.graft(marks[-1].tree, {path: pair[0] for path, pair in wanted.items()})
            after = trees.graft(marks[-1].tree, {path: pair[1] for path, pair in wanted.items()})
    unshown = {c.path: text for c in changes if (text := _unshown(c))}
    unshown |= _new_and_not_looked_into(trees, run_id, marks)
    return RunWork(
        before=before,
        after=after,
        mixed=tuple(map(shown_name, mixed)),
        maybe=tuple(shown_name(c.path) for c in changes if c.maybe and (c.path in wanted or _unshown(c))),
        unshown={shown_name(path): text for path, text in sorted(unshown.items())},
    )


def _without_needless(marks: Sequence[Mark]) -> list[Mark]:
    """The marks without those between two changes of the run, which say nothing about whose work a change is."""
    first, *later = marks
    needed = [
        mark
        for mark, following in pairwise(later)
        if {mark.by, following.by} != {"run"} or mark.joined or following.joined
    ]
    return [first, *needed, *later[-1:]]


def _pair(change: PathChange) -> Pair:
    return entry_of(change.before), entry_of(change.by_run)


def _unshown(change: PathChange) -> str:
    """What is known of a change that no patch can show; empty where one can."""
    before, after = change.before, change.by_run
    if before == after:
        return ""
    if before is not None and before.kind == "other":
        return f"what was there before is in no snapshot ({_why(before)})"
    if after is not None and after.kind == "other":
        return f"what is there now is in no snapshot ({_why(after)})"
    if change.obstacle == "not recorded" and entry_of(after) is not None:
        return "what was there before is in no snapshot (ignored)"
    return ""


def _why(state: State) -> str:
    reason = state.oid.partition(" ")[0]
    return "larger than 10 MiB" if reason == "large" else reason or "not recorded"


def _take_out(
    trees: Trees,
    wanted: dict[bytes, Pair],
    between: Mapping[bytes, Sequence[tuple[State | None, State | None]]],
) -> Iterator[bytes]:
    """Take the user's changes out of the middle of the run's, and yield the paths where that cannot be done."""
    for path, changes in between.items():
        before, after = wanted[path]
        for old, new in reversed(changes):
            merged = _without(trees, after, old=entry_of(old), new=entry_of(new))
            if merged is None:
                yield path
                break
            after = merged
        else:
            wanted[path] = (before, after)


def _without(trees: Trees, entry: Entry | None, *, old: Entry | None, new: Entry | None) -> Entry | None:
    """A file without what led from `old` to `new`; None where that cannot be told from the rest."""
    if entry is None or old is None or new is None:
        return None
    oid = trees.merged(entry.oid, base=new.oid, other=old.oid)
    return None if oid is None else Entry(entry.mode, oid)


def _new_and_not_looked_into(trees: Trees, run_id: str, marks: Sequence[Mark]) -> dict[bytes, str]:
    """Folders that came during the run and were not recorded."""
    first, last = (Picture.of(trees, run_id, m.tree, m.annex).annex.unrecorded for m in (marks[0], marks[-1]))
    return {
        path: f"made during the run and in no snapshot ({note})"
        for path, note in last.items()
        if path.endswith(b"/") and path not in first
    }
