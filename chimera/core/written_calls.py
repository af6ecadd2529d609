"""Tool calls and tool results that a model wrote into its text, where nothing can run them.

Recognised by the markup that models are trained on, whatever server failed to parse it. What stands in a code fence
or between backticks is an example and never recognised, unless it is a call of a tool and the fence is the whole text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any, Literal

Written = Literal["call", "result"]

# Compiled when first needed, which is after the first reply.
_FENCE = r"\s*(`{3,}|~{3,})"
_INLINE = r"(?<!`)(`{1,2})(?!`)[^`\n]+\1(?!`)"

# The bars of DeepSeek's tokens are U+FF5C and their gaps U+2581; prefixes such as `minimax:` or `|DSML|` vary.
_BAR, _GAP = "[|\uff5c]", "[_\u2581 ]"
_PREFIX = "(?:[\\w|\uff5c]{1,20}:?)?"
_CALLS = "(?m:{})".format(
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
    )
)
_RESULTS = (
    rf"(?m)<{_PREFIX}(?:tool_response|tool_result|tool_output|function_results?)>"
    rf"|<{_BAR}tool{_GAP}(?:response|outputs?|results?)(?:{_GAP}begin)?{_BAR}>"
    r"|\[TOOL_RESULTS\]"
    r"|^Action:[ \t]*\S.*\n(?:.*\n){0,40}?Observation:"
)
_WRAPPED = rf"(?s)```(?:json|tool_call|tool_code)?\s*\n(.*?)\n?```|<{_PREFIX}tool_call>(.*?)</{_PREFIX}tool_call>|\[TOOL_CALLS\](.*)"
_ARGUMENT_KEYS = ("arguments", "parameters", "input")


def written_call(text: str, names: Collection[str]) -> Written | None:
    """What a reply without real calls pretends to do; None where it is an ordinary answer.

    Args:
        text: of the reply.
        names: of the tools that are offered.
    """
    plain = _without_code(text)
    if re.search(_RESULTS, plain):
        return "result"
    if re.search(_CALLS, plain) or _is_call(_json(_bare(text)), names) or _names_a_tag(plain, names):
        return "call"
    return None


def sole_call(text: str, names: Collection[str]) -> tuple[str, str] | None:
    """Name and arguments (JSON text) of a call of an offered tool, where a text is that and nothing else."""
    value = _json(_bare(text))
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    if not isinstance(value, dict) or not _is_call(value, names):
        return None
    inner = value["function"] if isinstance(value.get("function"), dict) else value
    arguments = next(inner[key] for key in _ARGUMENT_KEYS if key in inner)
    return inner["name"], arguments if isinstance(arguments, str) else json.dumps(
        arguments, ensure_ascii=False
    )


def _bare(text: str) -> str:
    """What is inside the one fence or markup around a whole text."""
    inside = re.fullmatch(_WRAPPED, text.strip())
    return next(filter(None, inside.groups()), "") if inside else text


def _without_code(text: str) -> str:
    """The text without fenced blocks and inline code. A fence that is never closed goes to the end."""
    kept: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = re.match(_FENCE, line)
        if fence:
            closes = mark and mark[1].startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if closes else fence
        elif mark:
            fence = mark[1]
        else:
            kept.append(re.sub(_INLINE, "", line))
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
