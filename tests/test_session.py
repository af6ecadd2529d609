"""However a run ends, its result says what was done and its record is closed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import chimera
from chimera.interruption import Interrupted
from chimera.record.events import Event
from chimera.record.run_directory import EVENTS, find_run, read_events, read_record
from chimera.testing import ScriptedModel, call, calls, text

UNCONFINED: dict[str, Any] = {"mode": "yolo", "sandbox": "danger-full-access"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "repo"
    path.mkdir()
    subprocess.run(["git", "init", "-q", str(path)], check=True)
    return path


def steps(count: int) -> ScriptedModel:
    return ScriptedModel(
        [*(call("shell", command=f"echo {n} >> log.txt") for n in range(count)), text("done")], window=32_000
    )


@pytest.mark.parametrize("moment", ["run_started", "prompt", "tool_started", "checkpoint"])
def test_an_interruption_at_any_moment_leaves_a_result_and_a_closed_record(
    root: Path, tmp_path: Path, moment: str
) -> None:
    def interrupt(event: Event) -> None:
        if event.type == moment:
            raise Interrupted("SIGTERM")

    result = chimera.run(
        "go", workspace=root, state=tmp_path / "state", model=steps(3), emit=interrupt, **UNCONFINED
    )
    assert (result.stop_reason, result.exit_code) == ("interrupted", 143)
    assert result.run_id is not None
    events = list(read_events(find_run(tmp_path / "state", None)))
    assert events[-1]["type"] == "run_finished"
    assert events[-1]["stop_reason"] == "interrupted"


def test_a_record_that_becomes_unwritable_ends_the_run_with_all_that_is_known(
    root: Path, tmp_path: Path
) -> None:
    def fill(event: Event) -> None:
        if event.type == "tool_finished" and event.fields["step"] == 2:
            path = find_run(tmp_path / "state", None)
            for name in ("outputs", "archive"):
                (path / name).rename(path / f"{name}.gone")
                (path / name).write_text("in the way")

    model = ScriptedModel(
        [*(call("shell", command=f"seq {n}0000 {n}9999") for n in range(1, 9)), text("x")], window=32_000
    )
    result = chimera.run("go", workspace=root, state=tmp_path / "state", model=model, emit=fill, **UNCONFINED)
    assert (result.stop_reason, result.exit_code) == ("state_unwritable", 15)
    assert result.steps == 3
    assert result.run_id is not None
    assert result.usage is not None


def test_a_state_directory_inside_the_workspace_is_refused(root: Path) -> None:
    result = chimera.run("go", workspace=root, state=root / ".state", model=steps(1), **UNCONFINED)
    assert (result.exit_code, result.steps) == (2, 0)
    assert "CHIMERA_STATE_DIR" in result.message
    assert not (root / "log.txt").exists()
    assert result.fields()["steps"] is None
    assert result.fields()["plan"] is None


def test_a_calibration_is_remembered_only_where_a_provider_reported(root: Path, tmp_path: Path) -> None:
    chimera.run("go", workspace=root, state=tmp_path / "state", model=steps(1), **UNCONFINED)
    assert not (tmp_path / "state" / "calibration.json").exists()


@pytest.mark.parametrize(
    "content", ["{", "[" * 100_000, '{"scripted": 1' + "0" * 400 + "}", '{"scripted": true}', "[1]"]
)
def test_garbage_in_the_remembered_calibration_is_ignored(root: Path, tmp_path: Path, content: str) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "calibration.json").write_text(content)
    result = chimera.run("go", workspace=root, state=tmp_path / "state", model=steps(1), **UNCONFINED)
    assert result.context is not None
    assert result.context.calibration == 1.0


def test_a_run_records_where_it_began_and_every_event_once(root: Path, tmp_path: Path) -> None:
    result = chimera.run("go", workspace=root, state=tmp_path / "state", model=steps(2), **UNCONFINED)
    assert result.run_dir is not None
    events = list(read_events(Path(result.run_dir)))
    assert [event["seq"] for event in events] == list(range(len(events)))
    assert (Path(result.run_dir) / EVENTS).stat().st_mode & 0o777 == 0o600
    assert events[0]["workspace"] == str(root)
    assert next((e["by"], e["step"]) for e in events if e["type"] == "checkpoint") == ("start", 0)
    assert read_record(Path(result.run_dir)).damage == ()
    assert [file.path for file in result.files_changed] == ["log.txt"]
    assert not (Path(result.run_dir) / "spool").exists()


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
def test_commands_see_neither_records_nor_snapshots(root: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    look = call("shell", command=f"ls -A {state} | wc -l")
    model = ScriptedModel([look, text("done")], window=32_000)
    result = chimera.run("go", workspace=root, state=state, model=model, mode="auto")
    assert result.answer == "done"
    assert model.requests[1].messages[-1].content.splitlines()[-1] == "0"


def test_what_the_sandbox_lacks_is_said(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(root))  # a home that is the workspace cannot be hidden from commands
    result = chimera.run("go", workspace=root, state=tmp_path / "state", model=steps(1), mode="auto")
    assert result.answer == "done"
    missing = next(read_events(find_run(tmp_path / "state", None)))["sandbox"]["missing"]
    assert missing
    for loss in missing:
        assert any(loss in warning for warning in result.warnings)


def test_no_command_and_no_check_outlives_the_time_of_the_run(root: Path, tmp_path: Path) -> None:
    for script, verify in (
        ([call("shell", command="echo began; sleep 300"), text("never")], None),
        ([text("done"), text("never")], "echo began; sleep 300"),
    ):
        result = chimera.run(
            "go",
            workspace=root,
            state=tmp_path / "state",
            model=ScriptedModel(script, window=32_000),
            max_seconds=1,
            verify=verify,
            **UNCONFINED,
        )
        assert (result.stop_reason, result.exit_code, result.answer) == ("time_limit", 6, None)
        finished = [
            e for e in read_events(find_run(tmp_path / "state", None)) if e["type"] == "tool_finished"
        ]
        assert [e["exit_code"] for e in finished] == [None]
        assert "the time of the run is up" in finished[0]["output"]
        assert "timeout_s" not in finished[0]["output"]


def test_a_command_is_not_started_once_the_time_is_up(root: Path, tmp_path: Path) -> None:
    both = calls(call("shell", command="sleep 300"), call("shell", command="touch late"))
    result = chimera.run(
        "go",
        workspace=root,
        state=tmp_path / "state",
        model=ScriptedModel([both, text("never")], window=32_000),
        max_seconds=0.5,
        **UNCONFINED,
    )
    assert result.exit_code == 6
    assert not (root / "late").exists()
