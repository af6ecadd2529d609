"""A record of which any field is damaged: what is left can be read, and every command says what is wrong and what to do."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.errors import RecordError
from chimera.record.damage import damage_text, whole_fields
from chimera.record.run_directory import EVENTS, read_events, read_record
from chimera.recording import read_recording

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


def written(folder: Path, *lines: dict[str, Any] | str) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (folder / EVENTS).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return folder


def test_a_field_of_a_wrong_type_is_left_out_and_told_with_its_line(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {
            "seq": 0,
            "type": "run_started",
            "task": "x",
            "floor": {"total": "many", "system": 3},
        },
        "no JSON",
        {"seq": 1, "type": "checkpoint", "tree": 5},
        {"seq": 2, "type": "completion", "usage": {"cost_usd": "free", "input_tokens": True}, "later": [1]},
    )
    record = read_record(path)
    assert record.events == (
        {"seq": 0, "type": "run_started", "task": "x", "floor": {"system": 3}},
        {"seq": 1, "type": "checkpoint"},
        {"seq": 2, "type": "completion", "usage": {}, "later": [1]},
    )
    assert record.damage == (
        "line 1: floor.total is 'many', not a whole number (in run_started)",
        "line 2: no event, 7 bytes",
        "line 3: tree is 5, not the id of a snapshot (in checkpoint)",
        "line 4: usage.cost_usd is 'free', not a number or null (in completion)",
        "line 4: usage.input_tokens is True, not a whole number (in completion)",
    )
    assert list(read_events(path)) == list(record.events)
    told = damage_text(path / EVENTS, record.damage)
    assert str(path / EVENTS) in told
    assert "line 3: tree is 5" in told
    assert "chimera show" in told


def test_a_whole_record_has_no_damage_and_nothing_is_said(tmp_path: Path) -> None:
    events = [
        {"seq": 0, "type": "run_started", "start_commit": None},
        {"seq": 1, "type": "checkpoint", "by": "run", "ignored": None},
    ]
    record = read_record(written(tmp_path, *events))
    assert (list(record.events), record.damage) == (events, ())
    assert damage_text(tmp_path / EVENTS, ()) == ""


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("prompt", "estimated", 10**400),
        ("prompt", "parts", {"system": -(10**30)}),
        ("run_finished", "usage", {"cost_usd": math.inf}),
        ("run_finished", "usage", {"cost_usd": 10**400}),
        ("run_started", "tools", [{"function": None}]),
        ("run_started", "tools", [{"function": 5}]),
        ("run_started", "tools", [{"function": {"name": []}}]),
    ],
    ids=range(7),
)
def test_a_number_that_no_run_has_and_a_tool_that_is_none_are_damage(
    kind: str, field: str, value: Any
) -> None:
    found, faults = whole_fields({"type": kind, field: value})
    assert len(faults) == 1
    assert found.get(field) != value


def test_a_recording_whose_tools_are_damaged_is_refused_with_the_way_out(tmp_path: Path) -> None:
    for function in (None, 5, "x", {}, {"name": 3}):
        start = {"seq": 0, "type": "run_started", "task": "x", "system": "s", "model": "m", "workspace": "/w"}
        path = written(tmp_path, {**start, "tools": [{"type": "function", "function": function}]})
        with pytest.raises(RecordError, match="cannot be gone on from"):
            read_recording(path)


@pytest.mark.parametrize("kind", ["run_started", "checkpoint", "completion", "run_finished", "tool_finished"])
@given(values=st.data())
def test_whatever_is_in_a_field_the_rest_is_as_it_was(kind: str, values: st.DataObject) -> None:
    name = values.draw(
        st.sampled_from(["tree", "usage", "message", "context", "facts", "step", "floor", "by"])
    )
    value = values.draw(VALUES)
    found, faults = whole_fields({"type": kind, "seq": 1, "free": "x", name: value})
    assert {"type": kind, "seq": 1, "free": "x"}.items() <= found.items()
    assert found.get(name) == value or faults
