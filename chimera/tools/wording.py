"""How results spell sizes, counts, long lines and numbered lines."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from chimera.workspace.terminal_text import visible

LONG_LINE = 2000
"""Characters of a line from which on it is shortened."""
_KEPT_OF_LONG_LINE = 1000
_FOLDED_LINES = 20
"""Lines in a row that must be the same before they are shown once with their number."""


def size_text(size: int) -> str:
    """A size in bytes for people: `812 bytes`, `14.1 KB`, `3.2 MB`."""
    if size < 1000:
        return count_text(size, "byte")
    return f"{size / 1000:,.1f} KB" if size < 1_000_000 else f"{size / 1_000_000:,.1f} MB"


def count_text(number: int, noun: str, plural: str = "") -> str:
    """`1 line`, `2 lines`, `1,000 matches`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def one_line(text: str, limit: int) -> str:
    """`text` on one line of at most `limit` characters."""
    flat = visible(" ".join(text.split()))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def shown_line(line: str) -> str:
    """A line of a file as the model sees it: control characters visible, very long ones shortened."""
    if len(line) > LONG_LINE:
        line = f"{line[:_KEPT_OF_LONG_LINE]} [... {len(line) - _KEPT_OF_LONG_LINE:,} more characters]"
    return visible(line)


def numbered(lines: Iterable[str], first: int) -> list[str]:
    """Each line with its number and a tab before it."""
    return [f"{number}\t{shown_line(line)}" for number, line in enumerate(lines, first)]


def folded(text: str) -> str:
    """Output with long runs of one and the same line shown once, with their number."""
    shown: list[str] = []
    for line, run in itertools.groupby(text.split("\n")):
        count = sum(1 for _ in run)
        if count < _FOLDED_LINES:
            shown += [line] * count
        else:
            shown += [line, f"[the same line {count - 1:,} more times]"]
    return "\n".join(shown)
