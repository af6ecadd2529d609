"""Tool calls and tool results that a model wrote into its text, where nothing can run them.

Recognised by the markup that models are trained on, whatever server failed to parse it. What stands in a code fence
or between backticks is an example and never recognised. Nothing here runs or parses a call: the model is asked again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any, Literal

Written = Literal["call", "result"]

_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_INLINE = re.compile(r"(?<!`)(`{1,2})(?!`)[^`\n]+\1(?!`)")

# The bars of DeepSeek's tokens are U+FF5C and their gaps U+2581; prefixes such as `minimax:` or `|DSML|` vary.
_BAR, _GAP = "[|\uff5c]", "[_\u2581 ]"
_PREFIX = "(?:[\\w|\uff5c]{1,20}:?)?"
_CALLS = re.compile(
    "|".join(
        (
            rf"<{_PREFIX}tool_call>\s*(?:[\[{{<]|[\w.-]{{1,64}}\s*<arg_key>)",
            rf"<{_PREFIX}invoke\s+name\s*=",
            r"<function=[\w.-]{1,64}>",
            r"\[TOOL_CALLS\]\s*[\w\[{]",
            rf"<{_BAR}tool{_GAP}calls?(?:{_GAP}section)?(?:{_GAP}begin)?{_BAR}>",
            r"<\|python_tag\|>",
            r"<\|channel\|>\w+ to=functions\.",
            r"^Action:[ \t]*\S.*\n+Action Input:",
        )
    ),
    re.MULTILINE,
)
_RESULTS = re.compile(
    rf"<{_PREFIX}(?:tool_response|tool_result|tool_output|function_results?)>"
    rf"|<{_BAR}tool{_GAP}(?:response|outputs?|results?)(?:{_GAP}begin)?{_BAR}>"
    r"|\[TOOL_RESULTS\]"
    r"|^Action:[ \t]*\S.*\n(?:.*\n){0,40}?Observation:",
    re.MULTILINE,
)
_ARGUMENT_KEYS = ("arguments", "parameters", "input")


def written_call(text: str, names: Collection[str]) -> Written | None:
    """What a reply without real calls pretends to do; None where it is an ordinary answer.

    Args:
        text: of the reply.
        names: of the tools that are offered.
    """
    plain = _without_code(text)
    if _RESULTS.search(plain):
        return "result"
    if _CALLS.search(plain) or _is_call(_json(text), names) or _names_a_tag(plain, names):
        return "call"
    return None


def _without_code(text: str) -> str:
    """The text without fenced blocks and inline code. A fence that is never closed goes to the end."""
    kept: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            closes = mark and mark[1].startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if closes else fence
        elif mark:
            fence = mark[1]
        else:
            kept.append(_INLINE.sub("", line))
    return "\n".join(kept)


def _json(text: str) -> Any:
    text = text.strip()
    if not text.startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_call(value: Any, names: Collection[str]) -> bool:
    """Whether a whole reply is the JSON of calls, as it would stand inside the markup."""
    if isinstance(value, list):
        return bool(value) and all(_is_call(item, names) for item in value)
    if not isinstance(value, dict):
        return False
    function = value.get("function")
    inner = function if isinstance(function, dict) else value
    name = inner.get("name")
    return isinstance(name, str) and name in names and any(key in inner for key in _ARGUMENT_KEYS)


def _names_a_tag(text: str, names: Collection[str]) -> bool:
    """Whether a tool's own name is a tag with its arguments as tags inside."""
    return any(f"</{name}>" in text and re.search(rf"<{re.escape(name)}>\s*<\w+>", text) for name in names)
