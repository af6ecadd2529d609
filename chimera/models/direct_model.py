"""The adapter to servers that speak the OpenAI chat-completions format, without litellm: nothing heavy is imported."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from chimera.core.json_text import parsed
from chimera.core.model import Request, Window
from chimera.errors import ConfigError
from chimera.models.adapter import CACHE_MARK, Refusal, marked_tools, takes_cache_marks
from chimera.models.encoded_messages import encoded
from chimera.models.event_stream import beginning, is_stream, server_events
from chimera.models.faults import error_status
from chimera.models.http_adapter import Answer, HttpAdapter, parted
from chimera.models.parameters import Parameters
from chimera.models.providers import BY_PREFIX
from chimera.models.stream import ReplyParts, chunk_of
from chimera.overriding import override


class DirectModel(HttpAdapter):
    """A model behind a server that speaks the chat-completions format."""

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
            api_base: address of the server; None: the provider's own.
            api_key: None: none is sent.
            options: sent as they are (temperature, reasoning_effort, ...), but for `extra_headers`, which are headers,
                and `extra_body`, whose fields are parameters like the others.
            window: what is known of the window.
            notify: told once for every parameter that the server refused and that is no longer sent.
            now: for waiting times that are given as a date.

        Raises:
            ConfigError: the provider of this name speaks another format, or an option is one of litellm.
            ModelAuthError: the key cannot be sent.
        """
        prefix, _, rest = name.partition("/")
        provider = BY_PREFIX.get(prefix)
        if provider is None or provider.endpoint is None:
            raise ConfigError(
                f"{name} has a format of its own, which the direct adapter does not speak: "
                "use --adapter auto or --adapter litellm"
            )
        self._model = provider.model_name(rest)
        self._marks = takes_cache_marks(name)
        headers, given = parted(options)
        base = (api_base or provider.endpoint).rstrip("/")
        super().__init__(
            name,
            url=f"{base}/chat/completions",
            api_key=api_key,
            headers=headers,
            parameters=Parameters(
                {**provider.parameters, **given}, bound=provider.bound(base), omitted=provider.not_taken
            ),
            window=window,
            notify=notify,
            now=now,
        )

    @override
    def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._model, "stream": True}
        body |= self._sent_parameters(request)
        if request.tools:
            body["tools"] = marked_tools(request.tools) if self._marks else list(request.tools)
        return body

    @override
    def _message(self, wire: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in wire.items() if value is not None}

    @override
    def _messages(self, request: Request) -> list[bytes]:
        """The messages, with marks behind the first and the newest one if the provider caches only up to marks."""
        messages = super()._messages(request)
        if self._marks:
            for n in {0, len(messages) - 1}:
                messages[n] = _marked(messages[n])
        return messages

    @override
    def _add(self, parts: ReplyParts, answer: Answer) -> Refusal | None:
        pieces = iter(answer)
        start = beginning(pieces)
        if is_stream(start, answer.content_type):
            return _add_events(parts, answer, chain([start], pieces))
        return _add_whole(parts, answer, b"".join((start, *pieces)))


def _add_whole(parts: ReplyParts, answer: Answer, content: bytes) -> Refusal | None:
    """A body that was not streamed: a completion, or an error under status 200."""
    try:
        reply = parsed(content.decode("utf-8-sig", "replace"))
    except ValueError:
        return answer.refused(502, b"the reply is no completion: " + content)
    if (status := error_status(reply)) is not None:
        return answer.refused(status, content)
    if (chunk := chunk_of(reply)) is None:
        return answer.refused(502, b"no message in the reply: " + content)
    parts.add(chunk)
    return None


def _add_events(parts: ReplyParts, answer: Answer, pieces: Iterable[bytes]) -> Refusal | None:
    for event in server_events(pieces):
        data = event.data.strip()
        if data == "[DONE]" or answer.fault is not None:
            break
        try:
            chunk = parsed(data) if data else {}
        except ValueError:
            return answer.refused(502, f"the reply holds what is no JSON: {data}".encode())
        status = error_status(chunk)
        if status is not None or event.name == "error":
            return answer.refused(status or 502, data.encode())
        if not isinstance(chunk, dict):
            continue
        parts.add(chunk)
    return None


def _marked(message: bytes) -> bytes:
    """An encoded message with a mark behind its text, if it has any."""
    fields = json.loads(message)
    if text := fields.get("content"):
        fields["content"] = [{"type": "text", "text": text, "cache_control": CACHE_MARK}]
    return encoded(fields)
