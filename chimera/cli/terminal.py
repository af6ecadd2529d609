"""The one writer of standard error: plain lines on a pipe; on a terminal cut, wrapped, and in colour where that works."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, TextIO, TypeAlias

from chimera.cli.cells import TAB, Flow, Pieces, escaped, fit, width, wrap

Style = Literal["bold", "dim", "red", "green", "yellow", "cyan"]
Span: TypeAlias = str | tuple[str, Style]
"""A piece of a line, with or without a style."""

_SGR: dict[Style, str] = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
# For streams that cannot encode ours; one cell for one cell.
_ASCII = str.maketrans(
    {"·": "-", "…": "~", "→": ">", "✓": "+", "✗": "x", "█": "#", "░": ".", "┊": ":", "↺": "*"}
)
_USUAL_COLUMNS = 80
_ECHO_CELLS = 2
"""Of the ^C that a terminal writes behind whatever stands in the line."""


class Terminal:
    """Writes lines to a stream. A stream that can no longer be written is silently given up: the run goes on.

    Whatever it is given, but for `raw`, is escaped here: no text steers the terminal, wherever it comes from.

    Args:
        stream: usually standard error.
        environment: for NO_COLOR and TERM.
    """

    def __init__(self, stream: TextIO, environment: Mapping[str, str]) -> None:
        self._stream = stream
        dumb = environment.get("TERM", "") in {"dumb", "unknown"}
        self.live = stream.isatty() and not dumb
        """A terminal whose current line can be rewritten."""
        self.coloured = self.live and not environment.get("NO_COLOR")
        self.lock = threading.RLock()
        """Held while something is written; by who looks and then writes, for both."""
        self._encoding = None if _can_encode(stream, "".join(map(chr, _ASCII))) else stream.encoding
        """Of a stream without our characters; what else it lacks is escaped before it is measured."""
        self._transient = 0
        self._gone = False
        self._pieces = Pieces()
        self._flow = Flow()
        self._flowing = False
        self._asking = False

    @property
    def columns(self) -> int | None:
        """Cells of a line, the last one left free; None on a pipe, where lines are as long as they are."""
        if not self._stream.isatty():
            return None
        try:
            columns = os.get_terminal_size(self._stream.fileno()).columns
        except (OSError, ValueError):
            columns = 0
        return (columns or _USUAL_COLUMNS) - 1

    @property
    def asking(self) -> bool:
        """A question of ours waits for its answer."""
        return self._asking

    def line(self, *spans: Span) -> None:
        """One line, cut to the width of the terminal."""
        self._write(self._styled(spans, self.columns) + "\n")

    def block(
        self, text: str, *, indent: str = "", hang: str | None = None, style: Style | None = None
    ) -> None:
        """Text of any length, wrapped to the width of the terminal; the first line after `indent`, others after `hang`."""
        hang = indent if hang is None else hang
        columns, text = self.columns, self._safe(text)
        lines = text.split("\n") if columns is None else wrap(text, columns - max(width(indent), width(hang)))
        for number, line in enumerate(lines):
            whole = (hang if number else indent) + line
            self._write((self._painted(whole, style) if style else whole).rstrip() + "\n")

    def transient(self, text: str) -> None:
        """Text that stands in the current line until the next output. Nothing on a pipe, or behind a question."""
        with self.lock:
            if not self.live or self._asking or self._flowing:
                return
            shown = fit(self._safe(text), (self.columns or _USUAL_COLUMNS) - _ECHO_CELLS)
            before, self._transient = self._transient, 0
            over = " " * (before - width(shown))
            self._write(("\r" if before else "") + self._painted(shown, "dim") + over)
            self._transient = max(before, width(shown))

    def flow(self, text: str) -> None:
        """Text that arrives in pieces, wrapped like `block`; `end_flow` ends it."""
        with self.lock:
            shown = self._encodable(self._pieces.add(text))
            self._write(self._flow.add(shown, self.columns or _USUAL_COLUMNS))
            self._flowing = True

    def end_flow(self) -> None:
        """The end of a flow, with its line end. Nothing where there is none."""
        with self.lock:
            if self._flowing:
                self._flowing = False
                columns = self.columns or _USUAL_COLUMNS
                rest = self._flow.add(self._encodable(self._pieces.end()), columns)
                self._write(rest + self._flow.end(columns) + "\n")

    @contextmanager
    def question(self, text: str) -> Iterator[None]:
        """A question of our own at the beginning of a line; for the duration of the block nothing is written behind it.

        A Ctrl-C instead of an answer ends its line.
        """
        with self.lock:
            self._write(text)
            self._asking = True
        try:
            yield
        except KeyboardInterrupt:
            self._write("\n")
            raise
        finally:
            self._asking = False

    def long_line(self, text: str, style: Style | None = None) -> None:
        """One line of any length, for the terminal to wrap: where a break of ours would change what it says."""
        text = self._safe(text)
        self._write((self._painted(text, style) if style else text) + "\n")

    def raw(self, text: str) -> None:
        """Text of our own as it is, without a line end."""
        self._write(text)

    def _styled(self, spans: tuple[Span, ...], columns: int | None) -> str:
        parts = []
        for span in spans:
            text, style = (span, None) if isinstance(span, str) else span
            text = self._safe(text)
            if columns is not None:
                text = fit(text.replace("\t", TAB), columns)
                columns -= width(text)
            parts.append(self._painted(text, style) if style else text)
        return "".join(parts).rstrip()

    def _safe(self, text: str) -> str:
        return self._encodable(escaped(text))

    def _encodable(self, text: str) -> str:
        if self._encoding is None:
            return text
        return text.translate(_ASCII).encode(self._encoding, "backslashreplace").decode(self._encoding)

    def _painted(self, text: str, style: Style) -> str:
        return f"\x1b[{_SGR[style]}m{text}\x1b[0m" if self.coloured and text else text

    def _write(self, text: str) -> None:
        with self.lock:
            self._write_now(text)

    def _write_now(self, text: str) -> None:
        if self._gone or not text:
            return
        if self._transient:
            # Blanks instead of an erase sequence: they work without colours, too.
            text = "\r" + " " * (self._transient + _ECHO_CELLS) + "\r" + text
            self._transient = 0
        try:
            self._stream.write(text.translate(_ASCII) if self._encoding else text)
            self._stream.flush()
        except (OSError, ValueError):
            self._gone = True


def _can_encode(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
