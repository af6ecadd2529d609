"""`chimera chat`: a conversation in one context, on pipes and on a terminal."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer

from chimera.cli.app import app
from chimera.cli.conversation import COMMANDS, Conversation, converse
from chimera.cli.input_line import PlainLines
from chimera.cli.output import Output
from chimera.cli.terminal import Terminal
from chimera.config import process_environment
from tests.cli.command import UNCONFINED, Chimera, Script

FIX = {"path": "calc.py", "edits": [{"old": "a - b", "new": "a + b"}]}
PLAN = {"tasks": [{"title": "Fix [x] 漢字", "status": "doing"}]}
SETTINGS: dict[str, Any] = {"mode": "yolo", "sandbox": "danger-full-access"}


def replies() -> list[dict[str, Any]]:
    """From its first line again with each message, so each one has its condition."""
    return [
        {"when": "And now", "text": "Second answer."},
        {"when": "put back what you changed", "text": "I see that it is gone."},
        {"unless": "Plan updated", "call": "update_plan", "arguments": PLAN},
        {"unless": "Edited calc.py", "call": "edit_file", "arguments": FIX},
        {"text": "First answer."},
    ]


def test_each_message_goes_on_in_the_same_run_and_commands_look_at_it(
    repository: Path, process: Chimera, script: Script, chimera: Chimera
) -> None:
    typed = "/cost\nFix it\n/plan\n/diff\n/undo\n\nWell?\nAnd now?\n/cost\n/nonsense\n/exit\nnever read\n"
    ended = process("chat", "--model", script(replies()), *UNCONFINED, stdin=typed.encode())
    assert ended.code == 0, ended.err
    shown = re.sub(r"(?s)diff --git.*\+    return a \+ b\n", "PATCH\n", ended.out).splitlines()
    assert [shown[n] for n in (0, 1, -2, -1)] == [
        "First answer.",
        "PATCH",
        "I see that it is gone.",
        "Second answer.",
    ]
    assert "  restored  calc.py" in shown
    assert "a - b" in (repository / "calc.py").read_text(encoding="utf-8")
    for said in (
        "Nothing has been said yet.",
        "  doing   Fix [x] 漢字",
        "(our estimate)",
        "no command /nonsense",
    ):
        assert said in ended.err
    assert "\x1b" not in ended.err
    assert ended.err.count("mode yolo") == ended.err.count("is unknown: assuming") == 1
    assert len(chimera("runs").out.splitlines()) == 1


def test_a_conversation_takes_every_setting_that_a_run_takes() -> None:
    commands: Any = typer.main.get_command(app)
    run, chat = ({p.name for p in commands.commands[name].params} for name in ("run", "chat"))
    assert run - chat == {"task", "file", "output_format", "quiet"}


def test_a_wrong_setting_is_told_before_a_message_is_typed(
    chimera: Chimera, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = chimera("chat", "--window", "0")
    assert ended.code == 2
    assert "window" in ended.err
    monkeypatch.setenv("CHIMERA_MAX_STEPS", "many")
    assert "CHIMERA_MAX_STEPS" in chimera("chat").err


def test_a_plan_is_shown_with_its_text_and_a_notice_whenever_it_is_news(
    repository: Path, script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = {**PLAN, "plan": "First [a], then 漢字."}
    model = script(
        [
            {"unless": "Plan updated", "call": "update_plan", "arguments": plan},
            {"error": "throttle", "retry_after_s": 0},
            {"error": "throttle", "retry_after_s": 0},
            {"text": "Done."},
        ]
    )
    conversation = Conversation(Output.of([]), {**SETTINGS, "model": model}, None, lambda _: None)
    for line in ("/src/app.py is broken", "/plan", "Again", "/nonsense", "/"):
        assert conversation.hear(line)
    shown = capsys.readouterr().err
    assert "  First [a], then 漢字.\n  doing   Fix [x] 漢字\n" in shown
    assert shown.count("no command /") == 2
    assert shown.count("is unknown: assuming") == 1


def test_why_there_is_no_snapshot_is_told_with_the_first_message(
    repository: Path, script: Script, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(repository))
    model = script([{"text": "Done."}])
    conversation = Conversation(Output.of([]), {**SETTINGS, "model": model}, None, lambda _: None)
    for line in ("One", "Two", "Three"):
        assert conversation.hear(line)
    assert " ".join(capsys.readouterr().err.split()).count("No snapshot of the workspace") == 1


@pytest.mark.parametrize(
    ("typed", "heard"),
    [
        pytest.param(
            "one\n\n  two [x]\n漢字\n", ["one\n\n  two [x]\n漢字\n"], id="pasted text is one message"
        ),
        pytest.param(
            "/diff\none\n/usr/bin\n/cost\n", ["/diff\n", "one\n/usr/bin\n", "/cost\n"], id="commands"
        ),
    ],
)
def test_lines_that_come_at_once_are_one_message(typed: str, heard: list[str]) -> None:
    ours, theirs = pty.openpty()
    with open(theirs, encoding="utf-8") as stdin:  # noqa: PTH123  (a descriptor)
        reader = PlainLines(Terminal(io.StringIO(), {}), stdin, COMMANDS)
        os.write(ours, typed.encode() + b"\x04")
        assert [reader.read() for _ in heard] == heard
        os.write(ours, b"\x04")
        assert reader.read() is None
    os.close(ours)


def test_the_history_is_shortened_where_that_is_asked_for(
    repository: Path, script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    looks: list[dict[str, Any]] = [
        {"unless": f"seq {n}00", "call": "shell", "arguments": {"command": f"seq {n}00 {n}99"}}
        for n in range(1, 7)
    ]
    model = script([{"when": "And now", "text": "Second."}, *looks, {"text": "First."}])
    output = Output.of([])
    conversation = Conversation(output, {**SETTINGS, "model": model, "window": 12_000}, None, lambda _: None)
    for line in ("Look", "/compact", "And now?"):
        assert conversation.hear(line)
    assert not conversation.hear("/exit")
    captured = capsys.readouterr()
    assert captured.err.count("compacted ") == 1
    assert captured.out.splitlines() == ["First.", "Second."]


def test_a_message_that_cannot_be_worked_on_leaves_the_conversation_open(
    repository: Path, process: Chimera, tmp_path: Path
) -> None:
    ended = process("chat", "Hello", "--model", "scripted:missing.yaml", *UNCONFINED, stdin=b"/help\n")
    assert ended.code == 2
    assert "missing.yaml" in ended.err
    assert "/compact" in ended.err


def test_two_interruptions_in_a_row_leave_and_a_line_between_them_stays(
    repository: Path, script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(sys.stderr, {})
    conversation = Conversation(
        Output.of([]), {**SETTINGS, "model": script([{"text": "ok"}])}, None, lambda _: None
    )

    def reader(lines: Iterator[str | None]) -> Any:
        def read() -> str | None:
            line = next(lines)
            if line == "^C":
                raise KeyboardInterrupt
            return line

        return read

    assert converse(conversation, reader(iter(["^C", "/help", "^C", "^C"])), terminal, None) == 130
    assert converse(conversation, reader(iter(["^C", "/help", "^C", "Hi", None])), terminal, None) == 0
    assert capsys.readouterr().err.count("leaves.") == 4


def test_an_interruption_of_the_work_is_the_first_one_whatever_was_before_the_message(
    repository: Path, script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    signal_us = {"call": "shell", "arguments": {"command": "kill -INT $PPID; sleep 60"}}
    model = script([{"when": "And now", "text": "Awake."}, signal_us])
    conversation = Conversation(Output.of([]), {**SETTINGS, "model": model}, None, lambda _: None)
    typed = iter(["^C", "Sleep", "And now?", None])

    def read() -> str | None:
        line = next(typed)
        if line == "^C":
            raise KeyboardInterrupt
        return line

    assert converse(conversation, read, Terminal(sys.stderr, {}), None) == 0
    captured = capsys.readouterr()
    assert captured.out == "Awake.\n"
    assert captured.err.count("nterrupted") == 1


@contextmanager
def on_terminal(*arguments: str, **environment: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "chimera", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**process_environment(), **environment},
        start_new_session=True,
    ) as process:
        os.close(theirs)
        try:
            yield ours, process
        finally:
            process.kill()
            os.close(ours)


def wait_for(terminal: int, text: str, seen: bytearray) -> None:
    """Read until a text that was not there before is on the terminal."""
    while text.encode() not in seen:
        seen += os.read(terminal, 65_536)
    del seen[: seen.index(text.encode()) + len(text)]


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "edited"])
def test_a_signal_stops_the_work_and_not_the_conversation(
    repository: Path, script: Script, plain: bool
) -> None:
    slow: list[dict[str, Any]] = [
        {"when": "And now", "text": "Awake."},
        {"call": "shell", "arguments": {"command": "sleep 60"}},
    ]
    environment = {"NO_COLOR": "1"} if plain else {"PROMPT_TOOLKIT_NO_CPR": "1"}
    if not plain:
        pytest.importorskip("prompt_toolkit")
    with on_terminal("chat", "--model", script(slow), *UNCONFINED, **environment) as (terminal, process):
        seen = bytearray()
        wait_for(terminal, ">", seen)
        os.write(terminal, b"Sleep\r" if not plain else b"Sleep\n")
        wait_for(terminal, "shell {", seen)
        process.send_signal(signal.SIGINT)
        wait_for(terminal, "interrupted", seen)
        wait_for(terminal, ">", seen)
        os.write(terminal, b"And now?\r" if not plain else b"And now?\n")
        wait_for(terminal, "Awake.", seen)
        wait_for(terminal, ">", seen)
        os.write(terminal, b"\x04")
        assert process.wait(timeout=60) == 0
        if plain:
            assert b"\x1b" not in seen
