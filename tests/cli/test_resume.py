"""`chimera resume`: the last run of this folder goes on, with a message or without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.command import UNCONFINED, Chimera, Script

JSON = ("--output-format", "json")


def append(n: int) -> dict[str, Any]:
    return {"call": "shell", "arguments": {"command": f"echo {n} >> log.txt"}}


def test_the_last_run_of_this_folder_goes_on_from_where_it_stopped(
    repository: Path, chimera: Chimera, script: Script
) -> None:
    model = script([append(1), append(2), {"text": "never seen"}])
    stopped = chimera("run", "log", "--model", model, "--max-steps", "2", *UNCONFINED, *JSON)
    assert stopped.code == 4
    script([{"text": "logged", "when": "log.txt"}])
    ended = chimera("resume", *JSON)
    assert (ended.code, ended.result["answer"]) == (0, "logged")
    assert ended.result["run_id"] == stopped.result["run_id"]
    assert (repository / "log.txt").read_text(encoding="utf-8").split() == ["1", "2"]
    assert [file["path"] for file in ended.result["files_changed"]] == ["log.txt"]


def test_a_model_option_that_is_given_again_leaves_the_others_as_they_were(
    repository: Path, chimera: Chimera, script: Script
) -> None:
    model, given = (
        script([{"text": "hello"}]),
        ("--model-option", "temperature=0.5", "--model-option", "seed=1"),
    )
    first = chimera("run", "talk", "--model", model, *given, *UNCONFINED, *JSON)
    assert first.code == 0, first.err
    script([{"text": "heard"}])
    ended = chimera("resume", "and on", "--model-option", "seed=2", *JSON)
    started = [event for event in ended.events() if event["type"] == "run_started"]
    assert [event["options"]["model_options"] for event in started] == [
        {"temperature": 0.5, "seed": 1},
        {"temperature": 0.5, "seed": 2},
    ]


def test_a_single_argument_that_is_no_id_is_the_message(
    repository: Path, chimera: Chimera, script: Script
) -> None:
    first = chimera("run", "talk", "--model", script([{"text": "hello"}]), *UNCONFINED, *JSON).result
    script([{"text": "heard", "when": "and the other half"}])
    assert chimera("resume", "and the other half").out == "heard\n"
    script([{"text": "heard again", "when": "and the rest"}])
    assert chimera("resume", first["run_id"], "and the rest").out == "heard again\n"


def test_an_answered_run_without_a_message_is_a_usage_error(
    repository: Path, chimera: Chimera, script: Script
) -> None:
    chimera("run", "talk", "--model", script([{"text": "hello"}]), *UNCONFINED)
    ended = chimera("resume", *JSON)
    assert (ended.code, ended.result["stop_reason"]) == (2, "usage_error")
    assert "MESSAGE" in ended.err


def test_a_folder_without_runs_is_a_usage_error(repository: Path, chimera: Chimera) -> None:
    ended = chimera("resume", *JSON)
    assert (ended.code, ended.result["stop_reason"]) == (2, "usage_error")
    assert "chimera runs" in ended.err


def test_show_tells_the_parts_of_a_resumed_run(repository: Path, chimera: Chimera, script: Script) -> None:
    model = script([append(1), append(2)])
    chimera("run", "log", "--model", model, "--max-steps", "1", *UNCONFINED)
    script([append(2), {"text": "logged"}])
    assert chimera("resume", "--max-steps", "9").code == 0
    shown = chimera("show")
    assert shown.code == 0
    assert "logged" in shown.out
    assert "echo 2" in shown.out
    assert "resumed" in shown.out
