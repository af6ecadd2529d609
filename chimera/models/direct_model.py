"""The adapter to servers that speak the OpenAI chat-completions format, without litellm: nothing heavy is imported."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from typing_extensions import override

from chimera import __version__
from chimera.core.model import Completion, OnText, Request, Window
from chimera.errors import ConfigError, ModelAuthError
from chimera.models.adapter import (
    CACHE_MARK,
    READ_TIMEOUT_S,
    Adapter,
    Refusal,
    marked_tools,
    takes_cache_marks,
)
from chimera.models.connection import Connection, pieces_of
from chimera.models.event_stream import server_events
from chimera.models.faults import ProviderFault, error_status, http_fault
from chimera.models.parameters import Parameters
from chimera.models.providers import BY_PREFIX
from chimera.models.stream import ReplyParts, chunk_of

_BROKEN = (OSError, http.client.HTTPException)
# Finish reasons of a reply that the server gave up in the middle.
_GIVEN_UP = {"error", "abort"}


class DirectModel(Adapter):
    """A model behind a server that speaks the chat-completions format, on one connection that is kept."""

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
            ConfigError: the provider of this name speaks another format.
            ModelAuthError: the key cannot be sent.
        """
        prefix, _, rest = name.partition("/")
        provider = BY_PREFIX.get(prefix)
        if provider is None or provider.endpoint is None:
            raise ConfigError(
                f"{name} is not behind the chat-completions format that the direct adapter speaks: "
                "use --adapter auto or --adapter litellm"
            )
        self._model = provider.model_name(rest)
        given = dict(options or {})
        headers = {str(k).lower(): str(v) for k, v in (given.pop("extra_headers", None) or {}).items()}
        given |= given.pop("extra_body", None) or {}
        base = api_base or provider.endpoint
        parameters = Parameters(
            {**provider.parameters, **given}, bound=provider.bound(base), omitted=provider.not_taken
        )
        super().__init__(name, parameters=parameters, window=window, notify=notify, now=now)
        self._headers = {
            "content-type": "application/json",
            "accept": "application/json",
            "user-agent": f"chimera/{__version__}",
            **_authorization(name, api_key),
            **headers,
        }
        self._connection = Connection(f"{base.rstrip('/')}/chat/completions")

    @override
    def close(self) -> None:
        self._connection.close()

    @override
    def _exchange(self, request: Request, on_text: OnText) -> Completion | Refusal:
        try:
            response = self._connection.post(self._body(request), self._headers)
        except _BROKEN as error:
            return _broken(error)
        try:
            reply = self._reply(response, on_text)
        except BaseException:
            self._connection.close()
            raise
        self._connection.release(response)
        return reply

    def _body(self, request: Request) -> bytes:
        messages = [
            {name: value for name, value in message.items() if value is not None}
            for message in self._sent_messages(request)
        ]
        body: dict[str, Any] = {"model": self._model, "messages": messages, "stream": True}
        body |= self._sent_parameters(request)
        if request.tools:
            body["tools"] = list(request.tools)
        if takes_cache_marks(self._name):
            _mark_for_cache(body)
        # Half of a character pair, as a model may write it, has no UTF-8.
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")

    def _reply(self, response: http.client.HTTPResponse, on_text: OnText) -> Completion | Refusal:
        body = _Body(response)
        parts = ReplyParts(on_text=on_text)
        kind = response.headers.get_content_type()
        if place := response.headers.get("location") if 300 <= response.status < 400 else None:
            text = f"it is at {place}: give that as --api-base, without /chat/completions"
            return self._refused(response.status, response, text.encode())
        if response.status != 200:
            return self._refused(response.status, response, b"".join(body))
        if "json" in kind or "html" in kind:
            refusal = self._add_whole(parts, response, b"".join(body))
        else:
            refusal = self._add_events(parts, response, body)
        if refusal is not None:
            return refusal
        if parts.finish_reason is None:
            if body.fault is not None:
                return _broken(body.fault)
            raise self._cut()
        if parts.finish_reason in _GIVEN_UP:
            return self._refused(
                502, response, f"the server ended its reply with {parts.finish_reason!r}".encode()
            )
        return parts.completion()

    def _add_whole(
        self, parts: ReplyParts, response: http.client.HTTPResponse, content: bytes
    ) -> Refusal | None:
        """A body that was not streamed: a completion, or an error under status 200."""
        try:
            reply = json.loads(content)
        except ValueError:
            return self._refused(502, response, b"the reply is no completion: " + content)
        if (status := error_status(reply)) is not None:
            return self._refused(status, response, content)
        if (chunk := chunk_of(reply)) is None:
            return self._refused(502, response, b"no message in the reply: " + content)
        parts.add(chunk)
        return None

    def _add_events(
        self, parts: ReplyParts, response: http.client.HTTPResponse, body: _Body
    ) -> Refusal | None:
        for event in server_events(body):
            data = event.data.strip()
            if data == "[DONE]" or body.fault is not None:
                break
            try:
                chunk = json.loads(data) if data else {}
            except ValueError:
                return self._refused(502, response, f"the reply holds what is no JSON: {data}".encode())
            if not isinstance(chunk, dict):
                continue
            status = error_status(chunk)
            if status is not None or event.name == "error":
                return self._refused(status or 502, response, data.encode())
            parts.add(chunk)
        return None

    def _refused(self, status: int, response: http.client.HTTPResponse, content: bytes) -> Refusal:
        fault = http_fault(status, dict(response.headers.items()), content, now=self._now())
        return Refusal(fault=fault)


@dataclass(slots=True)
class _Body:
    """The body of an answer as it comes. Where it breaks off it ends, and `fault` says why."""

    response: http.client.HTTPResponse
    fault: Exception | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from pieces_of(self.response)
        except _BROKEN as error:
            self.fault = error


def _broken(error: Exception) -> Refusal:
    """No answer, or half of one."""
    text = str(error) or type(error).__name__
    if isinstance(error, TimeoutError) and "timed out" in text:
        text = f"nothing came for {READ_TIMEOUT_S:.0f} s"
    return Refusal(fault=ProviderFault(text=text), cause=error)


def _authorization(name: str, api_key: str | None) -> dict[str, str]:
    if api_key is None:
        return {}
    if not (api_key.isascii() and api_key.isprintable()):
        raise ModelAuthError(
            f"the key for {name} holds a character that cannot be sent: check how it was set"
        )
    return {"authorization": f"Bearer {api_key}"}


def _mark_for_cache(body: dict[str, Any]) -> None:
    """Mark where the provider may cache the prompt: after the tools, the system message and the newest message."""
    messages = body["messages"]
    for n in {0, len(messages) - 1}:
        if text := messages[n].get("content"):
            messages[n] = messages[n] | {
                "content": [{"type": "text", "text": text, "cache_control": CACHE_MARK}]
            }
    if tools := body.get("tools"):
        body["tools"] = marked_tools(tools)
