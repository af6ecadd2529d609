"""A streamed reply put together: text, tool calls, reasoning, finish reason, usage. Chunks are plain OpenAI dictionaries."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

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
# A count that is larger is none.
_MOST_TOKENS = 10**12
# A thought at the beginning; one that never ends; the end of one whose beginning is part of the prompt.
_THOUGHT = re.compile(
    r"\A\s*<think(?:ing)?>(?:.*?</think(?:ing)?>\s*|.*\Z)"
    r"|\A(?:(?!<think|```).)*?^[ \t]*</think(?:ing)?>[ \t]*(?:\n\s*|\Z)",
    re.DOTALL | re.MULTILINE,
)


def finish_reason(name: str) -> FinishReason:
    """A server's finish reason in our words; an unknown one is an ordinary end."""
    return _FINISH_REASONS.get(name.lower(), "stop")


class _CallParts(Struct):
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class ReplyParts(Struct):
    """Grows by one chunk at a time; whole only once a finish reason came."""

    on_text: OnText
    finish_reason: str | None = None
    usage: Usage | None = None
    _text: list[str] = field(default_factory=list)
    _reasoning: dict[str, list[str]] = field(default_factory=dict)
    _details: list[dict[str, Any]] = field(default_factory=list)
    _thinking: list[dict[str, Any]] = field(default_factory=list)
    _choice: object = None
    _usage: dict[str, Any] = field(default_factory=dict)
    _calls: list[_CallParts] = field(default_factory=list)
    _open: dict[int | str | None, _CallParts] = field(default_factory=dict)

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Take in one chunk. One without choices may still carry the usage."""
        choices = _mappings(chunk.get("choices"))
        # Moonshot reports the usage inside the choice.
        for usage in (chunk.get("usage"), *(choice.get("usage") for choice in choices)):
            if usage and isinstance(usage, Mapping):
                # Some servers report the prompt first and the completion last, each without the other.
                self._usage |= {name: value for name, value in usage.items() if value}
                self.usage = usage_of(self._usage)
        for choice in choices:
            # Of several choices, which nobody asked for, the first is the reply.
            index = choice.get("index")
            if self._choice is None:
                self._choice = index
            elif index is not None and index != self._choice:
                continue
            self._add_delta(_mapping(choice.get("delta")))
            if choice.get("finish_reason"):
                self.finish_reason = str(choice["finish_reason"])

    def completion(self) -> Completion:
        """The reply. Only valid with a finish reason."""
        if self.finish_reason is None:
            raise ValueError("the reply has no finish reason: it was cut")
        calls = [
            ToolCall(id=parts.id or f"call_{n}", name=parts.name, arguments=_joined(parts.arguments))
            for n, parts in enumerate(self._calls, 1)
        ]
        extra: dict[str, Any] = {
            name: text
            for name, pieces in self._reasoning.items()
            if (text := _joined(pieces)) or name == "reasoning_content"
        }
        if self._details:
            # They hold the text as well, and are what OpenRouter wants back.
            extra = {"reasoning_details": self._details}
        if self._thinking:
            extra["thinking_blocks"] = [
                {key: value for key, value in block.items() if key != "index"} for block in self._thinking
            ]
        # Some servers leave the reasoning in the text; their templates drop it from earlier turns themselves.
        text = _THOUGHT.sub("", _joined(self._text), count=1)
        message = assistant(text, *calls, extra=extra)
        return Completion(message=message, finish_reason=finish_reason(self.finish_reason), usage=self.usage)

    def _add_delta(self, delta: Mapping[str, Any]) -> None:
        if text := _text_of(delta.get("content")):
            self._text.append(text)
            self.on_text(_joined([text]))
        self._add_reasoning(delta)
        for block in _mappings(delta.get("thinking_blocks")):
            self._add_thinking(dict(block))
        for call in _mappings(delta.get("tool_calls")):
            self._add_call(call)

    def _add_reasoning(self, delta: Mapping[str, Any]) -> None:
        """Keep reasoning under the name that the server gave it; of two names for the same text the first counts."""
        for name in ("reasoning_content", "reasoning"):
            if isinstance(text := delta.get(name), str):
                self._reasoning.setdefault(name, []).append(text)
                break
        for block in _mappings(delta.get("reasoning_details")):
            self._add_detail(dict(block))

    def _add_detail(self, block: dict[str, Any]) -> None:
        """Join a piece of a block to the one before, if it has the same place and kind."""
        last = self._details[-1] if self._details else None
        if last is None or any(last.get(key) != block.get(key) for key in ("index", "type")):
            self._details.append(block)
            return
        for key, value in block.items():
            joined = key in {"text", "summary", "data"} and isinstance(value, str)
            if joined and isinstance(last.get(key), str):
                last[key] += value
            elif value is not None:
                last[key] = value

    def _add_call(self, call: Mapping[str, Any]) -> None:
        """Join a piece of a call to what came under its index.

        Some servers send all calls under one index or none: another id, or another whole call, begins a new one. Some
        give an index only with the first piece of a call, or with all but the first.
        """
        function = _mapping(call.get("function"))
        index, given, name = call.get("index"), call.get("id"), function.get("name")
        index = index if isinstance(index, int | str) else None
        given, name = (value if isinstance(value, str) else None for value in (given, name))
        parts = self._open.get(index)
        if not given and not name and (parts is None or index is None):
            parts = (self._calls[-1] if self._calls else None) if index is None else self._open.get(None)
        another = parts is not None and (
            (given and parts.id and given != parts.id) or (index is None and name and not given)
        )
        if parts is None or another:
            parts = self._open[index] = _CallParts()
            self._calls.append(parts)
        parts.id = parts.id or given or ""
        parts.name = parts.name or name or ""
        if arguments := _with_text(function)["arguments"] if function.get("arguments") else "":
            parts.arguments.append(arguments)

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
        last["thinking"] = f"{last.get('thinking') or ''}{block.get('thinking') or ''}"
        if block.get("signature"):
            last["signature"] = block["signature"]


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """A usage block in our words, its price still unknown. `input_tokens` is the whole prompt.

    Some servers count the cached part in `prompt_tokens`, others beside it; a prompt smaller than its own cached
    part gives the second away. Reasoning is a part of the completion, or beside it: then only the total holds it.
    """
    details = _mapping(usage.get("prompt_tokens_details"))
    read = _count(details.get("cached_tokens")) or _count(usage.get("prompt_cache_hit_tokens"))
    written = _count(details.get("cache_creation_tokens")) or _count(details.get("cache_write_tokens"))
    read = read or _count(usage.get("cache_read_input_tokens"))
    written = written or _count(usage.get("cache_creation_input_tokens"))
    whole = _count(usage.get("prompt_tokens"))
    if whole < read + written or "prompt_tokens" not in usage:
        whole = (whole or _count(usage.get("input_tokens"))) + read + written
    output = _count(usage.get("completion_tokens")) or _count(usage.get("output_tokens"))
    reasoning = _count(_mapping(usage.get("completion_tokens_details")).get("reasoning_tokens"))
    if reasoning and _count(usage.get("total_tokens")) == whole + output + reasoning:
        output += reasoning
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


def chunk_of(reply: Any) -> dict[str, Any] | None:
    """A reply that was not streamed as the one chunk of a stream; None where it holds no message."""
    choices = _mappings(_mapping(reply).get("choices"))
    message = choices[0].get("message") if choices else None
    if not isinstance(message, Mapping):
        return None
    delta = dict(message)
    if calls := _mappings(delta.get("tool_calls")):
        delta["tool_calls"] = [
            {**call, "index": n, "function": _with_text(_mapping(call.get("function")))}
            for n, call in enumerate(calls)
        ]
    choice = {"index": 0, "delta": delta, "finish_reason": choices[0].get("finish_reason")}
    return {**reply, "object": "chat.completion.chunk", "choices": [choice]}


def _with_text(function: Mapping[str, Any]) -> dict[str, Any]:
    """A function whose arguments are text: some servers send the object itself."""
    arguments = function.get("arguments")
    return {**function, "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments or {})}


def _joined(pieces: Iterable[str]) -> str:
    """Pieces as one text that has a UTF-8 form: halves of a character pair find each other, or are replaced."""
    text = "".join(pieces)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _text_of(content: Any) -> str:
    """The text of a content: a string, or parts of which only those of text are some."""
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in _mappings(content) if isinstance(part.get("text"), str))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


def _count(value: object) -> int:
    return int(value) if isinstance(value, int | float) and 0 < value < _MOST_TOKENS else 0
