"""compact(): a shorter history that is still legal, still knows its task, and says what it cost.

A pure function. The system message, the tools and the task are never touched; turns are kept, masked (each result
becomes one factual line) or removed as wholes; state and note come from the caller's stores, not from a model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from chimera.core.context_budget import (
    FILE_SHARE,
    NOTE_SHARE,
    PLAN_SHARE,
    SUMMARY_SHARE,
    ContextBudget,
    Part,
    Room,
)
from chimera.core.history import History, Turn
from chimera.core.messages import Message
from chimera.core.outputs import one_line
from chimera.core.restoration import (
    Restored,
    frame,
    render_file,
    render_note,
    render_plan,
    render_summary,
    shows_whole,
)
from chimera.core.tokens import TokenCounter


class Compaction(Struct, frozen=True, kw_only=True):
    """What came of one attempt. All sizes are estimates of the whole request, tools included."""

    history: History
    """The shorter history; the very history that went in where nothing changed."""
    changed: bool
    """True only if the history is smaller by the minimum gain and now fits below the trigger."""
    before: int
    after: int
    parts_before: dict[str, int]
    """Size before, by part: fixed, context, turns."""
    parts: dict[str, int]
    """Size after, by part: fixed, follow_up, plan, file, summary, note, turns."""
    kept_turns: int
    """Turns left verbatim."""
    masked_turns: int
    """Turns left with their results as one line each."""
    removed_turns: int
    tight: bool = False
    """The result lies between target and trigger: the next compaction will not be far."""
    failure: Part | None = None
    """Where nothing changed: the part that is in the way."""
    file_shown: bool = False
    """Whether the file being edited was put back whole."""
    archive: str = ""
    """The text that is no longer in the history, whole, for people and for `search`."""


class Compactor(Protocol):
    """A way to shrink a history. `compact` is ours; the benchmark compares others."""

    def __call__(
        self,
        history: History,
        restored: Restored,
        budget: ContextBudget,
        room: Room,
        counter: TokenCounter,
        /,
    ) -> Compaction:
        """What comes of one attempt: smaller and below the trigger, or the history that went in."""
        ...


# A note that leaves something out may need a few tokens more for the count of it.
_NOTE_SLACK = 24


def compact(
    history: History, restored: Restored, budget: ContextBudget, room: Room, counter: TokenCounter
) -> Compaction:
    """Shrink a history to the target of the room.

    The room is filled in this order: the newest turn, plan and task list, the file being edited, the note (each
    within its cap), further turns from new to old, verbatim, then masked.
    """
    before = room.fixed - history.task_tokens + history.tokens
    unchanged = _unchanged(history, before, room)
    if not history.turns:
        return replace(unchanged, failure="pinned")
    least = room.fixed + history.turns[-1].tokens
    left = room.trigger - 1 - least
    if left < 0:
        return replace(unchanged, failure="tail", after=least)

    parts = _restored_parts(restored, room, left, counter)
    fit = _fit(history, parts, restored.archive, budget, room, counter)
    # Now that it is known which turns stay, nothing that they show need be repeated.
    again = fit.with_parts(history, _without_what_is_shown(parts, restored, fit, counter), counter)
    fit = again if again.total <= max(fit.total, room.target) else fit
    if before - fit.total < room.min_gain or fit.total >= room.trigger:
        pinned = room.fixed + sum(map(counter.text, parts.values())) >= room.trigger
        return replace(unchanged, after=fit.total, failure="pinned" if pinned else "tail")
    sizes = {name: counter.text(text) for name, text in fit.parts.items()}
    return Compaction(
        history=fit.history,
        changed=True,
        before=before,
        after=fit.total,
        parts_before=unchanged.parts_before,
        parts={"fixed": room.fixed, **sizes, "turns": sum(turn.tokens for turn in fit.history.turns)},
        file_shown=restored.file is not None and shows_whole(fit.parts["file"], restored.file),
        kept_turns=sum(not turn.masked for turn in fit.history.turns),
        masked_turns=sum(turn.masked for turn in fit.history.turns),
        removed_turns=len(fit.removed),
        tight=fit.total > room.target,
        archive=_archive_text(history, fit),
    )


class _Fit(Struct, frozen=True, kw_only=True):
    """What goes into the room, and what does not."""

    history: History
    parts: dict[str, str]
    total: int
    """Size of the whole request."""
    removed: tuple[Turn, ...]
    replaced: tuple[Turn, ...]
    """The turns that stay masked, as they were before."""

    def with_parts(self, history: History, parts: dict[str, str], counter: TokenCounter) -> _Fit:
        """The same turns behind other parts."""
        restated = counter.with_context(history, frame(parts))
        total = self.total - self.history.opening_tokens + restated.opening_tokens
        return replace(self, history=replace(restated, turns=self.history.turns), parts=parts, total=total)


def _fit(
    history: History,
    parts: dict[str, str],
    archive: str,
    budget: ContextBudget,
    room: Room,
    counter: TokenCounter,
) -> _Fit:
    """The newest turn and the parts, then further turns from new to old, verbatim, then masked, up to the target."""
    *older, newest = history.turns
    restated = counter.with_context(history, frame(parts))
    total = room.fixed - history.task_tokens + restated.opening_tokens + newest.tokens
    verbatim, total = _take(reversed(older), room.target - total, total, budget.keep_turns - 1)
    rest = older[: len(older) - len(verbatim)]
    limit = len(rest) if budget.mode == "mask" else budget.keep_turns - 1 - len(verbatim)
    candidates = (mask(turn, archive, counter) for turn in reversed(rest))
    masked, total = _take(candidates, room.target - total, total, limit)
    return _Fit(
        history=replace(restated, turns=(*reversed(masked), *reversed(verbatim), newest)),
        parts=parts,
        total=total,
        removed=tuple(rest[: len(rest) - len(masked)]),
        replaced=tuple(rest[len(rest) - len(masked) :]),
    )


def mask(turn: Turn, archive: str, counter: TokenCounter) -> Turn:
    """The turn with each result as one factual line: what ran, how it ended, its size, where its text is."""
    if turn.masked:
        return turn
    replies = tuple(_masked(reply, archive) for reply in turn.replies)
    return counter.turn(turn.assistant, *replies, masked=True)


def _masked(reply: Message, archive: str) -> Message:
    if reply.role != "tool":
        return reply
    where = "" if reply.kept else f"; in full: {archive}"
    line = f"[{one_line(reply.digest) or 'result'}; {len(reply.content.splitlines())} lines{where}]"
    return replace(reply, content=line, shows=()) if len(line) < len(reply.content) else reply


def _restored_parts(restored: Restored, room: Room, left: int, counter: TokenCounter) -> dict[str, str]:
    """The user's newest message whole; plan, file, summary and note each within its cap and within what is left."""
    left -= counter.text(frame({"follow_up": restored.follow_up})) + 8
    verification = restored.ledger.verification
    plan = render_plan(restored.plan, verification, min(room.share(PLAN_SHARE), left), counter)
    left -= counter.text(plan)
    file = render_file(restored.file, min(room.share(FILE_SHARE), left), counter)
    left -= counter.text(file)
    summary = render_summary(restored.summary)
    share = SUMMARY_SHARE if summary else NOTE_SHARE
    left -= counter.text(summary)
    note = render_note(restored, min(room.share(share), left), counter)
    return {"follow_up": restored.follow_up, "plan": plan, "file": file, "summary": summary, "note": note}


def _without_what_is_shown(
    parts: dict[str, str], restored: Restored, fit: _Fit, counter: TokenCounter
) -> dict[str, str]:
    """The same parts, less what stands in the turns that stay anyway."""
    messages = [message for turn in fit.history.turns for message in turn.messages()]
    spoken = any(message.role == "user" and restored.follow_up in message.content for message in messages)
    shown = [read for message in messages for read in message.shows]
    note = (
        render_note(restored, counter.text(parts["note"]) + _NOTE_SLACK, counter, shown)
        if shown
        else parts["note"]
    )
    return {**parts, "follow_up": "" if spoken else restored.follow_up, "note": note}


def _take(turns: Iterable[Turn], room: int, total: int, limit: int) -> tuple[list[Turn], int]:
    """The first turns that fit into the room, and the total with them."""
    taken: list[Turn] = []
    for turn in turns:
        if len(taken) >= limit or turn.tokens > room:
            break
        taken.append(turn)
        room -= turn.tokens
        total += turn.tokens
    return taken, total


def _unchanged(history: History, before: int, room: Room) -> Compaction:
    parts = {
        "fixed": room.fixed,
        "context": history.opening_tokens - history.task_tokens,
        "turns": sum(turn.tokens for turn in history.turns),
    }
    return Compaction(
        history=history,
        changed=False,
        before=before,
        after=before,
        parts_before=parts,
        parts=parts,
        kept_turns=sum(not turn.masked for turn in history.turns),
        masked_turns=sum(turn.masked for turn in history.turns),
        removed_turns=0,
    )


def _archive_text(history: History, fit: _Fit) -> str:
    """Every byte that leaves the history, readable: the old context block, removed turns, results now masked."""
    blocks = (
        [f"# Context block replaced by this compaction\n\n{history.context}\n"] if history.context else []
    )
    blocks += [_turn_text("Turn removed", turn) for turn in fit.removed]
    blocks += [_turn_text("Turn masked", turn) for turn in fit.replaced if not turn.masked]
    return "\n".join(blocks)


def _turn_text(heading: str, turn: Turn) -> str:
    lines = [f"# {heading}", "", turn.assistant.content]
    if turn.assistant.extra:
        lines.append(json.dumps(dict(turn.assistant.extra), ensure_ascii=False))
    lines += [f"## call {call.id}: {call.name}\n{call.arguments}" for call in turn.assistant.tool_calls]
    for reply in turn.replies:
        lines += [
            f"## {'result of ' + reply.tool_call_id if reply.tool_call_id else reply.role}",
            reply.content,
        ]
    return "\n".join(lines) + "\n"
