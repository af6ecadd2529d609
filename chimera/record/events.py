"""Events: what happened, in order, as plain values. The record, the screen and callers all see the same ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import Struct

EventType = Literal[
    "run_started",
    "prompt",
    "text",
    "completion",
    "tool_started",
    "tool_finished",
    "tool_interrupted",
    "message",
    "compaction",
    "plan",
    "checkpoint",
    "warning",
    "progress",
    "run_finished",
]
"""`text` is a piece of a reply as it arrives, `progress` says what takes a while: shown, never recorded. `tool_interrupted` names the file with what a call had
printed that has no result. `message` is a user message that the loop added
(a nudge, a failed verification)."""

DURABLE: frozenset[EventType] = frozenset({"tool_started", "run_finished"})
"""On disk, with all before them, before anything goes on: a call that may have an effect is announced first."""
DURABLE_SOON: frozenset[EventType] = frozenset({"run_started", "tool_finished"})
"""Brought to disk while the model thinks. A completion is on disk with the call that it asks for, before that begins."""
NOT_RECORDED: frozenset[EventType] = frozenset({"text", "progress"})


class Event(Struct, frozen=True):
    """One event. `fields` holds JSON values only."""

    type: EventType
    fields: Mapping[str, Any]

    def record(self, seq: int, now: datetime | None = None) -> dict[str, Any]:
        """The event as one line of `events.jsonl`."""
        time = (now or datetime.now(UTC)).isoformat(timespec="milliseconds")
        return {"seq": seq, "time": time, "type": self.type, **self.fields}


Emit = Callable[[Event], None]
