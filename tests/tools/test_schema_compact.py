"""Compacted schemas: smaller, and the same calls validate."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.tools.schema_compact import ANNOTATIONS, compact_schema, first_sentence

Schema = dict[str, Any]


def tool(parameters: Any) -> Schema:
    function = {"name": "t", "description": "Does it. And more.", "parameters": parameters}
    return {"type": "function", "function": function}


def compacted(parameters: Any) -> Any:
    return compact_schema(tool(parameters))["function"]["parameters"]


NOISE = {
    "title": "A title",
    "default": {"title": "x", "description": "One. Two."},
    "examples": [{"title": 1}],
    "example": 1,
    "$comment": "c",
    "externalDocs": {"url": "u"},
}


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(lambda s: s, id="root"),
        pytest.param(lambda s: {"properties": {"title": s, "default": s, "examples": s}}, id="properties named like annotations"),
        pytest.param(lambda s: {"patternProperties": {"^title$": s}}, id="patternProperties"),
        pytest.param(lambda s: {"$defs": {"default": s}, "definitions": {"title": s}}, id="definitions"),
        pytest.param(lambda s: {"items": s, "prefixItems": [s, s]}, id="items"),
        pytest.param(lambda s: {"items": [s, s], "additionalItems": s}, id="items of old drafts"),
        pytest.param(lambda s: {"anyOf": [s], "allOf": [s], "oneOf": [s], "not": s}, id="combinations"),
        pytest.param(lambda s: {"if": s, "then": s, "else": s}, id="conditions"),
        pytest.param(lambda s: {"additionalProperties": s, "propertyNames": s}, id="additionalProperties"),
        pytest.param(lambda s: {"dependentSchemas": {"title": s}, "dependencies": {"title": s, "a": ["title"]}}, id="dependencies"),
        pytest.param(lambda s: {"unevaluatedProperties": s, "unevaluatedItems": s, "contains": s}, id="the rest"),
    ],
)  # fmt: skip
def test_annotations_go_wherever_a_schema_is_and_nothing_else_does(place: Any) -> None:
    plain = {"type": "string", "minLength": 1}
    assert compacted(place(plain | NOISE)) == place(plain)


def test_everything_that_selects_or_constrains_stays() -> None:
    schema = {
        "type": "object",
        "properties": {
            "title": {
                "type": "string",
                "format": "date",
                "pattern": "^a",
                "readOnly": True,
                "deprecated": True,
            },
            "n": {"type": ["integer", "null"], "minimum": 1, "multipleOf": 2, "x-vendor": {"title": "kept"}},
            "r": {"$ref": "#/$defs/default"},
            "yes": True,
        },
        "$defs": {"default": {"type": "boolean"}},
        "required": ["title"],
        "dependentRequired": {"title": ["n"]},
        "additionalProperties": False,
    }
    assert compacted(schema) == schema


@pytest.mark.parametrize("keyword", ["const", "enum"])
def test_payload_values_are_never_rewritten(keyword: str) -> None:
    value: Any = {
        "title": "t",
        "default": 1,
        "description": "One. Two.",
        "properties": {"title": {"title": "x"}},
    }
    schema = {keyword: [value] if keyword == "enum" else value}
    assert compacted({"properties": {"a": schema}}) == {"properties": {"a": schema}}


def test_prose_of_parameters_is_cut_and_that_of_the_function_stays() -> None:
    small = compact_schema(
        tool({"description": "Args. More.", "properties": {"description": {"description": "One. Two."}}})
    )
    assert small["function"]["description"] == "Does it. And more."
    assert small["function"]["parameters"] == {
        "description": "Args.",
        "properties": {"description": {"description": "One."}},
    }


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("One. Two.", "One."),
        ("Only one", "Only one"),
        ("  Spaces around.  ", "Spaces around."),
        ("Use a unit, e.g. seconds. Not more.", "Use a unit, e.g. seconds."),
        ("A path (i.e. a file). Then.", "A path (i.e. a file)."),
        ("Files, folders, etc. Then more.", "Files, folders, etc."),
        ("Files etc. are listed. Then.", "Files etc. are listed."),
        ("Version 1.2.3 of a.py. Next.", "Version 1.2.3 of a.py."),
        ("Really? Yes.", "Really?"),
        ('He said "stop." Then.', 'He said "stop."'),
        ("First line\nstill it. Next.", "First line\nstill it."),
        ("No stop\n\nnext paragraph.", "No stop"),
        ("全部。其他。", "全部。"),
        ("", ""),
    ],
)
def test_the_first_sentence(text: str, first: str) -> None:
    assert first_sentence(text) == first


@given(st.text(st.sampled_from("aB .!?\n\"')e.g。"), max_size=60))
def test_the_first_sentence_of_a_first_sentence_is_itself(text: str) -> None:
    once = first_sentence(text)
    assert first_sentence(once) == once
    assert text.strip().startswith(once)


def test_what_is_no_usual_tool_passes_unharmed() -> None:
    for odd in ({"type": "function", "function": {"name": "t"}}, {"name": "t", "parameters": True}, {}):
        assert compact_schema(odd) == odd
    assert compact_schema({"name": "t", "parameters": {"title": "x"}}) == {"name": "t", "parameters": {}}


_NAMES = st.sampled_from([*sorted(ANNOTATIONS), "a", "properties", "description", "items", "enum"])
_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", "a", "One. Two."]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=6,
)


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    few = st.lists(inner, min_size=1, max_size=2)
    named = st.dictionaries(_NAMES, inner, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "string", "integer", ["object", "null"]]),
            "properties": named,
            "patternProperties": st.dictionaries(st.sampled_from(["^t", "a"]), inner, max_size=2),
            "additionalProperties": inner,
            "required": st.lists(_NAMES, max_size=2, unique=True),
            "items": inner,
            "prefixItems": few,
            "anyOf": few,
            "allOf": few,
            "not": inner,
            "if": inner,
            "then": inner,
            "dependentSchemas": named,
            "propertyNames": inner,
            "const": _VALUES,
            "enum": st.lists(_VALUES, min_size=1, max_size=3),
            "minLength": st.integers(0, 2),
            "minimum": st.integers(-1, 2),
            "description": st.sampled_from(["One. Two.", "One"]),
            "title": st.just("A title"),
            "default": _VALUES,
            "examples": st.lists(_VALUES, max_size=2),
            "$comment": st.just("c"),
        },
    )


_SCHEMAS = st.recursive(st.booleans() | st.just({"type": "string"}), _schemas, max_leaves=8)


@given(_SCHEMAS, st.lists(_VALUES, min_size=1, max_size=8))
def test_the_same_calls_validate_against_both(schema: Any, values: list[Any]) -> None:
    before = copy.deepcopy(schema)
    small = compacted(schema)
    assert schema == before
    assert compacted(small) == small
    assert len(json.dumps(small)) <= len(json.dumps(schema))
    full, compact = jsonschema.Draft202012Validator(schema), jsonschema.Draft202012Validator(small)
    for value in values:
        assert compact.is_valid(value) == full.is_valid(value)
