"""Server-sent events from bytes, however these were split: over lines, over characters, over line endings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

_LINE_END = re.compile(rb"\r\n|\n|\r")
_FIELD = re.compile(rb"(?:data|event|id|retry)?:")
_ENOUGH_BYTES = 8
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class ServerEvent(Struct, frozen=True, kw_only=True):
    """One event. Comments, which keep a connection alive, are none."""

    name: str = ""
    """As in its `event` field; empty for the ordinary kind."""
    data: str


def beginning(pieces: Iterator[bytes]) -> bytes:
    """The first bytes of a body, as many as `is_stream` needs."""
    start = b""
    for piece in pieces:
        start += piece
        if len(start.removeprefix(_BYTE_ORDER_MARK).lstrip()) >= _ENOUGH_BYTES:
            break
    return start


def is_stream(start: bytes, content_type: str) -> bool:
    """Whether a body is a stream of events, whatever it is said to be. Servers and what is before them err both ways.

    Args:
        start: its beginning.
        content_type: what it is said to be.
    """
    text = start.removeprefix(_BYTE_ORDER_MARK).lstrip()
    if "json" in content_type or "html" in content_type:
        return _FIELD.match(text) is not None
    return text[:1] not in {b"{", b"[", b"<"}


def server_events(pieces: Iterable[bytes]) -> Iterator[ServerEvent]:
    """The events of a stream, each as soon as it is whole; the last one even where the stream ends without a blank line.

    Bytes that are no UTF-8 become the replacement character: some servers cut a character in two.
    """
    name, data = "", list[bytes]()
    for line in _lines(pieces):
        if not line:
            if data:
                yield _event(name, data)
            name, data = "", []
            continue
        key, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if key == b"data":
            data.append(value)
        elif key == b"event":
            name = value.decode("utf-8", "replace")
    if data:
        yield _event(name, data)


def _event(name: str, data: list[bytes]) -> ServerEvent:
    return ServerEvent(name=name, data=b"\n".join(data).decode("utf-8", "replace"))


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    # What came of the line under way. Each piece is looked through once: a line of megabytes comes in thousands of them.
    parts, at_start = list[bytes](), True
    for piece in pieces:
        if at_start or parts[-1:] == [b"\r"]:
            piece = (b"".join(parts) if at_start else parts.pop()) + piece  # noqa: PLW2901
            parts = [] if at_start else parts
        if at_start and len(piece) >= len(_BYTE_ORDER_MARK):
            piece, at_start = piece.removeprefix(_BYTE_ORDER_MARK), False  # noqa: PLW2901
        # A carriage return at the end may be half of a line ending.
        held = [b"\r"] if piece.endswith(b"\r") else []
        first, *others = _LINE_END.split(piece[:-1] if held else piece)
        parts.append(first)
        for line in others:
            yield b"".join(parts)
            parts = [line]
        parts += held
    yield from _LINE_END.split(b"".join(parts))
