"""`chimera schema-bench` on a description of the size of a public one, and on tools from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chimera.tools.sample_calls import compare, sample_calls
from tests.cli.command import Chimera
from tests.public_api import public_description


def test_compaction_saves_two_fifths_of_a_public_description_and_changes_no_verdict(
    tmp_path: Path, chimera: Chimera
) -> None:
    path = tmp_path / "shop.json"
    path.write_text(json.dumps(public_description()), encoding="utf-8")
    methods = "get,post,patch,delete"
    ended = chimera(
        "schema-bench", "--tools", "shop__*", "--openapi", str(path), "--openapi-methods", methods, "--output-format", "json",
    )  # fmt: skip
    counted = ended.result
    assert ended.code == 0
    assert len(counted["tools"]) == 50
    assert counted["compact_tokens"] <= 0.6 * counted["full_tokens"]
    assert counted["full_tokens"] == sum(tool["full_tokens"] for tool in counted["tools"])
    proof = counted["proof"]
    assert (proof["calls"], proof["differing"]) == (2_000, 0)
    assert 500 <= proof["valid"] <= 1_500
    shares = {share["window"]: share for share in counted["budget_shares"]}
    assert shares[32_000]["full"] == pytest.approx(counted["full_tokens"] / 19_200, abs=1e-4)


@pytest.mark.parametrize(
    ("full", "other"),
    [
        pytest.param({"properties": {"n": {"type": "integer", "minimum": 0}}}, {"properties": {"n": {"type": "integer"}}}, id="bound"),
        pytest.param({"properties": {"title": {"type": "string"}}}, {"properties": {}}, id="property named like an annotation"),
        pytest.param({"required": ["a"], "properties": {"a": {"enum": [1, 2]}}}, {"properties": {"a": {"enum": [1, 2]}}}, id="required"),
        pytest.param({"properties": {}, "additionalProperties": False}, {"properties": {}}, id="unknown names"),
    ],
)  # fmt: skip
def test_the_comparison_finds_every_kind_of_difference(full: dict[str, Any], other: dict[str, Any]) -> None:
    made = {"type": "object", **full}
    assert compare(made, {"type": "object", **other}, calls=300, seed=1).differing > 0
    assert compare(made, made, calls=300, seed=1).differing == 0


def test_the_same_seed_makes_the_same_calls() -> None:
    schema = public_description()["components"]["schemas"]["Address"]
    first = json.dumps(list(sample_calls(schema, calls=50, seed=3)))
    assert first == json.dumps(list(sample_calls(schema, calls=50, seed=3)))
    assert first != json.dumps(list(sample_calls(schema, calls=50, seed=4)))


def test_tools_from_a_file_are_counted_in_each_of_the_usual_forms(tmp_path: Path, chimera: Chimera) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "title": "A", "description": "One. Two."}},
    }
    path = tmp_path / "tools.json"
    forms = [
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": schema}},
        {"name": "f", "description": "d", "input_schema": schema},
        {"name": "f", "description": "d", "inputSchema": schema},
    ]
    path.write_text(json.dumps({"tools": forms}), encoding="utf-8")
    counted = chimera(
        "schema-bench", "--calls", "0", "--tools-json", str(path), "--output-format", "json"
    ).result
    rows = [tool for tool in counted["tools"] if tool["name"] == "f"]
    assert len(rows) == 3
    assert rows[0] == rows[1] == rows[2]
    assert rows[0]["compact_tokens"] < rows[0]["full_tokens"]
    assert counted["proof"]["calls"] == 0


def test_a_file_without_tools_is_told(tmp_path: Path, chimera: Chimera) -> None:
    path = tmp_path / "tools.json"
    for text, told in (
        ("{}", "must be a list of tools"),
        ('[{"name": "f"}]', "tool 1 of"),
        ("[", "is not JSON"),
    ):
        path.write_text(text, encoding="utf-8")
        ended = chimera("schema-bench", "--tools-json", str(path))
        assert ended.code == 2
        assert told in ended.err


def test_a_schema_that_is_none_is_counted_and_not_compared(tmp_path: Path, chimera: Chimera) -> None:
    path = tmp_path / "tools.json"
    schemas = (
        {"type": "object", "required": True},
        {"type": "object", "properties": {"a": {"minLength": 10**12}}},
    )
    path.write_text(
        json.dumps([{"name": f"t{n}", "parameters": schema} for n, schema in enumerate(schemas)]),
        encoding="utf-8",
    )
    given = ("schema-bench", "--calls", "90", "--tools-json", str(path))
    shown = chimera(*given)
    assert "Not compared, since their schemas are no JSON Schema: t0" in shown.out
    found = chimera(*given, "--output-format", "json").result
    assert found["proof"]["left_out"] == ["t0"]
    assert found["proof"]["calls"] == 90
    assert found["proof"]["differing"] == 0
