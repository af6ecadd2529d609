"""What was done before a task begins: written and read as ATIF."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chimera.bench.trajectory import PastStep, past_of, read_trajectory, write_trajectory
from chimera.core.ledger import CommandRun, FileChanged, FileRead
from chimera.errors import ConfigError

STEPS = (
    PastStep(name="shell", arguments={"command": "ls"}, output="exit 0\na.txt"),
    PastStep(name="read_file", arguments={"path": "a.txt"}, output="1\tone\n2\ttwo\n[2 lines]"),
    PastStep(name="write_file", arguments={"path": "b.txt", "content": "x\n"}, output="Created b.txt"),
    PastStep(name="search", arguments={"pattern": "x"}, output="b.txt:1: x"),
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "trajectory.json"
    path.write_text(write_trajectory("the task", STEPS))
    assert read_trajectory(path) == past_of(STEPS)


def test_the_ledger_learns_what_the_steps_did() -> None:
    facts = [
        fact for step in past_of(STEPS).steps for output in step.outputs if output for fact in output.facts
    ]
    assert facts == [
        CommandRun(command="ls", exit_code=0),
        FileRead(path="a.txt", first=1, last=2, total=2),
        FileChanged(path="b.txt", added=1, removed=0, line=1, created=True),
    ]


def test_messages_without_calls_and_words_of_the_user_are_taken_over(tmp_path: Path) -> None:
    steps = [
        {"source": "system", "message": "another system message"},
        {"source": "user", "message": "the task"},
        {"source": "agent", "message": "I begin."},
        {"source": "agent", "message": "I ask."},
        {"source": "user", "message": "Go left."},
        {"source": "user", "message": "No: right."},
    ]
    path = tmp_path / "trajectory.json"
    path.write_text(json.dumps({"schema_version": "ATIF-v1.4", "steps": steps}))
    first, second = read_trajectory(path).steps
    assert (first.completion.message.content, first.answer, first.follow_up) == ("I begin.", "Go on.", "")
    assert (second.answer, second.follow_up) == (None, "Go left.\n\nNo: right.")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{}", id="no steps"),
        pytest.param("[", id="no JSON"),
        pytest.param(
            '{"steps": [{"source": "agent", "tool_calls": '
            '[{"tool_call_id": "a", "function_name": "shell", "arguments": {"command": "ls"}}]}]}',
            id="a call without a result",
        ),
    ],
)
def test_a_file_that_no_run_can_go_on_from_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "trajectory.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"trajectory\.json: no ATIF trajectory that a run can go on from"):
        read_trajectory(path)
