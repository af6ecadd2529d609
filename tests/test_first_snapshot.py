"""The first snapshot of a run: taken while the model thinks about its first request, and before anything can change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from chimera.core.model import Completion, OnText, Request, Window
from chimera.errors import RecordError
from chimera.overriding import override
from chimera.record.events import Event
from chimera.record.run_directory import EVENTS, read_events
from chimera.testing import Reply, ScriptedModel, call, text
from tests.provider import LoopbackProvider, ask, refuse, say
from tests.undoing import Workspace, shell


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path)
    made.write("a", "a0\n")
    return made


def edit(path: str, old: str, new: str) -> Reply:
    return call("edit_file", path=path, edits=[{"old": old, "new": new}])


class Untelling:
    """A model that never says that its request is on its way."""

    name = "untelling"
    window = Window(tokens=32_000, source="argument")

    def __init__(self, script: Sequence[Reply] = (shell("echo a1 > a"), text("done"))) -> None:
        self.inner = ScriptedModel(script)

    def complete(self, request: Request, on_text: OnText) -> Completion:
        return self.inner.complete(replace(request, meanwhile=lambda: None), on_text)


def told(workspace: Workspace) -> list[tuple[str, object]]:
    return [(event["type"], event.get("by")) for event in read_events(workspace.record)]


@pytest.mark.parametrize(
    "adapter", ["direct", pytest.param("litellm", marks=pytest.mark.xdist_group("litellm"))]
)
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
    assert types.index("completion") < types.index("checkpoint") < types.index("tool_started")
    workspace.undo()
    assert (workspace.root / "a").read_text() == "a0\n"


def test_calls_that_were_refused_come_after_it_as_well(workspace: Workspace) -> None:
    model = Untelling([call("nonsense"), call("shell"), shell("echo a1 > a"), text("done")])
    assert workspace.run(model=model).files_changed
    workspace.run(shell("echo a2 > a"), resume=True)
    workspace.undo()
    assert (workspace.root / "a").read_text() == "a0\n"


def test_a_run_that_did_nothing_changed_nothing(workspace: Workspace) -> None:
    assert workspace.run(text("done")).files_changed == ()
    assert ("checkpoint", "start") in told(workspace)
    assert workspace.undo().put_back == {}


def test_a_run_that_never_reached_its_model_has_none_and_changed_nothing(workspace: Workspace) -> None:
    class Failing(Untelling):
        @override
        def complete(self, request: Request, on_text: OnText) -> Completion:
            raise KeyboardInterrupt

    workspace.run(model=Failing())
    workspace.write("a", "mine\n")
    assert "checkpoint" not in dict(told(workspace))
    assert workspace.undo().put_back == {}
    assert (workspace.root / "a").read_text() == "mine\n"


def test_a_run_that_was_killed_before_it_begins_with_one_when_it_goes_on(workspace: Workspace) -> None:
    workspace.run(text("done"))
    path = workspace.record / EVENTS
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    workspace.write("b", "b0\n")
    workspace.run(shell("echo a1 > a; echo b1 > b"), resume=True)
    assert told(workspace).count(("checkpoint", "start")) == 1
    workspace.undo()
    assert [(workspace.root / name).read_text() for name in "ab"] == ["a0\n", "b0\n"]


def test_what_a_part_without_one_changed_is_not_passed_over(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(workspace.home))
        workspace.run(edit("a", "a0", "a1"))
    workspace.run(edit("a", "a1", "a2"), resume=True)
    with pytest.raises(RecordError, match="no snapshot of the workspace"):
        workspace.undo()
    assert (workspace.root / "a").read_text() == "a2\n"


def test_a_record_of_version_0_1_is_read_as_before(workspace: Workspace) -> None:
    workspace.run(shell("echo a1 > a"))
    path = workspace.record / EVENTS
    events = [json.loads(line) for line in path.read_text().splitlines()]
    first = next(event for event in events if event.get("by") == "start")
    events.remove(first)
    events[0] |= {f"start_{name}": first[name] for name in ("tree", "annex", "ignored")}
    path.write_text("".join(json.dumps(event | {"seq": n}) + "\n" for n, event in enumerate(events)))
    workspace.undo()
    assert (workspace.root / "a").read_text() == "a0\n"


@pytest.mark.parametrize("fault", [BrokenPipeError, ConnectionResetError, TimeoutError, OSError])
def test_a_fault_of_who_listens_is_none_of_the_provider(workspace: Workspace, fault: type[OSError]) -> None:
    def listen(event: Event) -> None:
        if event.type == "checkpoint":
            raise fault("nobody listens")

    with LoopbackProvider([say("done")]) as provider:
        with pytest.raises(fault, match="nobody listens"):
            workspace.run(model="openai/fake", api_base=provider.url, window=32_000, emit=listen)
        assert len(provider.seen) == 1


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
