"""The adapter to Ollama's own chat format, the only one by which a request can say how large its window is to be."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from chimera.core.json_text import parsed
from chimera.core.model import Request, Window
from chimera.models.adapter import Refusal
from chimera.models.faults import error_status
from chimera.models.http_adapter import Answer, HttpAdapter, parted
from chimera.models.parameters import Parameters
from chimera.models.providers import BY_PREFIX
from chimera.models.stream import ReplyParts
from chimera.overriding import override

# Parameters that stand beside the options of the model instead of among them.
_BESIDE = ("format", "keep_alive", "think")
_RENAMED = {"max_completion_tokens": "num_predict", "max_tokens": "num_predict"}
_NOT_TAKEN = ("stream_options", "tool_choice", "parallel_tool_calls")


class OllamaModel(HttpAdapter):
    """A model behind an Ollama server, which is asked for exactly the window that is budgeted."""

    def __init__(
        self,
        name: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        options: Mapping[str, Any] | None = None,
        window: Window | None = None,
        notify: Callable[[str], None] = lambda _: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """As every adapter.

        Args:
            name: as litellm spells it.
            api_base: address of the server, with `/v1` or without.
            api_key: None: none is sent.
            options: of the model (`temperature`, `top_k`, ...), or beside them: `think`, `keep_alive`, `format`; also
                `reasoning_effort`, `extra_headers` and `extra_body` as with other servers.
            window: what the server is asked to provide, unless `num_ctx` is among the options.
            notify: told once for every parameter that the server refused and that is no longer sent.
            now: for waiting times that are given as a date.

        Raises:
            ConfigError: an option is one of litellm.
            ModelAuthError: the key cannot be sent.
        """
        prefix, _, self._model = name.partition("/")
        base = (api_base or BY_PREFIX[prefix].address or "").rstrip("/").removesuffix("/v1")
        headers, given = parted(options)
        given = {_RENAMED.get(key, key): value for key, value in given.items()}
        if effort := given.pop("reasoning_effort", None):
            # Other models can only be told to think, not how much.
            given.setdefault("think", effort if "gpt-oss" in self._model else effort != "none")
        if window is not None:
            given.setdefault("num_ctx", window.tokens)
        super().__init__(
            name,
            url=f"{base}/api/chat",
            api_key=api_key,
            headers=headers,
            parameters=Parameters(given, bound="num_predict", omitted=_NOT_TAKEN),
            window=window,
            notify=notify,
            now=now,
        )

    @override
    def _body(self, request: Request) -> dict[str, Any]:
        options = self._sent_parameters(request)
        beside = {name: options.pop(name) for name in _BESIDE if name in options}
        if form := options.pop("response_format", None):
            beside["format"] = form.get("json_schema", {}).get("schema", "json")
        body: dict[str, Any] = {
            "model": self._model,
            "options": options,
            "stream": True,
            **beside,
        }
        if request.tools:
            body["tools"] = list(request.tools)
        return body

    @override
    def _message(self, wire: dict[str, Any]) -> dict[str, Any]:
        return _message(wire)

    @override
    def _add(self, parts: ReplyParts, answer: Answer) -> Refusal | None:
        called = False
        for line in _lines(answer):
            try:
                piece = parsed(line)
            except ValueError:
                # Half a line is what a broken answer ends with.
                return (
                    None if answer.fault else answer.refused(502, b"the reply holds what is no JSON: " + line)
                )
            if not isinstance(piece, dict):
                continue
            if (status := error_status(piece)) is not None:
                return answer.refused(status, line)
            message = piece.get("message")
            chunk = _chunk(piece, message if isinstance(message, dict) else {})
            called = called or bool(chunk["choices"][0]["delta"]["tool_calls"])
            if called and chunk["choices"][0]["finish_reason"] == "stop":
                chunk["choices"][0]["finish_reason"] = "tool_calls"
            parts.add(chunk)
        return None


def _message(wire: Mapping[str, Any]) -> dict[str, Any]:
    """A message as Ollama has it: arguments are objects, and reasoning is called thinking."""
    made: dict[str, Any] = {"role": wire["role"], "content": wire.get("content") or ""}
    if thought := wire.get("reasoning_content"):
        made["thinking"] = thought
    if calls := wire.get("tool_calls"):
        made["tool_calls"] = [
            {
                "id": call["id"],
                "function": {
                    "name": call["function"]["name"],
                    "arguments": json.loads(call["function"]["arguments"]),
                },
            }
            for call in calls
        ]
    if "tool_call_id" in wire:
        made["tool_call_id"] = wire["tool_call_id"]
    return made


def _chunk(piece: Mapping[str, Any], message: Mapping[str, Any]) -> dict[str, Any]:
    """One line of a reply as a chunk of the other format. Calls come whole, and each is one of its own."""
    delta = {
        "content": message.get("content"),
        "reasoning_content": message.get("thinking") or None,
        "tool_calls": message.get("tool_calls") or [],
    }
    ended = piece.get("done") is True
    chunk: dict[str, Any] = {
        "choices": [
            {"delta": delta, "finish_reason": (piece.get("done_reason") or "stop") if ended else None}
        ]
    }
    if ended and "prompt_eval_count" in piece:
        chunk["usage"] = {
            "prompt_tokens": piece["prompt_eval_count"],
            "completion_tokens": piece.get("eval_count"),
        }
    return chunk


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    parts = list[bytes]()
    for piece in pieces:
        first, *others = piece.split(b"\n")
        parts.append(first)
        for line in others:
            if whole := b"".join(parts).strip():
                yield whole
            parts = [line]
    if rest := b"".join(parts).strip():
        yield rest
