"""A streamed reply put together: text, tool calls, reasoning, finish reason, usage. Chunks are plain OpenAI dictionaries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from chimera.core.messages import ToolCall, Usage, assistant
from chimera.core.model import Completion, FinishReason, OnText

# Reasons by the names that servers give them; one that is not here means an ordinary end.
_FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "content_filter",
    "refusal": "content_filter",
    "safety": "content_filter",
}
# A thought at the beginning; one that never ends; the end of one whose beginning is part of the prompt.
_THOUGHT = re.compile(
    r"\A\s*<think(?:ing)?>(?:.*?</think(?:ing)?>\s*|.*\Z)"
    r"|\A(?:(?!<think|```).)*?^[ \t]*</think(?:ing)?>[ \t]*(?:\n\s*|\Z)",
    re.DOTALL | re.MULTILINE,
)


def finish_reason(name: str) -> FinishReason:
    """A server's finish reason in our words; an unknown one is an ordinary end."""
    return _FINISH_REASONS.get(name.lower(), "stop")


@dataclass(slots=True)
class _CallParts:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ReplyParts:
    """Grows by one chunk at a time; whole only once a finish reason came."""

    on_text: OnText
    finish_reason: str | None = None
    usage: Usage | None = None
    _text: list[str] = field(default_factory=list)
    _reasoning: list[str] | None = None
    _thinking: list[dict[str, Any]] = field(default_factory=list)
    _calls: list[_CallParts] = field(default_factory=list)
    _open: dict[int | None, _CallParts] = field(default_factory=dict)

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Take in one chunk. One without choices may still carry the usage."""
        if chunk.get("usage"):
            self.usage = usage_of(chunk["usage"])
        for choice in chunk.get("choices") or ():
            self._add_delta(choice.get("delta") or {})
            if choice.get("finish_reason"):
                self.finish_reason = choice["finish_reason"]

    def completion(self) -> Completion:
        """The reply. Only valid with a finish reason."""
        if self.finish_reason is None:
            raise ValueError("the reply has no finish reason: it was cut")
        calls = [
            ToolCall(id=parts.id or f"call_{n}", name=parts.name, arguments="".join(parts.arguments))
            for n, parts in enumerate(self._calls, 1)
        ]
        extra: dict[str, Any] = {}
        if self._reasoning is not None:
            extra["reasoning_content"] = "".join(self._reasoning)
        if self._thinking:
            extra["thinking_blocks"] = [
                {key: value for key, value in block.items() if key != "index"} for block in self._thinking
            ]
        # Some servers leave the reasoning in the text; their templates drop it from earlier turns themselves.
        text = _THOUGHT.sub("", "".join(self._text), count=1)
        message = assistant(text, *calls, extra=extra)
        return Completion(message=message, finish_reason=finish_reason(self.finish_reason), usage=self.usage)

    def _add_delta(self, delta: Mapping[str, Any]) -> None:
        if text := delta.get("content"):
            self._text.append(text)
            self.on_text(text)
        reasoning = delta.get("reasoning_content")
        if isinstance(reasoning, str):
            self._reasoning = [*(self._reasoning or []), reasoning] if reasoning else self._reasoning or []
        for block in delta.get("thinking_blocks") or ():
            self._add_thinking(dict(block))
        for call in delta.get("tool_calls") or ():
            self._add_call(call)

    def _add_call(self, call: Mapping[str, Any]) -> None:
        """Join a piece of a call to what came under its index.

        Some servers send all calls under one index or none: another id, or another whole call, begins a new one.
        """
        function = call.get("function") or {}
        index, given, name = call.get("index"), call.get("id"), function.get("name")
        parts = self._open.get(index)
        another = parts is not None and (
            (given and parts.id and given != parts.id) or (index is None and name and not given)
        )
        if parts is None or another:
            parts = self._open[index] = _CallParts()
            self._calls.append(parts)
        parts.id = parts.id or given or ""
        parts.name = parts.name or name or ""
        if function.get("arguments"):
            parts.arguments.append(function["arguments"])

    def _add_thinking(self, block: dict[str, Any]) -> None:
        """Pieces of one thinking block follow each other; its signature comes last."""
        last = self._thinking[-1] if self._thinking else None
        same = (
            last is not None
            and block.get("type") == last.get("type") == "thinking"
            and not last.get("signature")
        )
        if not same or last is None:
            self._thinking.append(block)
            return
        last["thinking"] = (last.get("thinking") or "") + (block.get("thinking") or "")
        if block.get("signature"):
            last["signature"] = block["signature"]


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """A usage block in our words, its price still unknown. `input_tokens` is the whole prompt.

    Some servers count the cached part in `prompt_tokens`, others beside it; a prompt smaller than its own cached
    part gives the second away.
    """
    details = usage.get("prompt_tokens_details") or {}
    read = _count(details.get("cached_tokens")) or _count(usage.get("prompt_cache_hit_tokens"))
    written = _count(details.get("cache_creation_tokens")) or _count(details.get("cache_write_tokens"))
    read = read or _count(usage.get("cache_read_input_tokens"))
    written = written or _count(usage.get("cache_creation_input_tokens"))
    whole = _count(usage.get("prompt_tokens"))
    if whole < read + written or "prompt_tokens" not in usage:
        whole = (whole or _count(usage.get("input_tokens"))) + read + written
    output = _count(usage.get("completion_tokens")) or _count(usage.get("output_tokens"))
    reasoning = _count((usage.get("completion_tokens_details") or {}).get("reasoning_tokens"))
    return Usage(
        input_tokens=whole,
        output_tokens=output,
        cached_input_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=min(reasoning, output),
        cost_usd=None,
    )


def priced(completion: Completion, cost_usd: float | None) -> Completion:
    """The completion with what it cost; one without usage stays without."""
    if completion.usage is None:
        return completion
    return replace(completion, usage=replace(completion.usage, cost_usd=cost_usd))


def _count(value: object) -> int:
    return int(value) if isinstance(value, int | float) and value > 0 else 0
