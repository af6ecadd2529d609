"""A scripted policy as a model: from messages and tools to the next message, made anew for every call.

It has no memory but the prompt, so what a context manager takes out is gone for it. That it acts well on what is there
says nothing about any real model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from chimera.bench.policies.catalogue import program_of
from chimera.bench.policies.mind import MINDS, LookFirst, Mind, chance
from chimera.bench.policies.programs import DONE, Move
from chimera.bench.policies.view import View
from chimera.core.messages import Message, ToolCall, assistant
from chimera.core.model import Completion, OnText, Request, Window
from chimera.core.tokens import TokenCounter
from chimera.errors import ConfigError

_CLUMSY_SHARE = 0.16
_ORDERS = ("Answer now", "task is finished")
_REASONING = (
    "I compare what the last results say with the task, and keep to the order it asks for. What I have so far is "
    "consistent; the next step follows from it. I take several files at once, because they do not depend on each other, "
    "and I will check each of them before I write anything down. "
) * 2


def respond(mind: Mind, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Message:
    """The next message of a policy: a pure function of the prompt."""
    view = View.of(messages)
    move = _move(mind, view)
    if isinstance(move, str):
        return assistant(move)
    least = min((e.depth for e in view.exchanges), default=0)
    newest = [e for e in view.exchanges if e.depth == least]
    calls = [*move, *filter(None, [mind.notes_of(newest, view)])]
    mark = int(chance(f"{len(messages)}/{messages[-1].content}/{view.size}") * 2**32)
    made = [
        ToolCall(
            id=f"c{mark:08x}{index}",
            name=call.name,
            arguments=json.dumps(dict(call.arguments), ensure_ascii=False),
        )
        for index, call in enumerate(calls)
    ]
    if mind.clumsy:
        made = _fumbled(made, view)
    return assistant(_REASONING if mind.reasons else "", *made)


def _move(mind: Mind, view: View) -> Move:
    if mind.obeys and any(order in view.notes for order in _ORDERS):
        return DONE
    program = program_of(view.task)
    if program is None:
        return "I do not know what I am to do."
    try:
        return program(view, mind)
    except LookFirst as look:
        return list(look.calls)


def _fumbled(calls: list[ToolCall], view: View) -> list[ToolCall]:
    """The calls with a mistake in place of them, now and then; never after a mistake."""
    draw = chance(f"clumsy/{view.size}/{len(view.exchanges)}") / _CLUMSY_SHARE
    last = view.exchanges[-1] if view.exchanges else None
    if draw >= 1 or last is None or last.refused or "yes" in str(last.call.arguments.get("command")):
        return calls
    first = calls[0]
    mistakes = (
        ToolCall(id=first.id, name="read_file", arguments='{"path": 5, "lines": "all"}'),
        ToolCall(id=first.id, name=first.name, arguments=first.arguments[: len(first.arguments) // 2]),
        ToolCall(id=first.id, name=last.call.name, arguments=json.dumps(dict(last.call.arguments))),
        ToolCall(
            id=first.id, name="shell", arguments='{"command": "yes 0123456789 some filler | head -c 1000000"}'
        ),
    )
    mistake = mistakes[int(draw * len(mistakes))]
    # Asking again is a mistake, changing again would be another task.
    return calls if mistake.name in {"edit_file", "write_file"} and mistake is mistakes[2] else [mistake]


class PolicyModel(Struct, frozen=True, kw_only=True):
    """A policy behind the protocol of a model. It keeps nothing between two calls."""

    policy: str
    counter: TokenCounter

    def __post_init__(self) -> None:
        if self.policy not in MINDS:
            raise ConfigError(f"there is no policy {self.policy!r}; the policies are: {', '.join(MINDS)}")

    @property
    def name(self) -> str:
        return f"scripted:{self.policy}"

    @property
    def window(self) -> Window | None:
        return None

    def complete(self, request: Request, on_text: OnText) -> Completion:
        """Reply; a reply that is longer than the request allows is cut, as a provider would."""
        message = respond(MINDS[self.policy], request.messages, request.tools)
        if self.counter.message(message) > request.max_tokens:
            return Completion(message=assistant("(cut)"), finish_reason="length")
        return Completion(message=message, finish_reason="tool_calls" if message.tool_calls else "stop")
