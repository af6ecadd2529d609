"""What a call of an editing tool changes, as lines of a diff, from its arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, TypeAlias

from chimera.cli.terminal import Style

Sign = Literal["+", "-", " ", "@"]
"""Added, removed, around it, and a remark of ours."""
ChangedLine: TypeAlias = tuple[Sign, str]
STYLES: Mapping[str, Style] = {"+": "green", "-": "red", "@": "cyan"}
"""By the first character of a line of a diff."""

_NO_END = "no newline at the end"
_CONTEXT_LINES = 2
# Above it nothing is lined up: that takes quadratic time, and nobody reads it.
_MOST_COMPARED_LINES = 2_000


def changed_lines(name: str, arguments: str | Mapping[str, Any]) -> list[ChangedLine]:
    """The change that a call asks for; empty for other tools, and for arguments that make no sense.

    Args:
        name: of the tool.
        arguments: as a mapping, or as JSON text as the model wrote it.
    """
    if name not in {"edit_file", "write_file"}:
        return []
    try:
        values = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return []
    if not isinstance(values, Mapping):
        return []
    if name == "write_file":
        return list(_compared([], _lines(values.get("content"))))
    edits = values.get("edits")
    return list(_edited(edits)) if isinstance(edits, list) else []


def patch_lines(patch: str) -> list[str]:
    """The lines of a patch. Only a line feed ends one: other line ends are part of what was changed."""
    return [line.removesuffix("\n") for line in _lines(patch)]


def _edited(edits: Sequence[Any]) -> Iterator[ChangedLine]:
    for number, edit in enumerate(edits, 1):
        if not isinstance(edit, Mapping):
            continue
        remarks = [f"edit {number} of {len(edits)}"] if len(edits) > 1 else []
        remarks += ["wherever it occurs"] if edit.get("all") else []
        if remarks:
            yield "@", ", ".join(remarks)
        yield from _compared(_lines(edit.get("old")), _lines(edit.get("new")))


def _compared(old: list[str], new: list[str]) -> Iterator[ChangedLine]:
    """The difference of lines with their ends; that a last one has none is told where it makes one."""
    same_end = not (old and new) or _has_end(old[-1]) == _has_end(new[-1])
    told = not same_end or not old
    if len(old) + len(new) > _MOST_COMPARED_LINES:
        yield from _signed("-", old, told=told)
        yield from _signed("+", new, told=told)
        return
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for place, group in enumerate(matcher.get_grouped_opcodes(_CONTEXT_LINES)):
        if place:
            yield "@", "..."
        for kind, first, last, new_first, new_last in group:
            if kind == "equal":
                yield from _signed(" ", old[first:last], told=False)
                continue
            yield from _signed("-", old[first:last], told=told)
            yield from _signed("+", new[new_first:new_last], told=told)


def _signed(sign: Sign, lines: Sequence[str], *, told: bool) -> Iterator[ChangedLine]:
    for line in lines:
        yield sign, line.removesuffix("\n")
        if told and not _has_end(line):
            yield "@", _NO_END


def _has_end(line: str) -> bool:
    return line.endswith("\n")


def _lines(text: object) -> list[str]:
    """With their ends; only a line feed ends one."""
    return [line for line in re.split(r"(?<=\n)", text) if line] if isinstance(text, str) else []
