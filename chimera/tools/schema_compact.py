"""Smaller tool schemas that accept exactly the same calls."""

from __future__ import annotations

import copy
import re
from typing import Any

ANNOTATIONS = frozenset({"examples", "example", "title", "default", "$comment", "externalDocs"})
"""Keywords that are dropped where they annotate a schema. A property of such a name is no annotation."""

# Where JSON Schema (drafts 4 to 2020-12) has schemas inside a schema. Everything else is a value and stays as it is.
ONE_OR_MORE = frozenset(
    {
        *(
            "items",
            "prefixItems",
            "additionalItems",
            "unevaluatedItems",
            "contains",
            "anyOf",
            "allOf",
            "oneOf",
        ),
        *("not", "if", "then", "else", "additionalProperties", "unevaluatedProperties", "propertyNames"),
        "contentSchema",
    }
)
BY_NAME = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)

# Compiled when first needed: most runs compact no schema.
_SENTENCE_END = r"[.!?][\"')\]`]*(?=\s)|[。！？]|(?=\n\s*\n)"
_ABBREVIATION = r"(?i)(?:^|[\s(\[\"'`])(?:e\.g|i\.e|etc|vs|cf|approx|incl|resp|no|nos|fig|ca|[A-Za-z])\.$"


def compact_schema(tool: dict[str, Any]) -> dict[str, Any]:
    """The tool, in the form in which it is sent, without annotations and with shorter parameter prose.

    Validation is unchanged: whatever selects or constrains stays, and so do the function's name and description. The
    argument is not changed; compacting twice is compacting once.
    """
    compacted = copy.deepcopy(tool)
    function = compacted.get("function", compacted)
    if "parameters" in function:
        function["parameters"] = _compact(function["parameters"])
    return compacted


def first_sentence(text: str) -> str:
    """The first sentence, or all of a text without one. An abbreviation such as "e.g." ends no sentence."""
    text = text.strip()
    for match in re.finditer(_SENTENCE_END, text):
        end = match.end()
        if match.group().startswith(".") and _ends_in_abbreviation(text[: match.start() + 1], text[end:]):
            continue
        return text[:end].rstrip()
    return text


def _ends_in_abbreviation(before: str, after: str) -> bool:
    # "etc." and "no." end a sentence as often as not; a capital letter after them tells.
    if not re.search(_ABBREVIATION, before[-12:]):
        return False
    word = before.rpartition(" ")[2].lower().strip("(")
    return not (word in {"etc.", "no."} and after.lstrip()[:1].isupper())


def _compact(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_compact(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _compact_value(key, value) for key, value in schema.items() if key not in ANNOTATIONS}


def _compact_value(key: str, value: Any) -> Any:
    if key == "description" and isinstance(value, str):
        return first_sentence(value)
    if key in ONE_OR_MORE:
        return _compact(value)
    if key in BY_NAME and isinstance(value, dict):
        # A dependency may also be a list of property names.
        return {name: inner if isinstance(inner, list) else _compact(inner) for name, inner in value.items()}
    return value
