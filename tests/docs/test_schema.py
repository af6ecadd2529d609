"""The published schemas, against what runs really record and print."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator

import chimera
from chimera.api import resume
from chimera.cli.entry import run_command_line
from chimera.config import CompactionMode
from chimera.core.state import RunResult, Stop, StopReason
from chimera.record.events import Event, EventType
from chimera.testing import Reply, ScriptedModel, call, text

SCHEMAS = Path(__file__).parents[2] / "docs/schema"
UNCONFINED: dict[str, Any] = {"mode": "yolo", "sandbox": "danger-full-access"}
# One worker makes the runs once for all tests here.
pytestmark = pytest.mark.xdist_group("schema")
HARD_TO_MAKE = {"tool_interrupted", "progress"}
"""The one needs a killed run, the other very many files."""


def schema(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((SCHEMAS / name).read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(loaded)
    return loaded


EVENT, RESULT = schema("event.json"), schema("result.json")


def replies() -> Iterator[Reply]:
    """Fills a small window, so that there are compactions, and answers wrongly once."""
    yield call("update_plan", tasks=[{"title": "Read all", "status": "doing"}], plan="Read, then write.")
    for n in range(16):
        yield call("read_file", path=f"part_{n}.txt")
    yield call("edit_file", path="part_1.txt", edits=[{"old": "line 1 of 1\n", "new": "line one\n"}])
    yield text("Is it done?")
    yield call("write_file", path="done.txt", content="yes\n")
    yield call("shell", command="ls; seq 3000")
    yield text("Done.")


def summarising(script: Iterator[Reply]) -> ScriptedModel:
    """A model that is also asked for summaries, in between."""
    return ScriptedModel(lambda request, n: next(script) if request.tools else text("Much was read."))


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Event], list[RunResult]]:
    """All events, those that are shown only among them, of runs in both ways to compact, one resumed and undone."""
    events: list[Event] = []
    results = []
    modes: tuple[CompactionMode, ...] = ("note", "summary")
    folder = workspace = state = tmp_path_factory.mktemp("schema")
    for mode in modes:
        workspace, state = folder / mode / "workspace", folder / mode / "state"
        workspace.mkdir(parents=True)
        for n in range(16):
            lines = (f"line {k} of {n}\n" for k in range(90))
            (workspace / f"part_{n}.txt").write_text("".join(lines), encoding="utf-8")
        if mode == "summary":  # outside of a repository there is a warning
            subprocess.run(["git", "init", "-q"], cwd=workspace, check=True)
        settings = {**UNCONFINED, "workspace": workspace, "state": state, "compaction": mode}
        model = summarising(replies())
        results.append(
            chimera.run(
                "Read all.",
                model=model,
                window=6_000,
                verify="test -f done.txt",
                emit=events.append,
                **settings,
            )
        )
        more = ScriptedModel([text("Nothing is left.")], window=6_000)
        results.append(
            resume(None, "What is left?", model=more, emit=events.append, workspace=workspace, state=state)
        )
    patch = pytest.MonkeyPatch()
    with patch.context() as changed:
        changed.setenv("CHIMERA_STATE_DIR", str(state))
        changed.chdir(workspace)
        assert run_command_line(["undo"]) == 0
    text_of = Path(str(results[-1].run_dir), "events.jsonl").read_text(encoding="utf-8")
    undone = [json.loads(line) for line in text_of.splitlines()][-2:]
    events += [
        Event(e["type"], {n: v for n, v in e.items() if n not in {"seq", "time", "type"}}) for e in undone
    ]
    return events, results


def test_every_event_is_as_the_schema_says(record: tuple[list[Event], list[RunResult]]) -> None:
    events, _ = record
    for seq, event in enumerate(events):
        fields = json.loads(json.dumps(event.record(seq)))
        own = {**EVENT["$defs"][event.type], "$defs": EVENT["$defs"]}
        Draft202012Validator(own).validate(fields)
        assert set(fields) <= set(own["properties"]), f"{event.type} has fields that the schema does not tell"
    kinds = {event.type for event in events}
    assert kinds == set(get_args(EventType)) - HARD_TO_MAKE


def test_the_schema_knows_every_event_and_tells_them_apart() -> None:
    names = [entry["$ref"].rpartition("/")[2] for entry in EVENT["oneOf"]]
    assert names == list(get_args(EventType))
    validator = Draft202012Validator(EVENT)
    event = Event("warning", {"text": "careful"}).record(0)
    validator.validate(event)
    assert not validator.is_valid({**event, "type": "prompt"})
    assert not validator.is_valid({**event, "text": 5})


def test_every_result_is_as_the_schema_says(record: tuple[list[Event], list[RunResult]]) -> None:
    _, results = record
    never_began = [RunResult.of_stop(Stop(reason, message="x")) for reason in StopReason]
    for result in (*results, *never_began):
        fields = json.loads(json.dumps(result.fields()))
        Draft202012Validator(RESULT).validate(fields)
        assert list(fields) == RESULT["required"]
    assert [result.stop_reason for result in results] == ["answered"] * 4


def test_the_result_in_the_last_event_has_the_same_schema() -> None:
    finished = EVENT["$defs"]["run_finished"]["properties"]
    assert {name: finished[name] for name in RESULT["required"]} == {
        name: RESULT["properties"][name] for name in RESULT["required"]
    }
    shared = RESULT["$defs"].keys() & EVENT["$defs"].keys()
    assert shared == RESULT["$defs"].keys()
    assert all(RESULT["$defs"][name] == EVENT["$defs"][name] for name in shared)
