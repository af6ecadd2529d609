"""The first snapshot of a run: taken while the model thinks about its first request, and before anything can change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from chimera.core.model import Completion, OnText, Request, Window
from chimera.errors import RecordError
from chimera.overriding import override
from chimera.record.run_directory import EVENTS, read_events
from chimera.testing import ScriptedModel, text
from tests.provider import LoopbackProvider, ask, refuse, say
from tests.undoing import Workspace, shell


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path)
    made.write("a", "a0\n")
    return made


class Untelling:
    """A model that never says that its request is on its way."""

    name = "untelling"
    window = Window(tokens=32_000, source="argument")

    def __init__(self) -> None:
        self.inner = ScriptedModel([shell("echo a1 > a"), text("done")])

    def complete(self, request: Request, on_text: OnText) -> Completion:
        return self.inner.complete(replace(request, meanwhile=lambda: None), on_text)


def told(workspace: Workspace) -> list[tuple[str, object]]:
    return [(event["type"], event.get("by")) for event in read_events(workspace.record)]


@pytest.mark.parametrize("adapter", ["direct", "litellm"])
def test_it_is_taken_when_the_request_has_left(workspace: Workspace, adapter: str) -> None:
    with LoopbackProvider([ask("shell", {"command": "echo a1 > a"}), say("done")]) as provider:
        settings: dict[str, Any] = {"api_base": provider.url, "window": 32_000, "adapter": adapter}
        result = workspace.run(model="openai/fake", **settings)
    assert result.answer == "done"
    types = [kind for kind, _ in told(workspace)]
    assert types.index("run_started") < types.index("checkpoint") < types.index("completion")
    workspace.undo()
    assert (workspace.root / "a").read_text() == "a0\n"


def test_a_model_that_does_not_tell_has_it_before_the_first_call(workspace: Workspace) -> None:
    result = workspace.run(model=Untelling())
    assert [file.path for file in result.files_changed] == ["a"]
    types = [kind for kind, _ in told(workspace)]
    assert types.index("completion") < types.index("checkpoint") < types.index("tool_finished")
    workspace.undo()
    assert (workspace.root / "a").read_text() == "a0\n"


def test_a_run_that_did_nothing_changed_nothing(workspace: Workspace) -> None:
    assert workspace.run(text("done")).files_changed == ()
    assert ("checkpoint", "start") in told(workspace)
    assert workspace.undo().put_back == {}


def test_a_run_that_never_reached_its_model_has_none_and_says_so(workspace: Workspace) -> None:
    class Failing(Untelling):
        @override
        def complete(self, request: Request, on_text: OnText) -> Completion:
            raise KeyboardInterrupt

    workspace.run(model=Failing())
    assert "checkpoint" not in dict(told(workspace))
    with pytest.raises(RecordError, match="it ended before it could change anything"):
        workspace.undo()


def test_a_run_that_was_killed_before_it_begins_with_one_when_it_goes_on(workspace: Workspace) -> None:
    workspace.run(text("done"))
    path = workspace.record / EVENTS
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    workspace.write("b", "b0\n")
    workspace.run(shell("echo a1 > a; echo b1 > b"), resume=True)
    assert told(workspace).count(("checkpoint", "start")) == 1
    workspace.undo()
    assert [(workspace.root / name).read_text() for name in "ab"] == ["a0\n", "b0\n"]


def test_without_it_nothing_is_taken_back(workspace: Workspace) -> None:
    workspace.run(shell("echo a1 > a"), shell("echo a2 > a"))
    path = workspace.record / EVENTS
    events = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [event for event in events if (event["type"], event.get("by")) != ("checkpoint", "start")]
    path.write_text("".join(json.dumps(event) + "\n" for event in kept))
    with pytest.raises(RecordError, match="the first snapshot is missing"):
        workspace.undo()
    assert (workspace.root / "a").read_text() == "a2\n"


def test_why_there_is_none_is_told_once(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(workspace.home))
    result = workspace.run(text("hello"))
    notice = "No snapshot of the workspace"
    assert [line.startswith(notice) for line in result.warnings].count(True) == 1
    warned = [event["text"] for event in read_events(workspace.record) if event["type"] == "warning"]
    assert [line.startswith(notice) for line in warned].count(True) == 1


def test_a_refusal_and_a_second_try_have_one(workspace: Workspace) -> None:
    with LoopbackProvider([refuse(503, "busy", retry_after="0"), say("done")]) as provider:
        workspace.run(model="openai/fake", api_base=provider.url, window=32_000)
    assert told(workspace).count(("checkpoint", "start")) == 1
