"""What the strictest of the known providers would refuse, judged on the wire form and not on our types."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def violations(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Every rule that the messages of a request break; empty for a legal request."""
    found: list[str] = []
    if [message["role"] for message in messages[:2]] != ["system", "user"]:
        found.append("does not begin with a system and a user message")
    pending: list[str] = []
    previous = ""
    for place, message in enumerate(messages):
        role = message["role"]
        if role == "tool":
            if not pending or message["tool_call_id"] != pending.pop(0):
                found.append(f"{place}: a result without its call, or out of order")
        elif pending:
            found.append(f"{place}: calls without results before it")
        if role == previous and role != "tool":
            found.append(f"{place}: two {role} messages in a row")
        if role == "assistant":
            pending = [call["id"] for call in message.get("tool_calls", [])]
        found += [f"{place}: {fault}" for fault in _faults(message, place)]
        previous = role
    if pending or previous not in {"user", "tool"}:
        found.append("does not end with a user message or all results")
    return found + _text_faults(messages)


def _faults(message: Mapping[str, Any], place: int) -> list[str]:
    if message["role"] == "assistant":
        return _assistant_faults(message)
    found = [] if str(message["content"] or "").strip() else ["an empty message"]
    return [*found, "a second system message"] if message["role"] == "system" and place else found


def _assistant_faults(message: Mapping[str, Any]) -> list[str]:
    calls = message.get("tool_calls", [])
    found = []
    if message["content"] is None and not calls:
        found.append("neither text nor calls")
    if message["content"] is not None and not message["content"].strip():
        found.append("blank text")
    if len({call["id"] for call in calls}) < len(calls) or not all(call["id"] for call in calls):
        found.append("an id that is empty or there twice")
    for call in calls:
        if not _NAME.fullmatch(call["function"]["name"]):
            found.append(f"{call['function']['name']!r} is no legal name")
        if not _is_object(call["function"]["arguments"]):
            found.append("arguments that are no JSON object")
    return found


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _text_faults(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    try:
        json.dumps(messages, ensure_ascii=False).encode()
    except UnicodeEncodeError as fault:
        return [f"text that is no UTF-8: {fault}"]
    return []
