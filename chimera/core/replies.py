"""A reply as it may join the history: always legal, whatever the model wrote."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from chimera.core.json_text import ends_in_the_middle, is_object
from chimera.core.messages import Message, ToolCall, assistant
from chimera.core.model import Completion
from chimera.core.written_calls import Written, written_call

_ILLEGAL_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_NAME = 64
PLACEHOLDER = "(empty reply)"
_WRITTEN: dict[Written, str] = {
    "call": (
        "You wrote a tool call as text, so nothing was run. Make the call itself, in the form this interface has for "
        "calls. If it was an example in your answer, put it into a code fence and answer again."
    ),
    "result": (
        "You wrote the result of a tool yourself. No tool was run, and that text is no result: do not go by it. Call "
        "the tool, in the form this interface has for calls, and wait for what it really returns."
    ),
}


class Reply(Struct, frozen=True, kw_only=True):
    """A completion, made legal."""

    message: Message
    """Its calls have unique ids and arguments that are JSON objects; it is never empty."""
    names: tuple[str, ...] = ()
    """Per call, in order: the tool as the model named it, which the message may only hold in a legal form."""
    arguments: tuple[str, ...] = ()
    """Per call, in order: the arguments as the model wrote them. Only these are run."""
    fault: str = ""
    """Why the reply cannot be used, as the model should read it. Nothing of such a reply is run."""
    written: bool = False
    """It is a fault because a call stands in its text, where nothing runs it."""
    cut: bool = False
    """The arguments of its last call end in the middle, so it was cut whatever its finish reason says. Nothing is run."""


def read_reply(completion: Completion, names: Collection[str] = ()) -> Reply:
    """The reply behind a completion: an answer (no calls), calls, or a fault.

    Args:
        completion: as the model wrote it.
        names: of the tools that are offered, to know a call that was written as text.
    """
    content = _clean(completion.message.content)
    if not content.strip():
        content = ""  # strict providers refuse a text that is nothing but white space
    extra = _cleaned(completion.message.extra)
    if completion.finish_reason == "length":
        fault = (
            "Your reply was cut at the output limit, so nothing of it was run and it does not count as an answer. "
            "Write less at a time: split a large file into several smaller edits."
        )
        return Reply(message=_unused(content or "(cut reply)", extra), fault=fault)
    if completion.finish_reason == "content_filter":
        fault = "The provider's filter withheld your reply. Go on with the task in another way."
        return Reply(message=_unused(content or "(filtered reply)", extra), fault=fault)
    if completion.fault:
        return Reply(message=_unused(content or PLACEHOLDER, extra), fault=completion.fault)
    if not completion.message.tool_calls:
        if content:
            written = written_call(content, names)
            if written is None:
                return Reply(message=assistant(content, extra=extra))
            return Reply(message=_unused(content, extra), fault=_WRITTEN[written], written=written == "call")
        fault = "Your reply was empty. Call a tool to go on, or give your final answer as text."
        return Reply(message=_unused(PLACEHOLDER, extra), fault=fault)
    return _with_calls(completion.message, content, extra)


def _unused(content: str, extra: Any) -> Message:
    return replace(assistant(content, extra=extra), failed=True)


def _with_calls(message: Message, content: str, extra: Any) -> Reply:
    taken: set[str] = set()
    calls = tuple(_legal_call(call, taken) for call in message.tool_calls)
    arguments = tuple(_clean(call.arguments) for call in message.tool_calls)
    made = assistant(content, *calls, extra=extra)
    names = tuple(_clean(call.name) for call in message.tool_calls)
    return Reply(message=made, names=names, arguments=arguments, cut=ends_in_the_middle(arguments[-1]))


def broken_calls(reply: Reply) -> bool:
    """Whether no call can be run: the reply was cut, or the arguments of every call are no JSON object."""
    return reply.cut or (
        bool(reply.arguments) and not any(text.strip() == "" or is_object(text) for text in reply.arguments)
    )


def _legal_call(call: ToolCall, taken: set[str]) -> ToolCall:
    name = _ILLEGAL_NAME.sub("_", call.name)[:_MAX_NAME] or "unnamed"
    call_id = _clean(call.id) or "call"
    unique, number = call_id, 1
    while unique in taken:
        number += 1
        unique = f"{call_id}_{number}"
    taken.add(unique)
    arguments = _clean(call.arguments)
    return ToolCall(id=unique, name=name, arguments=arguments if is_object(arguments) else "{}")


def _clean(text: str) -> str:
    """The text without lone surrogates, which no provider can read back."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _cleaned(value: Any) -> Any:
    """The same JSON value with every text clean."""
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, Mapping):
        return {_clean(str(name)): _cleaned(inner) for name, inner in value.items()}
    return [_cleaned(inner) for inner in value] if isinstance(value, list | tuple) else value
