"""One HTTP connection to a model server, kept open between requests. Over `http.client`, which costs next to no start.

Proxies are those of the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`), but never for this machine.
Certificates are checked against `SSL_CERT_FILE` or `SSL_CERT_DIR`, else against those of certifi, as httpx does it.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import select
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from chimera.config import process_environment
from chimera.errors import ModelError
from chimera.models.adapter import CONNECT_TIMEOUT_S, READ_TIMEOUT_S, TOTAL_TIMEOUT_S
from chimera.workspace.addresses import is_http, is_loopback

if TYPE_CHECKING:
    import ssl

_PIECE_BYTES = 65_536
_DRAIN_TIMEOUT_S = 0.2
_DRAIN_PIECES = 64
# How a server says that it had already closed a connection that was kept open.
_STALE = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for an address; None for a direct connection."""
    if is_loopback(url):
        return None
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


class Connection:
    """Sends one request after the other to one address."""

    def __init__(self, url: str, *, read_timeout_s: float = READ_TIMEOUT_S) -> None:
        """Nothing is opened here.

        Args:
            url: to which every request is posted.
            read_timeout_s: longest silence of the server.
        """
        self._read_timeout_s = read_timeout_s
        self._url = urlsplit(url)
        self._target = urlunsplit(("", "", self._url.path or "/", self._url.query, ""))
        self._headers: dict[str, str] = {}
        self._open: http.client.HTTPConnection | None = None

    def post(
        self, body: bytes, headers: Mapping[str, str], meanwhile: Callable[[], None] = lambda: None
    ) -> http.client.HTTPResponse:
        """The answer to a request, whatever its status, with its body still to be read; to be given to `release` then.

        Args:
            body: what is posted.
            headers: beside those of the connection.
            meanwhile: called when the request is on its way, before its answer is waited for.

        Raises:
            OSError: no connection, or it broke; also `TimeoutError` and `ssl.SSLError`.
            http.client.HTTPException: what came is no HTTP.
            ModelError: the proxy is of a kind that cannot be used.
        """
        kept = self._open
        if kept is not None and (kept.sock is None or _is_readable(kept.sock)):
            self.close()
            kept = None
        try:
            return self._sent(kept or self._connected(), body, headers, meanwhile)
        except _STALE:
            self.close()
            if kept is None:
                raise
            return self._sent(self._connected(), body, headers, meanwhile)
        except BaseException:
            self.close()
            raise

    def release(self, response: http.client.HTTPResponse) -> None:
        """Keep the connection if the answer was read to its end, or nearly; else close it."""
        self._drain(response)
        if not response.isclosed():
            self.close()

    def close(self) -> None:
        """Close what is open; the next request opens it again."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _sent(
        self,
        connection: http.client.HTTPConnection,
        body: bytes,
        headers: Mapping[str, str],
        meanwhile: Callable[[], None],
    ) -> http.client.HTTPResponse:
        try:
            connection.request("POST", self._target, body, {**headers, **self._headers})
        except (BrokenPipeError, ConnectionResetError):
            # A server may refuse a request before it has read the whole of it, and its answer says why.
            with contextlib.suppress(OSError, http.client.HTTPException):
                return connection.getresponse()
            raise
        meanwhile()
        return connection.getresponse()

    def _connected(self) -> http.client.HTTPConnection:
        connection = self._open = self._made()
        try:
            connection.connect()
        except TimeoutError as error:
            raise TimeoutError(f"no connection within {CONNECT_TIMEOUT_S:.0f} s") from error
        connection.sock.settimeout(self._read_timeout_s)
        return connection

    def _made(self) -> http.client.HTTPConnection:
        url, proxy = self._url, proxy_for(self._url.geturl())
        at = url if proxy is None else urlsplit(_checked(proxy))
        host, port = at.hostname or "", at.port or (443 if at.scheme == "https" else 80)
        credentials = {} if proxy is None else _credentials(at)
        if url.scheme != "https":
            if proxy is not None:
                self._target, self._headers = url.geturl(), credentials
            return http.client.HTTPConnection(host, port, timeout=CONNECT_TIMEOUT_S)
        secured = http.client.HTTPSConnection(host, port, timeout=CONNECT_TIMEOUT_S, context=tls_context())
        if proxy is not None:
            secured.set_tunnel(url.hostname or "", url.port or 443, credentials)
        return secured

    def _drain(self, response: http.client.HTTPResponse) -> None:
        """Read the few bytes behind the last event, as long as that takes no time worth speaking of."""
        if response.length == 0:
            response.close()
        if response.isclosed() or self._open is None or self._open.sock is None:
            return
        until = time.monotonic() + _DRAIN_TIMEOUT_S
        self._open.sock.settimeout(_DRAIN_TIMEOUT_S)
        with contextlib.suppress(OSError, http.client.HTTPException):
            for _ in range(_DRAIN_PIECES):
                if not response.read1(_PIECE_BYTES) or time.monotonic() > until:
                    break
        if self._open.sock is not None:
            self._open.sock.settimeout(self._read_timeout_s)


def pieces_of(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The body of an answer as it comes.

    Raises:
        TimeoutError: a silence, or the whole, lasted too long.
    """
    until = time.monotonic() + TOTAL_TIMEOUT_S
    while piece := response.read1(_PIECE_BYTES):
        yield piece
        if time.monotonic() > until:
            raise TimeoutError(f"the reply took longer than {TOTAL_TIMEOUT_S:.0f} s")


def decoded(pieces: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """A body without its compression, which some servers apply although none is asked for.

    Raises:
        http.client.HTTPException: it is encoded in another way, or not as it is said to be.
    """
    encoding = encoding.strip().lower()
    if encoding in {"", "identity"}:
        yield from pieces
        return
    if encoding not in {"gzip", "x-gzip", "deflate"}:
        raise http.client.HTTPException(f"the reply is encoded as {encoding!r}, which was not asked for")
    import zlib

    # 32: gzip or zlib, as the first bytes tell.
    decompressor = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    try:
        for piece in pieces:
            yield decompressor.decompress(piece)
    except zlib.error as error:
        raise http.client.HTTPException(
            f"the reply is not {encoding} as it is said to be: {error}"
        ) from error


def tls_context() -> ssl.SSLContext:
    """How servers prove who they are.

    Raises:
        ModelError: there are no certificates where the environment says.
    """
    import ssl

    environment = process_environment()
    if file := environment.get("SSL_CERT_FILE"):
        try:
            context = ssl.create_default_context(cafile=file)
        except OSError as error:
            raise ModelError(f"SSL_CERT_FILE is {file!r}, which holds no certificates: {error}") from error
    elif folder := environment.get("SSL_CERT_DIR"):
        context = ssl.create_default_context(capath=folder)
    else:
        import certifi

        context = ssl.create_default_context(cafile=certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


def _checked(proxy: str) -> str:
    if not is_http(proxy) or not proxy.startswith("http:"):
        shown = proxy.rpartition("@")
        raise ModelError(
            f"the proxy {proxy.partition(':')[0]}://{shown[2].rpartition('/')[2]} cannot be used: only proxies that are themselves reached by "
            "http:// can, also for https. Set HTTPS_PROXY to one, or except the address with NO_PROXY."
        )
    return proxy


def _credentials(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"proxy-authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _is_readable(sock: socket.socket) -> bool:
    """Whether something waits on an idle connection: that can only be its end."""
    looking = select.poll()  # `select` itself refuses descriptors above 1023
    looking.register(sock, select.POLLIN)
    return bool(looking.poll(0))
