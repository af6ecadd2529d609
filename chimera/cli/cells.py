"""Text measured and cut by the cells it takes on a terminal, and made harmless before it gets there.

Everything that a model, a tool, a file or a provider wrote goes through `escaped` first.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from chimera.workspace.terminal_text import escaped

__all__ = ["ELLIPSIS", "TAB", "Flow", "Pieces", "escaped", "fit", "one_line", "width", "wrap"]

ELLIPSIS = "…"
TAB = "    "
_EMOJI_STYLE = "\ufe0f"
_SELECTORS = ("\ufe0e", _EMOJI_STYLE)
# Where text without blanks may be broken: between ideographs, but not before what closes and not behind what opens.
_CLOSING = frozenset("、。，．・：；！？）］｝〕〉》」』】〙〗ー…,.:;!?)]}%")
_OPENING = frozenset("（［｛〔〈《「『【〘〖([{")


def one_line(text: str) -> str:
    """`text` escaped, on one line, with every run of white space as one space."""
    return " ".join(escaped(text).split())


def width(text: str) -> int:
    """Cells that `text` takes: wide characters (CJK, most emoji) take two, combining ones none."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def fit(text: str, columns: int) -> str:
    """`text` cut to at most `columns` cells, with an ellipsis where something is missing."""
    if width(text) <= columns:
        return text
    if columns < 1:
        return ""
    return _head(text, columns - 1).rstrip() + ELLIPSIS


def wrap(text: str, columns: int) -> list[str]:
    """The lines of `text`, broken at spaces where there are any, each at most `columns` cells wide."""
    lines: list[str] = []
    for paragraph in text.replace("\t", TAB).split("\n"):
        lines += _wrapped(paragraph.rstrip(), max(columns, 2)) or [""]
    return lines


class Pieces:
    """Escapes text that arrives in pieces as if it had come at once: an emoji may be made of several."""

    def __init__(self) -> None:
        self._before = ""
        self._held = ""
        """A sign at the end whose meaning is in what follows."""

    def add(self, text: str) -> str:
        """What can be shown after one more piece."""
        text = self._held + text
        self._held = text[-1] if text.endswith(_SELECTORS) else ""
        return self._escaped(text.removesuffix(self._held))

    def end(self) -> str:
        """The rest; the next piece begins a new text."""
        rest = self._escaped(self._held)
        self._before = self._held = ""
        return rest

    def _escaped(self, text: str) -> str:
        shown = escaped(self._before + text).removeprefix(escaped(self._before))
        self._before = text[-1:] or self._before
        return shown


class Flow:
    """Wraps text that arrives in pieces: a word is passed on once its end is known, an ideograph once the next is there."""

    def __init__(self) -> None:
        self._column = 0
        self._word = ""
        self._blanks = ""

    def add(self, text: str, columns: int) -> str:
        """What can be shown after one more piece."""
        shown = []
        for character in text.replace("\t", TAB):
            if character in "\n ":
                shown.append(self._place(columns))
                if character == "\n":
                    shown.append("\n")
                    self._column, self._blanks = 0, ""
                else:
                    self._blanks += character
            else:
                if self._word and _may_break(self._word[-1], character):
                    shown.append(self._place(columns))
                self._word += character
        return "".join(shown)

    def end(self, columns: int) -> str:
        """The rest; the next piece begins a new line."""
        rest = self._place(columns)
        self._column, self._blanks = 0, ""
        return rest

    def _place(self, columns: int) -> str:
        """The word that ended, behind the blanks before it or on a new line."""
        word, self._word = self._word, ""
        if not word:
            return ""
        needed = len(self._blanks) + width(word)
        if self._column + needed > columns:
            lead, self._column = "\n" if self._column else "", width(word)
        else:
            lead, self._column = self._blanks, self._column + needed
        self._blanks = ""
        if self._column <= columns:
            return lead + word
        *whole, last = _wrapped(word, columns)
        self._column = width(last)
        return lead + "\n".join([*whole, last])


def _wrapped(paragraph: str, columns: int) -> Iterator[str] | list[str]:
    if width(paragraph) <= columns:
        return [paragraph]
    return _broken(paragraph, columns)


def _broken(paragraph: str, columns: int) -> Iterator[str]:
    indent = paragraph[: len(paragraph) - len(paragraph.lstrip())]
    line = indent = indent if len(indent) < columns // 2 else ""
    for gap, piece in _pieces(paragraph):
        blank = gap if line != indent else ""
        if width(line) + width(piece) + len(blank) <= columns:
            line += blank + piece
            continue
        if line != indent:
            yield line
        rest = indent + piece
        while width(rest) > columns:
            head = _head(rest, columns)
            yield head
            rest = indent + rest[len(head) :]
        line = rest
    yield line


def _pieces(paragraph: str) -> Iterator[tuple[str, str]]:
    """What may stand on different lines: the gap before it, and the piece."""
    for word in paragraph.split():
        gap, start = " ", 0
        for place in range(1, 0 if word.isascii() else len(word)):
            if _may_break(word[place - 1], word[place]):
                yield gap, word[start:place]
                gap, start = "", place
        yield gap, word[start:]


def _may_break(before: str, character: str) -> bool:
    if before.isascii() and character.isascii():
        return False
    return (
        (_is_ideograph(before) or _is_ideograph(character))
        and before not in _OPENING
        and character not in _CLOSING
        and _cells(character) > 0
    )


def _is_ideograph(character: str) -> bool:
    """Of a script that is written without blanks; emoji are not, they may be made of several characters."""
    return _cells(character) == 2 and unicodedata.category(character)[0] in "LNP"


def _head(text: str, columns: int) -> str:
    used = 0
    for index, character in enumerate(text):
        used += _cells(character)
        if used > columns:
            return text[:index]
    return text


def _cells(character: str) -> int:
    if character == _EMOJI_STYLE:
        return 1  # what makes a narrow sign before it wide; behind a wide one it is a cell too many, which does no harm
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1
