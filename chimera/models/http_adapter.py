"""What the adapters that speak HTTP themselves have in common: one connection, a body that is streamed, its faults."""

from __future__ import annotations

import http.client
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from chimera import __version__
from chimera.core.model import Completion, OnText, Request, Window
from chimera.errors import ConfigError, ModelAuthError
from chimera.models.adapter import READ_TIMEOUT_S, Adapter, Refusal
from chimera.models.connection import Connection, decoded, pieces_of
from chimera.models.encoded_messages import EncodedMessages, encoded
from chimera.models.faults import ProviderFault, http_fault
from chimera.models.parameters import Parameters
from chimera.models.stream import ReplyParts
from chimera.overriding import override

_BROKEN = (OSError, http.client.HTTPException)
LITELLM_OPTIONS = frozenset(
    ("api_key", "api_version", "custom_llm_provider", "drop_params", "extra_query", "headers", "organization")
)
"""Model options that are instructions to litellm and that no server is to see."""
# Finish reasons of a reply that the server gave up in the middle.
_GIVEN_UP = {"error", "abort"}


class _Meanwhile(Struct):
    """Work of the caller whose faults are none of the connection."""

    work: Callable[[], None]
    fault: Exception | None = None

    def __call__(self) -> None:
        try:
            self.work()
        except _BROKEN as fault:
            self.fault = fault


class HttpAdapter(Adapter):
    """A model behind a server that is spoken to without a library of anybody's, on one connection that is kept."""

    def __init__(
        self,
        name: str,
        *,
        url: str,
        api_key: str | None,
        headers: Mapping[str, str],
        parameters: Parameters,
        window: Window | None,
        notify: Callable[[str], None],
        now: Callable[[], datetime],
    ) -> None:
        """As every adapter.

        Args:
            name: as litellm spells it.
            url: to which requests are posted.
            api_key: None: none is sent.
            headers: instead of, or beside, those of every request; names in lower case.
            parameters: the options as this server takes them.
            window: what is known of the window.
            notify: told once for every parameter that the server refused and that is no longer sent.
            now: for waiting times that are given as a date.

        Raises:
            ModelAuthError: the key cannot be sent.
        """
        super().__init__(name, parameters=parameters, window=window, notify=notify, now=now)
        self._headers = {
            "content-type": "application/json",
            "accept": "application/json",
            "user-agent": f"chimera/{__version__}",
            **_authorization(name, api_key),
            **headers,
        }
        self._connection = Connection(url)
        self._encoded = EncodedMessages(
            lambda message: self._message(parameters.message(message.wire())), lambda: parameters.of_messages
        )

    @override
    def close(self) -> None:
        self._connection.close()

    @abstractmethod
    def _body(self, request: Request) -> dict[str, Any]:
        """The request as this format has it, but for its messages."""

    @abstractmethod
    def _message(self, wire: dict[str, Any]) -> dict[str, Any]:
        """A message as this format has it."""

    def _messages(self, request: Request) -> list[bytes]:
        """The messages of a request, each encoded."""
        return self._encoded.of(request.messages)

    @abstractmethod
    def _add(self, parts: ReplyParts, answer: Answer) -> Refusal | None:
        """Take in the body of an answer of a status that is no error, or say why it is none."""

    @override
    def _exchange(self, request: Request, on_text: OnText) -> Completion | Refusal:
        head = encoded(self._body(request)).removesuffix(b"}")
        body = b"".join((head, b',"messages":[', b",".join(self._messages(request)), b"]}"))
        meanwhile = _Meanwhile(request.meanwhile)
        try:
            response = self._connection.post(body, self._headers, meanwhile)
        except _BROKEN as error:
            if meanwhile.fault is not None:
                raise meanwhile.fault from error
            return _broken(error)
        try:
            if meanwhile.fault is not None:
                raise meanwhile.fault
            reply = self._reply(Answer(response, self._now()), on_text)
        except BaseException:
            self._connection.close()
            raise
        self._connection.release(response)
        return reply

    def _reply(self, answer: Answer, on_text: OnText) -> Completion | Refusal:
        if place := answer.redirection:
            return answer.refused(answer.status, f"it is at {place}: give that as --api-base".encode())
        if not answer.succeeded:
            return answer.refused(answer.status, b"".join(answer))
        parts = ReplyParts(on_text=on_text)
        if (refusal := self._add(parts, answer)) is not None:
            return refusal
        if parts.finish_reason is None:
            if answer.fault is not None:
                return _broken(answer.fault)
            raise self._cut()
        if parts.finish_reason in _GIVEN_UP:
            return answer.refused(502, f"the server ended its reply with {parts.finish_reason!r}".encode())
        return parts.completion()


class Answer(Struct):
    """An answer as it comes. Where its body breaks off it ends, and `fault` says why."""

    _response: http.client.HTTPResponse
    _now: datetime
    fault: Exception | None = None

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def succeeded(self) -> bool:
        return 200 <= self.status < 300

    @property
    def content_type(self) -> str:
        return self._response.headers.get_content_type()

    @property
    def redirection(self) -> str | None:
        """Where the server says that it moved to."""
        return self._response.headers.get("location") if 300 <= self.status < 400 else None

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from decoded(pieces_of(self._response), self._response.headers.get("content-encoding", ""))
        except _BROKEN as error:
            self.fault = error

    def refused(self, status: int, content: bytes) -> Refusal:
        """What an error with this status and body comes to."""
        return Refusal(fault=http_fault(status, dict(self._response.headers.items()), content, now=self._now))


def parted(options: Mapping[str, Any] | None) -> tuple[dict[str, str], dict[str, Any]]:
    """Options of a model as headers, with their names in lower case, and parameters.

    Raises:
        ConfigError: an option that only litellm understands.
    """
    rest = dict(options or {})
    if wrong := LITELLM_OPTIONS & rest.keys():
        raise ConfigError(f"the model option {min(wrong)!r} is one of litellm: add --adapter litellm")
    headers = rest.pop("extra_headers", None) or {}
    rest |= rest.pop("extra_body", None) or {}
    return {str(name).lower(): str(value) for name, value in headers.items()}, rest


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
