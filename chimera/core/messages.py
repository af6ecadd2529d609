"""Messages, tool calls and usage: the words of the conversation. No behaviour beyond their wire form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from chimera.core.ledger import FileRead
from chimera.overriding import override

Role = Literal["system", "user", "assistant", "tool"]


class ToolCall(Struct, frozen=True, kw_only=True):
    """One call the model asked for."""

    id: str
    """Unique within its message; the result carries the same id."""
    name: str
    arguments: str
    """JSON text of an object. In a history it always parses; what the model really sent may not have."""

    def wire(self) -> dict[str, Any]:
        """The call in the OpenAI chat format, with its keys in a fixed order."""
        return {
            "id": self.id,
            "type": "function",
            "function": {"name": self.name, "arguments": self.arguments},
        }


class Message(Struct, frozen=True, kw_only=True, eq=False):
    """One message of the conversation. Messages are equal when the same is sent for them."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """Only on assistant messages, in the order in which they are run."""
    tool_call_id: str | None = None
    """Only on tool messages: the call that this one answers."""
    digest: str = ""
    """Only on tool messages: one factual line that may stand for the content. Never sent."""
    kept: bool = False
    """Only on tool messages: the digest names a file with the whole output. Never sent."""
    failed: bool = False
    """The call that a tool message answers did not do what it was to do; nothing came of an assistant message. Never sent."""
    shows: tuple[FileRead, ...] = ()
    """Only on tool messages that are not cut: the file text that can be read here. Never sent."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Reasoning fields that belong to an assistant message and must go back with it, in the provider's own names."""

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self._sent == other._sent and self.extra == other.extra

    @override
    def __ne__(self, other: object) -> bool:
        return not self == other  # what a Struct inherits would compare identities

    @override
    def __hash__(self) -> int:
        return hash(self._sent)

    @property
    def _sent(self) -> tuple[object, ...]:
        return (self.role, self.content, self.tool_calls, self.tool_call_id)

    def wire(self) -> dict[str, Any]:
        """The message in the OpenAI chat format, with its keys in a fixed order (prompt caches compare bytes)."""
        wire: dict[str, Any] = {"role": self.role}
        if self.role == "tool":
            wire["tool_call_id"] = self.tool_call_id
        wire["content"] = self.content if self.content or not self.tool_calls else None
        wire.update(self.extra)
        if self.tool_calls:
            wire["tool_calls"] = [call.wire() for call in self.tool_calls]
        return wire


def system(content: str) -> Message:
    """A system message."""
    return Message(role="system", content=content)


def user(content: str) -> Message:
    """A user message."""
    return Message(role="user", content=content)


def assistant(content: str = "", *tool_calls: ToolCall, extra: Mapping[str, Any] | None = None) -> Message:
    """An assistant message."""
    return Message(role="assistant", content=content, tool_calls=tool_calls, extra=extra or {})


def tool_result(
    call_id: str,
    content: str,
    *,
    digest: str = "",
    kept: bool = False,
    failed: bool = False,
    shows: tuple[FileRead, ...] = (),
) -> Message:
    """The answer to one tool call."""
    return Message(
        role="tool",
        tool_call_id=call_id,
        content=content,
        digest=digest,
        kept=kept,
        failed=failed,
        shows=shows,
    )


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of one model call or, added up, of a run."""

    input_tokens: int = 0
    """The whole prompt as the provider counts it; the cached part is included once."""
    output_tokens: int = 0
    """What the model wrote, reasoning included."""
    cached_input_tokens: int = 0
    """The part of `input_tokens` that was served from a prompt cache."""
    cache_write_tokens: int = 0
    """The part of `input_tokens` that was written to a prompt cache."""
    reasoning_tokens: int = 0
    """The part of `output_tokens` that is reasoning, where the provider says so."""
    estimated: bool = False
    """True where the provider reported nothing (in a sum: for at least one call) and the numbers are our estimate."""
    cost_usd: float | None = 0.0
    """None where the price is unknown. A sum with an unknown part is unknown."""

    def __add__(self, other: Usage) -> Usage:
        known = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            estimated=self.estimated or other.estimated,
            cost_usd=(self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
        )


def settled(usage: Usage | None, input_tokens: int, output_tokens: int) -> Usage:
    """What a provider reported, made sane; where it reported no prompt size, our own estimate marked as one.

    Args:
        usage: as reported; None where nothing was.
        input_tokens: our count of the prompt.
        output_tokens: our count of the reply.
    """
    cost = usage.cost_usd if usage is not None else None
    if cost is not None and not (math.isfinite(cost) and cost >= 0):
        cost = None
    if usage is None or usage.input_tokens <= 0:
        reported = usage.output_tokens if usage is not None else 0
        return Usage(
            input_tokens=input_tokens,
            output_tokens=max(reported, 0) or output_tokens,
            estimated=True,
            cost_usd=cost,
        )
    return replace(
        usage,
        output_tokens=max(usage.output_tokens, 0),
        cached_input_tokens=min(max(usage.cached_input_tokens, 0), usage.input_tokens),
        cache_write_tokens=min(max(usage.cache_write_tokens, 0), usage.input_tokens),
        reasoning_tokens=max(usage.reasoning_tokens, 0),
        cost_usd=cost,
    )
