"""The check of arguments against schemas that were made elsewhere, which may be hostile."""

from __future__ import annotations

from typing import Any

import pytest

from chimera.errors import ToolError
from chimera.tools.foreign import Deadline, schema_check, shown_schema

TEXT = {"type": "string"}


def fits(schema: dict[str, Any], **values: Any) -> bool:
    try:
        schema_check({"type": "object", **schema})(values)
    except ToolError:
        return False
    return True


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"x": {"pattern": "^(a+)+$"}}},
        {"patternProperties": {"^(a+)+$": TEXT}, "additionalProperties": False},
        {"patternProperties": {"^(a+)+$": TEXT}, "unevaluatedProperties": False},
        {"propertyNames": {"pattern": "^(a+)+$"}},
        {
            "properties": {"x": {"allOf": [{"pattern": "^(a+)+$"}]}},
            "$schema": "http://json-schema.org/draft-07/schema#",
        },
    ],
)
def test_no_pattern_of_a_foreign_schema_is_matched(schema: dict[str, Any]) -> None:
    """Each of these would take years."""
    hard = "a" * 60 + "!"
    assert fits(schema, **{"x": hard, hard: "y"})


def test_a_schema_that_grows_without_end_is_not_judged_to_its_end() -> None:
    doubling = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)}
    assert fits({"$ref": "#/$defs/d0", "$defs": {**doubling, "d60": TEXT}}, x="y")


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": ["x"]},
        {"properties": {"x": {"items": "x", "$schema": "http://json-schema.org/draft-04/schema#"}}},
        {"properties": {"x": {"prefixItems": 5, "$ref": "integer"}}},
        {"properties": {"x": {"multipleOf": 0}}},
        {"properties": {"x": {"$ref": "#/required"}}, "required": ["x"]},
        {"properties": {"x": {"enum": 5}}},
        {"type": "hologram"},
        {"$schema": ["x"]},
        {"$schema": 5, "$ref": 5},
        {"patternProperties": "["},
        {"dependencies": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("value", [5, [1], {"y": 1}], ids=str)
def test_a_schema_that_is_none_ends_no_run(schema: dict[str, Any], value: Any) -> None:
    fits(schema, x=value)


def test_what_a_schema_says_without_patterns_still_holds() -> None:
    schema = {
        "properties": {"n": {"type": "integer", "maximum": 3}, "pattern": TEXT},
        "additionalProperties": False,
    }
    assert fits(schema, n=3, pattern="x")
    assert not fits(schema, n=4)
    assert not fits(schema, pattern=1)
    assert not fits(schema, other=1)


def test_what_a_schema_says_hides_nothing_and_what_it_accepts_stays() -> None:
    hidden = "see\U000e0041\u202e this\x1b[2J"
    inner = {"enum": [hidden], "description": hidden, "default": {"title": hidden}}
    schema = {"properties": {"description": inner}, "anyOf": [{"title": hidden}]}
    seen = r"see\U000e0041\u202e this\x1b[2J"
    assert shown_schema(schema) == {
        "properties": {"description": {**inner, "description": seen}},
        "anyOf": [{"title": seen}],
    }


@pytest.mark.parametrize("values", [{"x": "a\ud800"}, {"x": [{"y\udfff": 1}]}], ids=ascii)
def test_half_a_character_is_not_sent_anywhere(values: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match="half a character"):
        schema_check({"type": "object"})(values)


def test_a_limit_is_never_longer_than_what_is_left_of_the_run() -> None:
    now = [100.0]
    deadline = Deadline(clock=lambda: now[0])
    assert deadline.limit_s(60) == 60
    deadline.ends_at = 130.0
    assert (deadline.limit_s(60), deadline.limit_s(5)) == (30, 5)
    now[0] = 130.0
    with pytest.raises(ToolError, match="time of the run is up"):
        deadline.limit_s(60)
