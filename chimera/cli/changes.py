"""What a call of an editing tool changes, as lines of a diff, from its arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, TypeAlias

from chimera.cli.terminal import Style

Sign = Literal["+", "-", " ", "@"]
"""Added, removed, around it, and a remark of ours."""
ChangedLine: TypeAlias = tuple[Sign, str]
STYLES: Mapping[str, Style] = {"+": "green", "-": "red", "@": "cyan"}
"""By the first character of a line of a diff."""

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
        return [("+", line) for line in _lines(values.get("content"))]
    edits = values.get("edits")
    return list(_edited(edits)) if isinstance(edits, list) else []


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
    if len(old) + len(new) > _MOST_COMPARED_LINES:
        yield from (("-", line) for line in old)
        yield from (("+", line) for line in new)
        return
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for place, group in enumerate(matcher.get_grouped_opcodes(_CONTEXT_LINES)):
        if place:
            yield "@", "..."
        for kind, first, last, new_first, new_last in group:
            if kind == "equal":
                yield from ((" ", line) for line in old[first:last])
                continue
            yield from (("-", line) for line in old[first:last])
            yield from (("+", line) for line in new[new_first:new_last])


def _lines(text: object) -> list[str]:
    if not isinstance(text, str) or not text:
        return []
    return text.removesuffix("\n").split("\n")
