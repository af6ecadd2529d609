"""Where in a file the text of an edit is: exactly, with whitespace ignored, or only nearly."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from chimera.tools.wording import numbered, one_line

_INDENT = re.compile(r"[ \t]*")
_NUMBERED_LINE = re.compile(r"\s*\d+\t")
_ALIGNED_PRODUCT = 1_000_000
_FUZZY_LINES = 5000
_NEAR_LINES = 10
_NEAR_PLACES = 2


class Match(Struct, frozen=True, kw_only=True):
    """A span of the text and what to put there."""

    start: int
    end: int
    new: str
    remark: str
    """How it was found, for the model."""


class NoMatch(Struct, frozen=True, kw_only=True):
    """Why the whitespace-tolerant search gave nothing; empty if it simply found nothing."""

    reason: str = ""


def exact_spans(text: str, old: str, *, limit: int | None = None) -> list[tuple[int, int]]:
    """Where `old` is, ascending and without overlaps; with a limit also overlapping ones, at most so many."""
    spans: list[tuple[int, int]] = []
    start = text.find(old)
    while start >= 0 and (limit is None or len(spans) < limit):
        spans.append((start, start + len(old)))
        start = text.find(old, start + (len(old) if limit is None else 1))
    return spans


def line_numbers(text: str, positions: Sequence[int]) -> list[int]:
    """The line of each position, counted from 1."""
    line_feeds = [match.start() for match in re.finditer("\n", text)] if positions else []
    return [bisect_right(line_feeds, position - 1) + 1 for position in positions]


def tolerant_match(text: str, old: str, new: str) -> Match | NoMatch:
    """The one place that is `old` when whitespace is ignored, whole lines only.

    Lines that `old` and `new` share keep the whitespace of the file; the others are indented as the file is.
    """
    lines, old_lines = text.split("\n"), _lines(old)
    wanted = [_squashed(line) for line in old_lines]
    if not any(wanted):
        return NoMatch()
    squashed = [_squashed(line) for line in lines]
    starts = [n for n in range(len(lines) - len(wanted) + 1) if squashed[n : n + len(wanted)] == wanted]
    if not starts:
        return NoMatch()
    if len(starts) > 1:
        places = ", ".join(str(n + 1) for n in starts[:_NEAR_LINES])
        return NoMatch(reason=f"With whitespace ignored it is at several places (lines {places}).")
    first = starts[0]
    there = lines[first : first + len(wanted)]
    merged = _merged(there, old_lines, _lines(new) if old.endswith("\n") else new.split("\n"))
    where = f"line {first + 1}" if len(there) == 1 else f"lines {first + 1}-{first + len(there)}"
    tabs = _tabs_remark(there, old_lines)
    if merged is None:
        return NoMatch(
            reason=f"With whitespace ignored it is at {where}, but how to indent `new` there is unclear.{tabs}"
        )
    start = sum(len(line) + 1 for line in lines[:first])
    end = start + sum(len(line) + 1 for line in there) - 1
    replacement = "\n".join(merged)
    if old.endswith("\n") and end < len(text):
        end += 1
        replacement += "\n" if merged else ""
    return Match(
        start=start,
        end=end,
        new=replacement,
        remark=f"`old` was not found exactly; {where} matched with whitespace ignored.{tabs}",
    )


def near_misses(text: str, old: str) -> str:
    """The places that resemble `old` most, with line numbers, and what differs; empty if nothing does."""
    lines, old_lines = text.split("\n"), _lines(old)
    starts = _similar_starts(lines, old_lines)
    parts = []
    for start in starts:
        there = lines[start : start + len(old_lines)]
        shown = numbered(there[:_NEAR_LINES], start + 1)
        difference = next(
            (n for n, pair in enumerate(zip(there, old_lines, strict=False)) if pair[0] != pair[1]), None
        )
        parts.append("\n".join(shown) + ("\n..." if len(there) > _NEAR_LINES else ""))
        if difference is not None:
            parts.append(
                f"Line {start + difference + 1} is {_quoted(there[difference])}, `old` has "
                f"{_quoted(old_lines[difference])}."
            )
    return "\n".join(parts)


def has_line_numbers(old: str) -> bool:
    """Whether every line begins with a number and a tab, as `read_file` shows them."""
    return all(_NUMBERED_LINE.match(line) for line in _lines(old))


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def _squashed(line: str) -> str:
    return " ".join(line.split())


def _quoted(line: str) -> str:
    return ascii(one_line(line, 100) if len(line) > 100 else line)


def _merged(there: list[str], old: list[str], new: list[str]) -> list[str] | None:
    """`new` with the lines of the file where it repeats `old`; None if its indentation cannot be carried over."""
    indent = _indentation(there, old)
    if len(old) * len(new) > _ALIGNED_PRODUCT:
        blocks = [("replace", 0, len(old), 0, len(new))]
    else:
        blocks = list(difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes())
    merged: list[str] = []
    for kind, old_from, old_to, new_from, new_to in blocks:
        if kind == "equal":
            merged += there[old_from:old_to]
            continue
        for line in new[new_from:new_to]:
            before = _indent(line)
            after = indent(before) if line.strip() else before
            if after is None:
                return None
            merged.append(after + line[len(before) :])
    return merged


def _indent(line: str) -> str:
    match = _INDENT.match(line)
    return match.group() if match else ""


def _indentation(there: list[str], old: list[str]) -> Callable[[str], str | None]:
    """How an indent of `old` is written in the file, learned from the lines that match."""
    pairs = {(_indent(o), _indent(t)) for o, t in zip(old, there, strict=True) if o.strip()}
    known: Mapping[str, str] = dict(pairs)
    if len(known) < len(pairs):
        return lambda _: None
    if all(before == after for before, after in pairs):
        return lambda before: before
    deepest = max(known, key=len)
    added, taken = known[deepest].removesuffix(deepest), deepest.removesuffix(known[deepest])
    if all(after == added + before for before, after in pairs):
        return lambda before: added + before
    if all(before == taken + after for before, after in pairs):
        return lambda before: before.removeprefix(taken) if before.startswith(taken) else None
    if width := _tab_width(pairs):
        return lambda before: known.get(
            before, None if len(before) % width else "\t" * (len(before) // width)
        )
    return known.get


def _tab_width(pairs: set[tuple[str, str]]) -> int:
    """How many spaces of `old` stand for one tab of the file; 0 if that does not explain all lines."""
    widths = {
        len(before) / len(after) if after and set(before) == {" "} and set(after) == {"\t"} else 0.0
        for before, after in pairs
        if before or after
    }
    width = widths.pop() if len(widths) == 1 else 0.0
    return int(width) if width.is_integer() else 0


def _tabs_remark(there: list[str], old: list[str]) -> str:
    in_file, in_old = ("\t" in "".join(map(_indent, lines)) for lines in (there, old))
    if in_file == in_old:
        return ""
    return f" The file has {'tabs' if in_file else 'spaces'} here where `old` has {'spaces' if in_file else 'tabs'}."


def _similar_starts(lines: list[str], old_lines: list[str]) -> list[int]:
    offsets: dict[str, list[int]] = {}
    for offset, line in enumerate(old_lines):
        if key := _squashed(line):
            offsets.setdefault(key, []).append(offset)
    votes = Counter(
        index - offset
        for index, line in enumerate(lines)
        for offset in offsets.get(_squashed(line), ())[:_NEAR_LINES]
        if index >= offset
    )
    if votes:
        best = max(votes.values())
        return sorted(start for start, count in votes.most_common(_NEAR_PLACES) if count == best)
    longest = max(range(len(old_lines)), key=lambda n: len(old_lines[n].strip()), default=0)
    target = old_lines[longest].strip()[:200] if old_lines else ""
    stripped = [line.strip()[:200] for line in lines[:_FUZZY_LINES]]
    close = difflib.get_close_matches(target, stripped, n=1) if target else []
    return [max(0, stripped.index(close[0]) - longest)] if close else []
