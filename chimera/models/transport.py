"""The HTTP client for OpenAI-compatible servers: keeps connections over streams, bounds their time, unmasks errors.

The official client closes a stream at `[DONE]` without reading its end, which costs a connection, with its TLS
handshake, for every request (openai-python issue 3440). Reading the few bytes that are left keeps it.

To be imported only by a function that is about to send a request: it brings httpx and the official client.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import openai

from chimera.core.json_text import parsed
from chimera.models.adapter import TOTAL_TIMEOUT_S
from chimera.models.connection import proxy_for
from chimera.models.event_stream import beginning, is_stream
from chimera.models.faults import error_status
from chimera.models.stream import chunk_of
from chimera.overriding import override

_DRAIN_TIMEOUT_S = 0.2
_DRAIN_PIECES = 64
_MOST_SHOWN = 300


def openai_client(*, base_url: str, api_key: str, timeout: httpx.Timeout) -> openai.OpenAI:
    """An OpenAI client with its own retries off, over one pool of connections."""
    transport = _Transport(proxy=proxy_for(base_url))
    http_client = httpx.Client(transport=transport, timeout=timeout, follow_redirects=True)
    # The client takes this older httpx, which litellm depends on, beside its own one; only its types do not say so.
    chosen: Any = {"http_client": http_client, "timeout": timeout}
    return openai.OpenAI(api_key=api_key, base_url=base_url, max_retries=0, **chosen)


class _Transport(httpx.HTTPTransport):
    @override
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        assert isinstance(response.stream, httpx.SyncByteStream)
        body = response.stream = _Draining(response.stream)
        if response.is_success and _asks_for_stream(request):
            kind = response.headers.get("content-type", "")
            plain = "content-encoding" not in response.headers
            if not (is_stream(body.beginning(), kind) if plain else _is_named_stream(kind)):
                return _as_stream(response)
        return response


class _Draining(httpx.SyncByteStream):
    """A body that is read to its end before it is closed, as long as that takes no time worth speaking of."""

    def __init__(self, inner: httpx.SyncByteStream) -> None:
        self._inner = inner
        self._pieces: Iterator[bytes] | None = None
        self._until = time.monotonic() + TOTAL_TIMEOUT_S
        self._start = b""

    def beginning(self) -> bytes:
        """The first bytes, which are still part of the body."""
        self._pieces = iter(self._inner)
        self._start = beginning(self._pieces)
        return self._start

    @override
    def __iter__(self) -> Iterator[bytes]:
        self._pieces = self._pieces or iter(self._inner)
        yield self._start
        for piece in self._pieces:
            if time.monotonic() > self._until:
                self._pieces = None
                raise httpx.ReadTimeout(f"the reply took longer than {TOTAL_TIMEOUT_S:.0f} s")
            yield piece

    @override
    def close(self) -> None:
        if self._pieces is not None:
            reader = threading.Thread(target=_drain, args=(self._pieces,), daemon=True)
            reader.start()
            reader.join(_DRAIN_TIMEOUT_S)
        self._inner.close()


def _drain(pieces: Iterator[bytes]) -> None:
    try:
        for _ in zip(range(_DRAIN_PIECES), pieces, strict=False):
            pass
    except (httpx.HTTPError, httpx.StreamError, OSError, ValueError):
        return  # the connection is closed instead of kept


def _is_named_stream(content_type: str) -> bool:
    return "json" not in content_type and "html" not in content_type


def _asks_for_stream(request: httpx.Request) -> bool:
    return b'"stream":true' in request.content or b'"stream": true' in request.content


def _as_stream(response: httpx.Response) -> httpx.Response:
    """A whole body where a stream was asked for: an error as an error, a completion as a stream of one chunk."""
    content = response.read()
    response.close()
    kept = {name: response.headers[name] for name in ("retry-after",) if name in response.headers}
    try:
        body = parsed(content)
    except ValueError:
        shown = " ".join(content.decode("utf-8", "replace").split())[:_MOST_SHOWN]
        body = {"error": {"message": f"the reply is no completion: {shown}"}}
    if (status := error_status(body)) is not None:
        return httpx.Response(status, headers=kept, json=body)
    chunk = chunk_of(body)
    if chunk is None:
        shown = content.decode("utf-8", "replace")[:_MOST_SHOWN]
        return httpx.Response(
            502, headers=kept, json={"error": {"message": f"no message in the reply: {shown}"}}
        )
    events = b"data: " + json.dumps(chunk).encode() + b"\n\ndata: [DONE]\n\n"
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=events)
