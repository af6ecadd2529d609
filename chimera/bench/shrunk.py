"""What comes of a history that an arm has made shorter, and a history as lines of text for whoever sums it up."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from chimera.core.compaction import Compaction
from chimera.core.context_budget import Room
from chimera.core.history import History, Turn

SUMMARY_SHARE = 0.25
"""Of the room: for the newest turns beside a summary, and as much again for the summary itself."""
SUMMARY_HEAD = "Summary of earlier turns:\n"
"""What a summary begins with in the prompts of all arms: the policies know it by this."""


def size(history: History, room: Room, turns: Sequence[Turn]) -> int:
    """Of the whole request with these turns in place of its own."""
    return room.fixed - history.task_tokens + history.opening_tokens + sum(turn.tokens for turn in turns)


def outcome(before: History, after: History, room: Room) -> Compaction:
    """What comes of an attempt: the shorter history if it fits below the trigger, else the one that went in."""
    old, new = size(before, room, before.turns), size(after, room, after.turns)
    changed = new < min(old, room.trigger)
    result = after if changed else before
    masked = sum(turn.masked for turn in result.turns)
    parts = {
        "fixed": room.fixed,
        "context": result.opening_tokens - result.task_tokens,
        "turns": sum(turn.tokens for turn in result.turns),
    }
    return Compaction(
        history=result,
        changed=changed,
        before=old,
        after=new,
        parts_before=parts,
        parts=parts,
        kept_turns=len(result.turns) - masked,
        masked_turns=masked,
        removed_turns=len(before.turns) - len(result.turns),
        failure=None if changed else "tail",
    )


def lines(turn: Turn) -> Iterator[str]:
    """What a summariser reads of a turn."""
    yield turn.assistant.content
    for call in turn.assistant.tool_calls:
        arguments = json.loads(call.arguments)
        yield f"called {call.name} {arguments.get('path') or arguments.get('command') or call.arguments}"
    yield from (reply.content for reply in turn.replies)
