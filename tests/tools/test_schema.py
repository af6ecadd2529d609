"""Schemas from signatures, and the check of arguments against them, compared with a full validator."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.errors import ToolError
from chimera.tools.schema import check_arguments, parse_arguments, schema_of


class Entry(TypedDict):
    """One entry."""

    name: Annotated[str, "Its name.", {"minLength": 1}]
    kind: Literal["a", "b"]
    flag: NotRequired[bool]


def example(
    path: str,
    entries: Annotated[list[Entry], {"minItems": 1}],
    count: Annotated[int | None, {"minimum": 1, "maximum": 9}] = None,
    share: float | None = None,
    on: bool = False,
    names: list[str] | None = None,
) -> None:
    """Nothing is done here: only the signature matters."""


SCHEMA = schema_of(example)


def test_a_signature_becomes_a_schema() -> None:
    entry = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Its name.", "minLength": 1},
            "kind": {"type": "string", "enum": ["a", "b"]},
            "flag": {"type": "boolean"},
        },
        "required": ["name", "kind"],
        "additionalProperties": False,
    }
    assert schema_of(example) == {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "entries": {"type": "array", "items": entry, "minItems": 1},
            "count": {"type": "integer", "minimum": 1, "maximum": 9},
            "share": {"type": "number"},
            "on": {"type": "boolean"},
            "names": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["path", "entries"],
        "additionalProperties": False,
    }


_SCALARS: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-3, 12)
    | st.floats(-3, 12)
    | st.sampled_from(["", "a", "b", "5", "true", "x"])
)
_ANYTHING = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner)
)
_ENTRIES = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["", "n"]), "kind": st.sampled_from(["a", "b", "c"])},
        optional={"flag": st.booleans() | st.just("no"), "extra": st.just(1)},
    ),
    max_size=2,
)
_ARGUMENTS = st.fixed_dictionaries(
    {"path": st.text(max_size=3) | _ANYTHING, "entries": _ENTRIES | _ANYTHING},
    optional={
        "count": st.integers(-1, 11) | _ANYTHING,
        "share": st.floats(-1, 1) | _ANYTHING,
        "on": st.booleans() | _ANYTHING,
        "names": st.lists(st.text(max_size=2)) | _ANYTHING,
        "other": _ANYTHING,
    },
)
_VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@given(_ARGUMENTS)
def test_what_a_full_validator_accepts_is_accepted_as_it_is(arguments: dict[str, Any]) -> None:
    if _VALIDATOR.is_valid(arguments):
        assert check_arguments(arguments, SCHEMA, tool="t") == arguments


@given(_ARGUMENTS)
def test_what_the_check_returns_satisfies_a_full_validator(arguments: dict[str, Any]) -> None:
    try:
        checked = check_arguments(arguments, SCHEMA, tool="t")
    except ToolError:
        assert not _VALIDATOR.is_valid(arguments)
    else:
        _VALIDATOR.validate(checked)


GOOD: dict[str, Any] = {"path": "p", "entries": [{"name": "n", "kind": "a"}]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"path": None}, "The argument path is required."),
        ({"path": 3}, "path must be of type string, not a number."),
        ({"entries": []}, "entries needs at least 1 item(s)."),
        ({"entries": ["x"]}, "entries[0] must be an object, not a string."),
        ({"entries": [{"name": "n"}]}, "The argument entries[0].kind is required."),
        ({"entries": [{"name": "n", "kind": "z"}]}, "entries[0].kind is 'z'; it must be one of: a, b."),
        ({"count": 0}, "count is 0; it must be at least 1."),
        ({"count": 10}, "count is 10; it must be at most 9."),
        ({"count": True}, "count must be of type integer, not a boolean."),
        ({"count": "many"}, "count must be of type integer, not a string."),
        ({"share": "nan"}, "share must be of type number, not a string."),
        ({"share": float("inf")}, "share must be of type number, not a number."),
        (
            {"nmaes": []},
            "Unknown argument 'nmaes'; the arguments are: path, entries, count, share, on, names.",
        ),
    ],
)
def test_a_refusal_names_the_place_and_what_belongs_there(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ToolError) as caught:
        check_arguments(GOOD | change, SCHEMA, tool="t")
    assert str(caught.value) == message


def test_numbers_and_booleans_written_as_text_are_read() -> None:
    checked = check_arguments(
        GOOD | {"count": "5", "share": "0.5", "on": "true", "names": None}, SCHEMA, tool="t"
    )
    assert checked == GOOD | {"count": 5, "share": 0.5, "on": True}


@pytest.mark.parametrize("text", ["", "  ", "{}"])
def test_no_text_means_no_arguments(text: str) -> None:
    assert parse_arguments(text) == {}


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1',
        "null",
        "[]",
        '"ls"',
        "3",
        '{"a": NaN}',
        '{"a": 1, "a": 2}',
        "[" * 100_000,
        '{"a": 1} {"b": 2}',
    ],
    ids=lambda text: text[:12],
)
def test_broken_arguments_are_refused_briefly(text: str) -> None:
    with pytest.raises(ToolError) as caught:
        parse_arguments(text)
    assert len(str(caught.value)) < 1000


@given(st.dictionaries(st.text(), st.integers() | st.text()))
def test_any_object_is_parsed_as_json_does(value: dict[str, Any]) -> None:
    assert parse_arguments(json.dumps(value)) == value
