"""A server behind an address: the client that speaks to it, and how much it may answer at once.

To be imported only by a function that is about to send a request: it brings httpx2.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2

from chimera.errors import ConfigError
from chimera.overriding import override
from chimera.tools.mcp_file import Endpoint
from chimera.tools.server_program import MOST_MESSAGE
from chimera.tools.wording import size_text
from chimera.workspace.addresses import is_loopback

_CONNECT_S = 30.0


def endpoint_client(place: Endpoint, timeout_s: float) -> httpx2.AsyncClient:
    """A client that shows the server the headers of its file. It follows no redirect by itself.

    Args:
        place: the address.
        timeout_s: for the answer to a call.

    Raises:
        ConfigError: a header cannot be sent, or a proxy of the environment cannot be used.
    """
    try:
        return httpx2.AsyncClient(
            # What is compressed could unfold to any size.
            headers={"accept-encoding": "identity", **place.headers},
            timeout=httpx2.Timeout(_CONNECT_S, read=timeout_s),
            event_hooks={"response": [_bound]},
            # Never through a proxy to this machine itself; what else the environment says is about certificates.
            trust_env=not (is_loopback(place.url) and place.url.startswith("http:")),
        )
    except UnicodeError as fault:
        raise ConfigError(f"a header for {place.host} is not plain ASCII") from fault
    except (ImportError, ValueError) as fault:
        raise ConfigError(f"no connection to {place.host} can be made from here: {fault}") from fault


async def _bound(response: httpx2.Response) -> None:
    # The SDK bounds the events of a stream one by one; a stream as a whole has no end.
    if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        encoded = response.headers.get("content-encoding", "identity").lower() != "identity"
        response.stream = _Bounded(response.stream, 0 if encoded else MOST_MESSAGE)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, most: int) -> None:
        self._stream = stream
        self._left = most

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._left -= len(piece)
            if self._left < 0:
                raise httpx2.StreamError(f"it is larger than {size_text(MOST_MESSAGE)}, or compressed")
            yield piece

    @override
    async def aclose(self) -> None:
        await self._stream.aclose()
