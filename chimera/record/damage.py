"""What the fields of recorded events must be, and what is said of those that are something else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Any, TypeAlias

Kind: TypeAlias = (
    "type | tuple[type, ...] | re.Pattern[str] | frozenset[str] | list[Kind] | Mapping[str, Kind]"
)
"""Of a value: a type or several, a text of a form, one of some words, a list of a kind, an object with known fields."""

_MAYBE_TEXT = (str, NoneType)
_NUMBER = (int, float)
_MAYBE_NUMBER = (int, float, NoneType)
_MAYBE_WHOLE = (int, NoneType)
_COUNTS: Kind = {"*": int}
_TREE = re.compile(r"[0-9a-f]{40,64}")
_ANNEX = re.compile(r"[0-9a-f]{32}")
_FLOOR: Kind = {"total": int, "system": int, "tools": _COUNTS, "instructions": int}
_USAGE: Kind = {
    "input_tokens": int,
    "output_tokens": int,
    "cached_input_tokens": int,
    "cache_write_tokens": int,
    "reasoning_tokens": int,
    "estimated": bool,
    "cost_usd": _MAYBE_NUMBER,
}
_CALL: Kind = {"id": str, "function": {"name": str, "arguments": str}}
_TASK: Kind = {"title": str, "status": str}
_RESULT: Mapping[str, Kind] = {
    "run_id": _MAYBE_TEXT,
    "stop_reason": str,
    "stop_detail": _MAYBE_TEXT,
    "exit_code": int,
    "answer": _MAYBE_TEXT,
    "steps": _MAYBE_WHOLE,
    "model": _MAYBE_TEXT,
    "usage": (dict, NoneType),
    "context": (dict, NoneType),
    "plan": (list, NoneType),
    "files_changed": (list, NoneType),
    "warnings": [str],
    "run_dir": _MAYBE_TEXT,
    "error": (dict, NoneType),
    "unsaved": bool,
}
_PARTS_OF_RESULT: Mapping[str, Kind] = {
    "usage": _USAGE,
    "context": {
        "window": int,
        "budget": int,
        "trigger": int,
        "floor": _FLOOR,
        "peak_prompt_tokens": int,
        "prompt_tokens_sent": int,
        "compactions": int,
        "history_rewrites": int,
        "calibration": _NUMBER,
    },
    "plan": [_TASK],
    "files_changed": [{"path": str, "added": int, "removed": int}],
    "error": {"type": str, "message": str},
}
_KINDS: Mapping[str, Mapping[str, Kind]] = {
    "run_started": {
        "task": str,
        "system": str,
        "tools": [{"function": {"name": str, "description": str, "parameters": dict}}],
        "model": str,
        "window": int,
        "window_source": str,
        "budget": int,
        "trigger": int,
        "floor": _FLOOR,
        "calibration": _MAYBE_NUMBER,
        "resumed": bool,
        "run_id": str,
        "version": str,
        "workspace": str,
        "start_commit": _MAYBE_TEXT,
        "mode": str,
        "sandbox": {"level": str, "backend": str, "missing": [str]},
        "options": dict,
        "start_tree": _TREE,
        "start_annex": _ANNEX,
        "start_ignored": _ANNEX,
        "omitted": [str],
        "git_entries": [str],
        "git_inodes": [int],
    },
    "prompt": {"step": int, "estimated": int, "calibrated": int, "parts": _COUNTS},
    "completion": {
        "step": int,
        "purpose": _MAYBE_TEXT,
        "message": {"role": str, "content": _MAYBE_TEXT, "tool_calls": [_CALL]},
        "finish_reason": _MAYBE_TEXT,
        "usage": _USAGE,
        "latency_ms": int,
    },
    "tool_started": {"step": int, "id": str, "name": str, "arguments": str},
    "tool_finished": {
        "step": int,
        "id": str,
        "name": str,
        "ok": bool,
        "bytes": int,
        "cut": bool,
        "exit_code": _MAYBE_WHOLE,
        "duration_ms": int,
        "digest": str,
        "facts": [dict],
        "output": str,
        "output_file": str,
    },
    "tool_interrupted": {"step": int, "id": str, "name": str, "bytes": int, "output_file": str},
    "message": {"role": str, "source": str, "content": str},
    "compaction": {
        "step": int,
        "changed": bool,
        "before": int,
        "after": int,
        "parts_before": _COUNTS,
        "parts": _COUNTS,
        "removed_turns": int,
        "masked_turns": int,
        "kept_turns": int,
        "mode": str,
        "tight": bool,
        "archive": _MAYBE_TEXT,
        "put_back": str,
        "restored": [{"path": str, "sha256": _MAYBE_TEXT}],
        "failure": _MAYBE_TEXT,
    },
    "plan": {"step": int, "text": str, "tasks": [_TASK]},
    "checkpoint": {
        "step": int,
        "by": frozenset({"start", "run", "user", "unknown", "undo", "redo"}),
        "phase": frozenset({"begin", "end"}),
        "tree": _TREE,
        "annex": _ANNEX,
        "ignored": _ANNEX,
        "omitted": [str],
        "joined": [str],
        "after_tree": _TREE,
        "after_annex": _ANNEX,
    },
    "warning": {"text": str, "notice": bool},
    "run_finished": _RESULT,
}
_ALWAYS: Mapping[str, Kind] = {"seq": int, "time": str}
_MAY_BE_NULL = frozenset({"start_tree", "start_annex", "start_ignored", "ignored"})
_MOST_NUMBER = 2**63
"""Nothing that a run counts or measures is larger, and reports could not be written with it."""
_SHOWN = 40
_MOST = 3


def whole_fields(event: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The event without the fields that are not what they must be, and what is wrong with each of those."""
    faults: list[str] = []
    kinds = {**_ALWAYS, **_KINDS.get(event["type"], {})}
    found = _object({**kinds, "type": str}, event, "", faults)
    if event["type"] == "run_finished":
        parts = {name: found[name] for name in _PARTS_OF_RESULT if found.get(name) is not None}
        found |= _object(_PARTS_OF_RESULT, parts, "", faults)
    return found, [f"{fault} (in {event['type']})" for fault in faults]


def damage_text(path: Path, damage: tuple[str, ...]) -> str:
    """What is wrong with a record and what can still be done with it, to follow what it made impossible.

    Args:
        path: of the file.
        damage: as `read_record` tells it.
    """
    if not damage:
        return ""
    more = f"; and {len(damage) - _MOST} more" if len(damage) > _MOST else ""
    return (
        f"The record {str(path)!r} is damaged: {'; '.join(damage[:_MOST])}{more}. `chimera show {path.parent.name}` shows what "
        "can still be read. To have the rest, put these lines right by hand or bring the file back from a copy."
    )


def _object(
    kinds: Mapping[str, Kind], value: Mapping[str, Any], above: str, faults: list[str]
) -> dict[str, Any]:
    found = {}
    for name, item in value.items():
        kind = kinds.get(name, kinds.get("*"))
        if kind is None or (item is None and name in _MAY_BE_NULL):
            found[name] = item
        elif (good := _value(kind, item, f"{above}{name}", faults)) is not _BAD:
            found[name] = good
    return found


_BAD = object()


def _value(kind: Kind, value: Any, name: str, faults: list[str]) -> Any:
    """The value with what is wrong in it taken out; `_BAD` if it is wrong as a whole."""
    match kind:
        case Mapping() if isinstance(value, dict):
            return _object(kind, value, f"{name}.", faults)
        case list() if isinstance(value, list):
            (inner,) = kind
            items = [_value(inner, item, f"{name}[{n}]", faults) for n, item in enumerate(value)]
            return [item for item in items if item is not _BAD]
        case re.Pattern() if isinstance(value, str) and kind.fullmatch(value):
            return value
        case frozenset() if isinstance(value, str) and value in kind:
            return value
        case type() | tuple() if _is_of(value, kind):
            return value
        case _:
            shown = repr(value)
            shown = shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + "…"
            usual = "of a usual size" if _is_huge(value) else _said(kind)
            faults.append(f"{name} is {shown}, not {usual}")
            return _BAD


def _is_of(value: Any, kind: type | tuple[type, ...]) -> bool:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds):
        return False
    # To Python true and false are whole numbers.
    if isinstance(value, bool):
        return bool in kinds
    return not _is_huge(value)


def _is_huge(value: Any) -> bool:
    return isinstance(value, int | float) and not -_MOST_NUMBER < value < _MOST_NUMBER


def _said(kind: Kind) -> str:
    match kind:
        case Mapping():
            return "an object"
        case list():
            return "a list"
        case re.Pattern():
            return "the id of a snapshot"
        case frozenset():
            return f"one of {', '.join(sorted(kind))}"
        case tuple():
            return " or ".join(_said(one) for one in kind if one is not int or float not in kind)
        case type():
            return {
                str: "a text",
                int: "a whole number",
                float: "a number",
                bool: "true or false",
                dict: "an object",
                list: "a list",
                NoneType: "null",
            }[kind]
