"""A text file taken apart for tools and put together again without losing a byte."""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left
from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import cached_property
from typing import Self

from msgspec import Struct

from chimera.errors import ToolError

MAX_BYTES = 10 * 1024 * 1024
"""Larger files are not read, edited or replaced by file tools."""
_BOM = codecs.BOM_UTF8
_LINE_FEED = re.compile("\n")
_LINE = re.compile("[^\n]*\n|[^\n]+")
_WIDE_BOMS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


class TextFile(Struct, frozen=True, kw_only=True, dict=True):
    """Text as stored and as shown. Bytes that are not UTF-8 are lone surrogates in both and come back as they were.

    In the shown text every line end is a line feed. A lone carriage return is a line end only in a file without
    line feeds.
    """

    stored: str
    """Without the byte order mark."""
    bom: bool = False

    @classmethod
    def parse(cls, content: bytes, name: str) -> Self:
        """The text of a file.

        Raises:
            ToolError: a Unicode encoding other than UTF-8.
        """
        for mark, encoding in _WIDE_BOMS.items():
            if content.startswith(mark):
                raise ToolError(
                    f"{name!r} is {encoding} text, which file tools do not handle. Convert it with a shell command: "
                    f"iconv -f {encoding} -t UTF-8."
                )
        bom = content.startswith(_BOM)
        return cls(stored=content[len(_BOM) * bom :].decode("utf-8", "surrogateescape"), bom=bom)

    def to_bytes(self) -> bytes:
        """The content of the file."""
        return _BOM * self.bom + self.stored.encode("utf-8", "surrogateescape")

    @cached_property
    def carriage_returns_only(self) -> bool:
        """Lines end with a lone carriage return, as on the first Macintosh."""
        return "\r" in self.stored and "\n" not in self.stored

    @cached_property
    def shown(self) -> str:
        """The text with line feeds as line ends."""
        if self.carriage_returns_only:
            return self.stored.replace("\r", "\n")
        return self.stored.replace("\r\n", "\n")

    @cached_property
    def _crlf(self) -> list[int]:
        """Positions in the shown text of the line feeds that have a carriage return before them in the file."""
        return [match.start() - index for index, match in enumerate(re.finditer("\r\n", self.stored))]

    @cached_property
    def _line_feeds(self) -> int:
        return self.shown.count("\n")

    @property
    def dominant_line_end(self) -> str:
        """The line end most lines have; a line feed where there is none."""
        if self.carriage_returns_only:
            return "\r"
        return "\r\n" if len(self._crlf) * 2 > self._line_feeds else "\n"

    def replaced(self, spans: Iterable[tuple[int, int]], new: str) -> Self:
        """The file with each of the ascending `spans` of the shown text replaced by `new`.

        What `new` has in common with a span at either side stays untouched. Line feeds in the rest become the line
        ends of the lines they replace, else of the neighbours.
        """
        if self._crlf:
            new = new.replace("\r\n", "\n")
        pieces: list[str] = []
        done = 0
        for start, end in spans:
            old = self.shown[start:end]
            head = _common_prefix(old, new)
            tail = _common_prefix(old[head:][::-1], new[head:][::-1])
            middle = self._with_line_ends(start + head, end - tail, new[head : len(new) - tail])
            pieces += [self.stored[done : self._position(start + head)], middle]
            done = self._position(end - tail)
        return type(self)(stored="".join(pieces) + self.stored[done:], bom=self.bom)

    def _position(self, shown: int) -> int:
        return shown + bisect_left(self._crlf, shown)

    def _with_line_ends(self, start: int, end: int, new: str) -> str:
        if "\n" not in new or not (self._crlf or self.carriage_returns_only):
            return new
        if len(self._crlf) in {0, self._line_feeds}:
            return new.replace("\n", self.dominant_line_end)
        lines, ends = new.split("\n"), self._line_ends(start, end, new)
        return "".join(line + line_end for line, line_end in zip(lines, [*ends, ""], strict=True))

    def _line_ends(self, start: int, end: int, new: str) -> list[str]:
        """One for each line feed of `new`, in a file that mixes them."""
        old_lines = self.shown[start:end].split("\n")[:-1]
        new_lines = new.split("\n")[:-1]
        old_ends = [self._line_end(match.start()) for match in _LINE_FEED.finditer(self.shown, start, end)]
        ends: list[str] = []
        default = self._neighbouring_line_end(start, end)
        blocks = SequenceMatcher(None, old_lines, new_lines, autojunk=False).get_opcodes()
        for _, old_from, old_to, new_from, new_to in blocks:
            for offset in range(new_to - new_from):
                replaces = old_from + offset < old_to
                ends.append(old_ends[old_from + offset] if replaces else (ends or [default])[-1])
        return ends

    def _line_end(self, line_feed: int) -> str:
        index = bisect_left(self._crlf, line_feed)
        return "\r\n" if index < len(self._crlf) and self._crlf[index] == line_feed else "\n"

    def _neighbouring_line_end(self, start: int, end: int) -> str:
        for line_feed in (self.shown.find("\n", end), self.shown.rfind("\n", 0, start)):
            if line_feed >= 0:
                return self._line_end(line_feed)
        return self.dominant_line_end


def split_lines(shown: str) -> list[str]:
    """The lines of a shown text without their ends; the empty text has none."""
    lines = shown.split("\n")
    return lines if lines[-1] else lines[:-1]


def lines_with_ends(shown: str) -> list[str]:
    """The lines of a shown text, each with its line feed if it has one."""
    return _LINE.findall(shown)


def check_complete(text: str, where: str) -> None:
    """Refuse text that no file can hold.

    Raises:
        ToolError: half of a surrogate pair.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as fault:
        raise ToolError(
            f"{where} holds half of a surrogate pair ({text[fault.start]!r}), which is no character. Nothing was "
            "changed. Send whole characters."
        ) from fault


def _common_prefix(one: str, other: str) -> int:
    limit = min(len(one), len(other))
    if one[:limit] == other[:limit]:
        return limit
    return next(index for index in range(limit) if one[index] != other[index])
