"""Judgements on text that should be JSON."""

from __future__ import annotations

import json
from typing import Any


def parsed(text: str | bytes) -> Any:
    """The value of a JSON text from elsewhere.

    Raises:
        ValueError: it is none, or one that is nested deeper than can be followed.
    """
    try:
        return json.loads(text)
    except RecursionError as fault:
        raise ValueError("nested too deeply") from fault


def is_object(text: str) -> bool:
    """Whether a text is a JSON object."""
    try:
        return isinstance(json.loads(text, parse_constant=_refuse), dict)
    except (ValueError, RecursionError):
        return False


def ends_in_the_middle(text: str) -> bool:
    """Whether a text is JSON as far as it goes, and only its end is missing."""
    try:
        json.loads(text)
    except json.JSONDecodeError as fault:
        at_end = fault.pos >= len(text.rstrip()) or fault.msg.startswith("Unterminated string")
        return bool(text.strip()) and at_end
    except (ValueError, RecursionError):
        return False
    return False


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
