from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from chimera.config import state_dir
from tests.cli.command import UNCONFINED, Chimera, Script

ANSWER: dict[str, Any] = {"text": "All done."}
LOOK: dict[str, Any] = {"call": "read_file", "arguments": {"path": "calc.py"}}
FIX: dict[str, Any] = {
    "call": "edit_file",
    "arguments": {"path": "calc.py", "edits": [{"old": "a - b", "new": "a + b"}]},
}
JSON = ("--output-format", "json")
KEYS = [
    *(
        "schema_version",
        "run_id",
        "stop_reason",
        "stop_detail",
        "exit_code",
        "answer",
        "steps",
        "model",
        "usage",
    ),
    *("context", "plan", "files_changed", "warnings", "run_dir", "error"),
]


def test_a_run_answers_on_standard_output_and_tells_the_rest_on_the_other(
    repository: Path, chimera: Chimera, script: Script
) -> None:
    ended = chimera("run", "Fix add()", "--model", script([LOOK, FIX, ANSWER]), *UNCONFINED)
    assert (ended.code, ended.out) == (0, "All done.\n")
    assert (repository / "calc.py").read_text(encoding="utf-8").endswith("a + b\n")
    assert "step 2 · " in ended.err
    assert "✓ edited calc.py +1 -1" in ended.err
    assert "answered after 3 steps" in ended.err
    assert "files    calc.py +1 -1" in ended.err
    assert "cost     $0.00" in ended.err
    assert "chimera show 2" in ended.err
    assert "\x1b" not in ended.err


def test_quiet_shows_only_the_result(repository: Path, chimera: Chimera, script: Script) -> None:
    ended = chimera("run", "Look", "--model", script([LOOK, ANSWER]), *UNCONFINED, "--quiet")
    assert (ended.out, ended.err) == ("All done.\n", "")


def test_json_is_one_object_in_the_documented_order(
    repository: Path, chimera: Chimera, script: Script
) -> None:
    ended = chimera("run", "Fix add()", "--model", script([FIX, ANSWER]), *UNCONFINED, *JSON)
    assert list(ended.result) == KEYS
    assert ended.result["files_changed"] == [{"path": "calc.py", "added": 1, "removed": 1}]
    assert ended.result["usage"]["cost_usd"] is None
    assert ended.events()[-1]["type"] == "run_finished"


def test_stream_json_is_the_record_and_then_the_result(
    repository: Path, chimera: Chimera, script: Script
) -> None:
    ended = chimera(
        "run", "Look", "--model", script([LOOK, ANSWER]), *UNCONFINED, "--output-format", "stream-json"
    )
    *events, result = ended.lines
    assert result["type"] == "result"
    assert list(result)[1:] == KEYS
    record = Path(result["run_dir"], "events.jsonl").read_text(encoding="utf-8").splitlines()
    assert [event["seq"] for event in events] == list(range(len(record)))
    assert events[0]["type"] == "run_started"
    assert all("time" in event for event in events)
    assert {"type", "digest", "ok"} <= set(events[[e["type"] for e in events].index("tool_finished")])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param([], "no task", id="no task"),
        pytest.param([""], "the task is empty", id="empty task"),
        pytest.param(["  \n"], "the task is empty", id="blank task"),
        pytest.param(["x", "--file", "task.md"], "give one of them", id="two tasks"),
        pytest.param(["--file", "missing.md"], "'missing.md' cannot be read", id="missing task file"),
        pytest.param(["--file", "."], "'.' cannot be read", id="task file is a folder"),
        pytest.param(["--file", "latin.txt"], "not UTF-8", id="task file in another encoding"),
        pytest.param(["x", "--bogus"], "No such option: --bogus", id="unknown option"),
        pytest.param(["x", "y"], "unexpected extra argument", id="two words as tasks"),
        pytest.param(["x", "--mode", "foo"], "'plan', 'ask'", id="unknown option value"),
        pytest.param(["x", "--mode"], "requires an argument", id="option without value"),
        pytest.param(["x", "--window", "0"], "window is 0", id="window 0"),
        pytest.param(["x", "--window", "-5"], "window is -5", id="window below 0"),
        pytest.param(["x", "--window", "big"], "'big'", id="window garbage"),
        pytest.param(["x", "--budget-fraction", "1.5"], "budget_fraction is 1.5", id="share above 1"),
        pytest.param(["x", "--budget-fraction", "nan"], "budget_fraction is nan", id="share nan"),
        pytest.param(["x", "--max-steps", "0"], "max_steps is 0", id="no steps"),
        pytest.param(["x", "--tools", "shell,rm"], "no tool named 'rm'", id="unknown tool"),
        pytest.param(["x", "--model-option", "temperature"], "is not KEY=VALUE", id="half an option"),
        pytest.param(["x", "--workspace", "nowhere"], "'nowhere' cannot be used", id="missing workspace"),
        pytest.param(["x", "--workspace", "calc.py"], "is not a folder", id="workspace is a file"),
        pytest.param(["x", "--mode", "yolo"], "danger-full-access", id="yolo without its word"),
    ],
)
def test_bad_arguments_end_with_2_and_one_object(
    repository: Path, chimera: Chimera, script: Script, arguments: list[str], words: str
) -> None:
    (repository / "latin.txt").write_bytes(b"r\xe9sum\xe9")
    model = script([ANSWER])
    how = () if {"--mode"} & set(arguments) else UNCONFINED
    ended = chimera("run", *JSON, "--model", model, *how, *arguments)
    assert ended.code == 2
    assert (ended.result["stop_reason"], ended.result["exit_code"]) == ("usage_error", 2)
    assert list(ended.result) == KEYS
    assert ended.result["run_id"] is None
    assert words in ended.result["error"]["message"]
    assert words in ended.err
    assert "Traceback" not in ended.err


def test_an_unknown_format_ends_with_2(repository: Path, chimera: Chimera) -> None:
    ended = chimera("run", "x", "--output-format", "xml")
    assert (ended.code, ended.out) == (2, "")
    assert "'stream-json'" in ended.err


@pytest.mark.parametrize(
    ("model", "words"),
    [
        pytest.param("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY", id="no key"),
        pytest.param("nonesuch/model", "no provider 'nonesuch'", id="unknown provider"),
        pytest.param("no-such-model", "'no-such-model' is unknown", id="unknown model"),
    ],
)
def test_without_a_key_or_model_nothing_begins(
    repository: Path, chimera: Chimera, model: str, words: str
) -> None:
    ended = chimera("run", "x", "--model", model, *JSON)
    assert (ended.code, ended.result["stop_reason"]) == (11, "auth_error")
    assert words in ended.err
    assert not Path(state_dir(), "runs").exists()


def test_a_state_directory_that_cannot_be_written_ends_with_15(
    repository: Path, chimera: Chimera, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_way = repository.parent / "file"
    in_the_way.write_text("no folder\n", encoding="utf-8")
    monkeypatch.setenv("CHIMERA_STATE_DIR", str(in_the_way / "below"))
    ended = chimera("run", "x", "--model", script([ANSWER]), *UNCONFINED, *JSON)
    assert (ended.code, ended.result["stop_reason"]) == (15, "state_unwritable")
    assert str(in_the_way) in ended.err


def test_a_folder_that_is_no_repository_works_with_a_notice(
    tmp_path: Path, chimera: Chimera, script: Script
) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "a.txt").write_text("x\n", encoding="utf-8")
    write = {"call": "write_file", "arguments": {"path": "b.txt", "content": "y\n"}}
    ended = chimera(
        "run", "x", "--model", script([write, ANSWER]), *UNCONFINED, *JSON, "--workspace", str(folder)
    )
    assert ended.code == 0
    assert ended.result["files_changed"] == [{"path": "b.txt", "added": 1, "removed": 0}]
    assert any("Not a git repository" in warning for warning in ended.result["warnings"])
    assert "notice: Not a git repository" in ended.err


def test_a_limit_of_steps_is_told_and_never_an_answer(
    repository: Path, chimera: Chimera, script: Script
) -> None:
    ended = chimera(
        "run", "x", "--model", script([LOOK, FIX, ANSWER]), *UNCONFINED, *JSON, "--max-steps", "2"
    )
    assert (ended.code, ended.result["stop_reason"]) == (4, "max_steps")
    assert ended.result["answer"] is None
    assert "stopped after 2 steps: max_steps" in ended.err
    assert "error: The limit of 2 steps is reached" in ended.err


def test_a_check_that_never_passes_ends_with_12(repository: Path, chimera: Chimera, script: Script) -> None:
    model = script([{**ANSWER, "repeat": 5}])
    ended = chimera("run", "x", "--model", model, *UNCONFINED, *JSON, "--verify", "echo broken; false")
    assert (ended.code, ended.result["answer"]) == (12, None)
    assert ended.err.count("✗ check: ran `echo broken; false`: exit 1") == 3
    assert "told the model: Your answer does not count yet" in ended.err


def test_a_floor_above_the_trigger_shows_its_ledger(
    repository: Path, chimera: Chimera, script: Script
) -> None:
    ended = chimera("run", "x", "--model", script([ANSWER]), *UNCONFINED, *JSON, "--window", "1000")
    assert (ended.code, ended.result["stop_detail"]) == (3, "floor")
    context = ended.result["context"]
    assert (context["window"], context["budget"], context["trigger"]) == (1000, 600, 480)
    assert f"{context['floor']['total']:,}  (re-sent on every step)" in ended.err
    assert "What would make it fit" in ended.err


def test_settings_come_from_arguments_before_the_environment(
    repository: Path, chimera: Chimera, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHIMERA_MODEL", script([{**LOOK, "repeat": 9}]))
    monkeypatch.setenv("CHIMERA_MAX_STEPS", "1")
    assert chimera("run", "x", *UNCONFINED, *JSON).result["steps"] == 1
    assert chimera("run", "x", *UNCONFINED, *JSON, "--max-steps", "3").result["steps"] == 3


def test_files_that_are_no_text_do_no_harm(repository: Path, chimera: Chimera, script: Script) -> None:
    (repository / "binary.dat").write_bytes(bytes(range(256)) * 50)
    (repository / "huge.log").write_bytes(b"line of a log \x1b[31mred\x1b[0m\n" * 200_000)
    (repository / "latin.txt").write_bytes(b"r\xe9sum\xe9 \x1b]0;title\x07\n")
    (repository / os.fsdecode(b"name-\xff\x1b[31m.txt")).write_text("x\n", encoding="utf-8")
    paths = ["binary.dat", "huge.log", "latin.txt"]
    reads = [{"call": "read_file", "arguments": {"path": path}} for path in paths]
    dump = {"call": "shell", "arguments": {"command": "cat binary.dat latin.txt; ls; rm name-*"}}
    ended = chimera("run", "x", "--model", script([*reads, dump, ANSWER]), *UNCONFINED, "--window", "32000")
    assert (ended.code, ended.out) == (0, "All done.\n")
    assert "\x1b" not in ended.err
    assert "\x07" not in ended.err
    assert (repository / "binary.dat").stat().st_size == 256 * 50
    shown = chimera("show")
    assert shown.code == 0
    assert "\x1b" not in shown.out


def test_modes_that_ask_deny_without_a_terminal(repository: Path, chimera: Chimera, script: Script) -> None:
    ended = chimera("run", "x", "--model", script([FIX, ANSWER]), "--mode", "ask", *JSON)
    assert ended.code == 0
    assert "a - b" in (repository / "calc.py").read_text(encoding="utf-8")
    assert (
        "no terminal to ask on" in next(e for e in ended.events() if e["type"] == "tool_finished")["output"]
    )


@pytest.mark.parametrize("words", [["--api-base", "ftp://me:pw1@h/x"], ["--api-base=ftp://me:pw1@h/x"]])
def test_an_address_that_cannot_be_used_is_told_without_its_credentials(
    chimera: Chimera, words: list[str]
) -> None:
    ended = chimera("run", "x", *words)
    assert ended.code == 2
    assert "pw1" not in ended.err + ended.out


def test_a_first_run_that_has_much_to_record_says_so_and_a_later_one_does_not(
    repository: Path, chimera: Chimera, script: Script
) -> None:
    for number in range(2_000):
        (repository / f"{number}.txt").touch()
    told = "2,001 files"
    for run in range(2):
        ended = chimera(
            "run", "x", "--model", script([{"text": "ok"}]), *UNCONFINED, "--output-format", "json"
        )
        assert ended.code == 0
        assert (told in " ".join(ended.err.split())) == (run == 0)
        assert "progress" not in {event["type"] for event in ended.events()}
