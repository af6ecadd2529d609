"""What undo and redo say about a path that they leave alone: what it is, why, and what to do about it."""

from __future__ import annotations

from chimera.attribution import PathChange
from chimera.workspace.files import fault_text
from chimera.workspace.placing import ChangedMeanwhileError, State

_ONLY_A_COPY = "only a copy of your own brings it back"
_NOT_RECORDED = {
    "large": f"it was larger than 10 MiB before the run changed it, so it was not recorded: {_ONLY_A_COPY}",
    "unreadable": f"it could not be read before the run changed it, so it was not recorded: {_ONLY_A_COPY}",
    "special": "a pipe, socket or device was there before, which is not recorded: make it anew if you need it",
}
_IGNORED = (
    f"git ignored it when the run changed it, so what was there before was not recorded: {_ONLY_A_COPY}"
)
_NOW = {
    "large": "it is larger than 10 MiB",
    "unreadable": "it cannot be read",
    "special": "it is a pipe, socket or device",
}
KEPT = (
    "kept, because files lie in it that are in no snapshot or are not of this run: once they are gone, chimera undo "
    "removes it"
)

OCCUPIED = (
    "the run put a folder in its place, and files lie in that which are in no snapshot or are not of this run, so it stays; "
    "move them away and run the command again"
)


def reason_to_leave(change: PathChange, there: State | None) -> str:
    """Why a path stays as it is; empty where nothing stands against taking the change back."""
    match change.obstacle:
        case "not recorded":
            note = change.before.oid if change.before is not None else ""
            return _NOT_RECORDED.get(_word(note), _IGNORED)
        case "user":
            why = "you changed it as well while the run was under way, so it stays as it is"
        case "unknown":
            why = "it was changed where the run was interrupted, by its lost call or by you, so it stays as it is"
        case _:
            why = _later_work(change, there)
    return f"{why}; {_way_out(change, there)}" if why else ""


def can_be_forced(change: PathChange, there: State | None) -> bool:
    """Whether `--force` can put a path back."""
    if change.obstacle == "not recorded" or _is(there, "special"):
        return False
    return there is None or there.kind != "folder" or change.before is None or change.before.kind == "folder"


def fault_reason(fault: OSError) -> str:
    """Why a path stays as it is although nothing stood against changing it."""
    if isinstance(fault, ChangedMeanwhileError):
        return "it was changed at this very moment, so it stays as it is; run the command again"
    return f"it cannot be put back ({fault_text(fault)}); set that right and run the command again"


def _later_work(change: PathChange, there: State | None) -> str:
    if there is not None and there.kind == "other":
        now = _NOW.get(_word(there.oid), "it is not recorded")
        return f"what is there now cannot be compared with what the run left ({now}), so it stays"
    if there == change.after or there in change.or_after:
        return ""
    if there is None:
        return "it was removed since, by you or by a later run, so nothing was put there"
    if change.after is None:
        return "something new is there since, so that stays"
    if there.kind == change.after.kind:
        return "it was changed since, by you or by a later run, so it stays as it is"
    return f"it is a {there.kind} now, so that stays"


def _way_out(change: PathChange, there: State | None) -> str:
    if not can_be_forced(change, there):
        return "move it away and run the command again"
    if there is None:
        return "--force brings the recorded version back"
    if there.kind == "folder":
        return "--force removes it if it is empty" if change.before is None else "--force puts it back"
    if change.before is None:
        return "--force removes it and keeps a copy"
    return "--force puts the recorded version back and keeps a copy of this one"


def _is(state: State | None, reason: str) -> bool:
    return state is not None and state.kind == "other" and _word(state.oid) == reason


def _word(note: str) -> str:
    return note.partition(" ")[0]
