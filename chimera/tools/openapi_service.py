"""The requests of imported operations: to one service and nowhere else."""

from __future__ import annotations

import base64
import json
import re
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Timer
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct, field

from chimera import __version__
from chimera.core.outputs import ToolOutput
from chimera.errors import ToolError
from chimera.tools.base import failed
from chimera.tools.foreign import Deadline
from chimera.tools.openapi_operations import BODY, Operation, Parameter, SchemeUse
from chimera.tools.wording import one_line, size_text
from chimera.workspace.addresses import is_loopback
from chimera.workspace.terminal_text import escaped, plain_text

if TYPE_CHECKING:
    import httpx

TIMEOUT_S = 60.0
"""For a whole answer."""
_CONNECT_S = 20.0
MOST_BYTES = 8_000_000
"""Of an answer: admission shows the model far less, and the rest can be searched."""
_MOST_REDIRECTS = 3
# Python knows more, some of which take minutes for a megabyte.
_CHARSETS = re.compile(
    r"iso-?8859-(?:[1-9]|1[0-6])|latin-?1|(?:windows-|cp)125[0-8]|utf-?(?:16|32)(?:-?[bl]e)?|koi8-[ru]"
    r"|shift_jis|euc-(?:jp|kr)|gb(?:2312|k|18030)|big5",
    re.IGNORECASE,
)
_SEPARATORS = {"spaceDelimited": " ", "pipeDelimited": "|"}


class Service(Struct, kw_only=True):
    """A service that speaks HTTP, its address and the key that it is shown."""

    base_url: str
    """Without a slash at its end."""
    key: str | None = None
    timeout_s: float = TIMEOUT_S
    deadline: Deadline = field(default_factory=Deadline)
    _client: httpx.Client | None = None
    _socket: socket.socket | None = None
    """Of the connection made last."""
    _ends_at: float = 0.0
    """When the time of the newest call is up."""

    def call(self, name: str, operation: Operation, arguments: Mapping[str, Any]) -> ToolOutput:
        """Carry out one operation.

        Raises:
            ToolError: no answer.
        """
        import httpx

        limit_s = self.deadline.limit_s(self.timeout_s)
        self._ends_at = time.monotonic() + limit_s
        try:
            with self._cut_after(limit_s):
                return self._answered(name, operation, self._request(operation, arguments, limit_s))
        except UnicodeError as fault:
            raise ToolError(
                f"{name} cannot be sent with this argument: {one_line(escaped(str(fault)), 300)}. Nothing was sent: correct it."
            ) from fault
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as fault:
            if isinstance(fault, httpx.TimeoutException) or time.monotonic() >= self._ends_at:
                raise ToolError(
                    f"{name} got no answer within {limit_s:.3g} s. The service may still be at work on it: look before "
                    "you repeat the call, or go another way."
                ) from fault
            reason = one_line(escaped(str(fault) or type(fault).__name__), 300)
            raise ToolError(
                f"{name} could not reach {self._host}: {reason}. Do without it, or say in your answer what needs it."
            ) from fault

    def close(self) -> None:
        """End the connections."""
        if self._client is not None:
            self._client.close()

    @contextmanager
    def _cut_after(self, limit_s: float) -> Iterator[None]:
        """End the connection when the time is up. The timeouts of httpx begin anew with each byte that comes."""
        timer = Timer(limit_s, self._cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _cut(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                # Not the method of a TLS socket, which would also take it apart while somebody reads.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _keep_socket(self, event: str, about: Mapping[str, Any]) -> None:
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            self._socket = about["return_value"].get_extra_info("socket")
            if time.monotonic() >= self._ends_at:  # the time was up before there was anything to cut
                self._cut()

    @property
    def _host(self) -> str:
        return urlsplit(self.base_url).netloc

    @property
    def _http(self) -> httpx.Client:
        import httpx

        if self._client is None:
            agent = {"user-agent": f"chimera/{__version__}"}
            try:
                # Never through a proxy to this machine itself; what else the environment says is about certificates.
                own = is_loopback(self.base_url) and self.base_url.startswith("http:")
                self._client = httpx.Client(follow_redirects=False, headers=agent, trust_env=not own)
            except (ImportError, ValueError) as fault:  # a proxy of a kind that httpx alone cannot use
                raise ToolError(
                    f"No connection to {self._host} can be made from here: {one_line(escaped(str(fault)), 300)}. Nothing was "
                    "sent. Do without it, or say in your answer what needs it."
                ) from fault
        return self._client

    def _request(self, operation: Operation, arguments: Mapping[str, Any], limit_s: float) -> httpx.Request:
        import httpx

        path, query, headers = (
            operation.path,
            list[tuple[str, str]](),
            {"accept": "application/json, text/*, */*"},
        )
        for parameter in operation.parameters:
            if parameter.argument not in arguments:
                continue
            value = arguments[parameter.argument]
            match parameter.place:
                case "path":
                    path = path.replace(f"{{{parameter.name}}}", _segment(parameter, value))
                case "query":
                    query += _pairs(parameter, value)
                case "header":
                    headers[parameter.name.lower()] = _header(parameter, value)
        self._show_key(operation.scheme, query, headers)
        content: bytes | None = None
        if operation.content_type is not None and BODY in arguments:
            headers["content-type"] = operation.content_type
            content = _content(operation.content_type, arguments[BODY])
        url = f"{self.base_url}{path}"
        if query:
            encoded = "&".join(f"{quote(name, safe='[]$')}={quote(value, safe='')}" for name, value in query)
            url += f"?{encoded}"
        request = self._http.build_request(
            operation.method.upper(),
            url,
            headers=headers,
            content=content,
            timeout=httpx.Timeout(limit_s, connect=min(_CONNECT_S, limit_s)),
            extensions={"trace": self._keep_socket},
        )
        if not (_same_origin(str(request.url), self.base_url) and self._is_below(request.url.path)):
            raise ToolError(f"These arguments lead away from {self._host}. Nothing was sent: correct them.")
        return request

    def _is_below(self, path: str) -> bool:
        """Whether a path, its dots resolved, is one below the address of the service."""
        return path.startswith(f"{unquote(urlsplit(self.base_url).path)}/")

    def _show_key(
        self, scheme: SchemeUse | None, query: list[tuple[str, str]], headers: dict[str, str]
    ) -> None:
        if self.key is None or scheme is None:
            return
        key = base64.b64encode(self.key.encode()).decode() if scheme.basic else self.key
        if scheme.place == "query":
            query.append((scheme.name, key))
        else:
            headers[scheme.name.lower()] = scheme.prefix + key

    def _answered(self, name: str, operation: Operation, request: httpx.Request) -> ToolOutput:
        for _ in range(_MOST_REDIRECTS + 1):
            response = self._http.send(request, stream=True)
            try:
                if not response.is_redirect or response.next_request is None:
                    return _output(name, response, _body(response, self._ends_at))
                there = response.next_request
                within = _same_origin(str(there.url), self.base_url) and self._is_below(there.url.path)
                if operation.method not in {"get", "head"} or not within:
                    raise ToolError(
                        f"{name} was answered with a redirect (HTTP {response.status_code}) to "
                        f"{one_line(escaped(str(there.url.copy_with(query=None))), 200)}, which is not followed. Go another way."
                    )
                request = there
            finally:
                response.close()
        raise ToolError(
            f"{name} was redirected {_MOST_REDIRECTS + 1} times and got no answer. Go another way."
        )


def _same_origin(url: str, base_url: str) -> bool:
    one, other = urlsplit(url), urlsplit(base_url)
    return (one.scheme, one.hostname, _port(one.scheme, one.port)) == (
        other.scheme,
        other.hostname,
        _port(other.scheme, other.port),
    )


def _port(scheme: str, port: int | None) -> int | None:
    return port or {"http": 80, "https": 443}.get(scheme)


def _segment(parameter: Parameter, value: Any) -> str:
    """A value as one part of a path. What would climb in the path, or vanish from it, is another operation."""
    text = _joined(parameter, value)
    if text in {"", ".", ".."}:
        raise ToolError(f"Argument {parameter.argument} cannot be {text!r}. Nothing was sent: correct it.")
    return quote(text, safe="")


def _header(parameter: Parameter, value: Any) -> str:
    text = _joined(parameter, value)
    if not text.isascii() or not text.isprintable():
        raise ToolError(
            f"Argument {parameter.argument} is sent as a header: it must be plain ASCII on one line."
        )
    return text


def _pairs(parameter: Parameter, value: Any) -> list[tuple[str, str]]:
    """A value as what stands in the query."""
    name = parameter.name
    if not parameter.as_json and isinstance(value, dict):
        if parameter.style == "deepObject":
            return [(f"{name}[{key}]", _plain(inner)) for key, inner in value.items()]
        if parameter.explode:
            return [(key, _plain(inner)) for key, inner in value.items()]
    if not parameter.as_json and isinstance(value, list):
        if parameter.explode:
            return [(name, _plain(item)) for item in value]
        return [(name, _SEPARATORS.get(parameter.style, ",").join(map(_plain, value)))]
    return [(name, _joined(parameter, value))]


def _joined(parameter: Parameter, value: Any) -> str:
    if parameter.as_json:
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return ",".join(map(_plain, value))
    if isinstance(value, dict):
        mark = "=" if parameter.explode else ","
        return ",".join(f"{key}{mark}{_plain(inner)}" for key, inner in value.items())
    return _plain(value)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _content(content_type: str, body: Any) -> bytes:
    if content_type == "application/x-www-form-urlencoded":
        named = body.items() if isinstance(body, dict) else ()
        pairs = (
            (name, one) for name, value in named for one in (value if isinstance(value, list) else [value])
        )
        return "&".join(
            f"{quote(str(name), safe='')}={quote(_plain(value), safe='')}" for name, value in pairs
        ).encode()
    if content_type.startswith("text/") and isinstance(body, str):
        return body.encode("utf-8", "replace")
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def _body(response: httpx.Response, ends_at: float) -> tuple[bytes, bool]:
    """What was answered, and whether that is all of it."""
    import httpx

    content = bytearray()
    for piece in response.iter_bytes():
        content += piece
        if len(content) > MOST_BYTES:
            return bytes(content[:MOST_BYTES]), False
    if time.monotonic() >= ends_at:
        # A body without a length ends where the connection is cut.
        raise httpx.ReadTimeout("the answer took too long")
    return bytes(content), True


def _as_utf8(content: bytes, charset: str | None) -> bytes:
    if charset is None or not _CHARSETS.fullmatch(charset):
        return content
    return content.decode(charset, "replace").encode("utf-8", "replace")


def _output(name: str, response: httpx.Response, body: tuple[bytes, bool]) -> ToolOutput:
    content, whole = body
    kind = response.headers.get("content-type", "").partition(";")[0].strip()
    status = f"HTTP {response.status_code}"
    head = " ".join(filter(None, (status, escaped(response.reason_phrase), escaped(kind))))
    text = f"{head}\n{plain_text(_as_utf8(content, response.charset_encoding))}".rstrip()
    if not whole:
        text += f"\n[cut after {size_text(MOST_BYTES)}: ask for less]"
    if response.status_code >= 400:
        return failed(
            f"{text}\n\nThe service refused the call: correct the arguments, or go another way.",
            digest=f"{name}: {status}",
        )
    return ToolOutput(text=text, digest=f"{name}: {status}, {size_text(len(content))}", whole=whole)
