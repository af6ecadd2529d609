"""A run is taken up where it stopped: every call answered, none repeated, its record one whole."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import chimera
from chimera.api import resume
from chimera.core.model import Request
from chimera.record.run_directory import EVENTS, find_run, read_events
from chimera.testing import Reply, ScriptedModel, call, calls, error, text
from tests.core.bench import check_legal

UNCONFINED: dict[str, Any] = {"mode": "yolo", "sandbox": "danger-full-access"}


class Home:
    """A repository and a state directory."""

    def __init__(self, path: Path) -> None:
        self.root = path / "repo"
        self.root.mkdir()
        self.state = path / "state"
        subprocess.run(["git", "init", "-q", str(self.root)], check=True)
        (self.root / "a.txt").write_text("one\n")

    def run(self, script: Any, **options: Any) -> chimera.RunResult:
        model = ScriptedModel(script, window=32_000)
        return chimera.run(
            "do it ☃", workspace=self.root, state=self.state, model=model, **UNCONFINED, **options
        )

    def resume(
        self, script: Any, message: str = "", **options: Any
    ) -> tuple[chimera.RunResult, list[Request]]:
        model = ScriptedModel(script, window=options.pop("window", 32_000))
        result = resume(message=message, workspace=self.root, state=self.state, model=model, **options)
        for request in model.requests:
            check_legal(request)
            assert request.messages[1].content.startswith("do it ☃")
        return result, model.requests

    @property
    def record(self) -> Path:
        return find_run(self.state, None)

    def cut_record(self, after: str, count: int = 1) -> None:
        """Throw away what the record holds after the n-th event of a type: as a kill at that moment would."""
        lines = (self.record / EVENTS).read_bytes().splitlines(keepends=True)
        seen = [n for n, line in enumerate(lines) if json.loads(line)["type"] == after]
        (self.record / EVENTS).write_bytes(b"".join(lines[: seen[count - 1] + 1]))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def append(n: int) -> Reply:
    return call("shell", command=f"echo {n} >> log.txt")


def test_a_run_that_hit_its_limit_goes_on_with_fresh_limits(home: Home) -> None:
    first = home.run(lambda request, n: append(n), max_steps=3)
    assert first.stop_reason == "max_steps"
    result, requests = home.resume([append(3), text("done")])
    assert (result.stop_reason, result.answer, result.run_id) == ("answered", "done", first.run_id)
    assert len(requests[0].messages) == 2 + 2 * 3
    assert (home.root / "log.txt").read_text().split() == ["0", "1", "2", "3"]
    assert [file.path for file in result.files_changed] == ["log.txt"]
    seqs = [event["seq"] for event in read_events(home.record)]
    assert seqs == list(range(len(seqs)))


def test_a_call_without_a_recorded_result_is_never_run_again(home: Home) -> None:
    home.run([calls(append(1), append(2), append(3)), text("never seen")])
    home.cut_record("tool_started", 2)
    result, requests = home.resume([text("done")])
    assert result.answer == "done"
    first, second, third = requests[0].messages[-3:]
    assert first.content.startswith("exit 0")
    assert "effect is unknown" in second.content
    assert "log.txt" in second.content
    assert "was not run" in third.content
    assert (home.root / "log.txt").read_text().split() == ["1", "2", "3"]


def test_calls_that_had_not_begun_are_said_to_be_not_run(home: Home) -> None:
    home.run([calls(append(1), append(2)), text("never seen")])
    home.cut_record("completion")
    _, requests = home.resume([text("done")])
    assert all("was not run" in message.content for message in requests[0].messages[-2:])


@pytest.mark.parametrize("event", ["run_started", "prompt"])
def test_a_run_killed_before_its_first_reply_starts_over(home: Home, event: str) -> None:
    home.run([append(1), text("never seen")])
    home.cut_record(event)
    result, requests = home.resume([text("done")], "and be quick")
    assert result.answer == "done"
    assert len(requests[0].messages) == 2
    assert requests[0].messages[1].content.count("and be quick") == 1


def test_an_answered_run_needs_a_message_and_takes_it_as_the_next_turn(home: Home) -> None:
    home.run([text("first answer")])
    refused, requests = home.resume([text("x")])
    assert (refused.stop_reason, refused.exit_code, requests) == ("usage_error", 2, [])
    result, requests = home.resume([text("second answer")], "now the other half")
    assert result.answer == "second answer"
    assert [m.content for m in requests[0].messages[2:]] == ["first answer", "now the other half"]
    again, requests = home.resume([text("third answer")], "and the rest")
    assert again.answer == "third answer"
    assert [m.content for m in requests[0].messages[2:]] == [
        "first answer", "now the other half", "second answer", "and the rest",
    ]  # fmt: skip


def test_the_newest_message_stays_verbatim_through_compactions_and_stands_there_once(home: Home) -> None:
    home.run([text("first answer")])
    message = "only change b.py ☃ SENTINEL-7\n```\n</chimera-state>\n```"
    noise = [
        call("shell", command=f"for i in $(seq 80); do echo line $i of {n} $((i * {n + 7919})); done")
        for n in range(25)
    ]
    result, requests = home.resume([*noise, text("ok")], message, window=8_000)
    assert result.context is not None
    assert result.context.compactions >= 2
    for request in requests:
        assert sum(m.content.count(message) for m in request.messages) == 1


def test_plan_facts_and_verification_come_back_from_the_record(home: Home) -> None:
    tasks = [{"title": "count the gulls", "status": "doing"}]
    home.run(
        [call("update_plan", tasks=tasks), call("read_file", path="a.txt"), text("x")] + [text("y")] * 3,
        verify="false",
    )
    noise = [call("shell", command=f"seq {n} 40 6000; echo {n}") for n in range(1, 20)]
    _, requests = home.resume([*noise, text("ok")], "go on", window=8_000, verify=None)
    opening = requests[-2].messages[1].content
    assert "[doing now] count the gulls" in opening
    assert "`false`): failed" in opening


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda raw: raw[:-40], id="torn tail"),
        pytest.param(lambda raw: raw + b'{"type": "comp', id="half a line more"),
        pytest.param(lambda raw: raw.rstrip(b"\n"), id="no last line end"),
        pytest.param(lambda raw: raw + b"\0" * 4096, id="NUL block"),
        pytest.param(lambda raw: raw + raw.splitlines(keepends=True)[-1], id="a line twice"),
        pytest.param(
            lambda raw: raw.replace(b'{"seq":3', b'\0\0garbage{"seq":3'), id="garbage in the middle"
        ),
    ],
)
def test_a_damaged_record_is_mended_said_so_and_kept(home: Home, damage: Any) -> None:
    home.run(lambda request, n: append(n), max_steps=3)
    path = home.record / EVENTS
    damaged = damage(path.read_bytes())
    path.write_bytes(damaged)
    result, _ = home.resume([text("done")])
    assert result.answer == "done"
    lines = path.read_bytes().splitlines()
    assert all(isinstance(json.loads(line), dict) for line in lines)
    seqs = [event["seq"] for event in read_events(home.record)]
    assert seqs == sorted(set(seqs))
    kept = list(home.record.glob(f"{EVENTS}.damaged-*"))
    if kept:
        assert kept[0].read_bytes() == damaged
        assert any("damaged" in warning for warning in result.warnings)


def test_settings_of_the_run_hold_and_can_be_replaced(home: Home) -> None:
    home.run(lambda request, n: append(n), max_steps=2, tools=("shell",))
    result, requests = home.resume(lambda request, n: append(n + 9))
    assert (result.stop_reason, result.steps) == ("max_steps", 2)
    assert [tool["function"]["name"] for tool in requests[0].tools] == ["shell"]
    result, _ = home.resume(lambda request, n: append(n + 99), max_steps=4)
    assert result.steps == 4


@pytest.mark.parametrize("name", ["nonsense", "20"])
def test_a_run_that_is_not_there_or_not_the_only_one_is_a_usage_error(home: Home, name: str) -> None:
    for _ in range(2):
        home.run([text("x")])
    result = resume(name, "go on", state=home.state, model=ScriptedModel([]))
    assert (result.exit_code, result.stop_reason) == (2, "usage_error")


KILLED = """
import sys
from pathlib import Path
import chimera
from chimera.testing import ScriptedModel, call, text
script = [call("shell", command=f"echo {n} >> log.txt; echo {n}") for n in range(30)]
chimera.run("do it ☃", workspace=sys.argv[1], state=Path(sys.argv[2]), model=ScriptedModel([*script, text("x")], window=32_000),
            mode="yolo", sandbox="danger-full-access", emit=lambda event: print(event.type, flush=True))
"""


@pytest.mark.parametrize(
    "moment", ["prompt 4", "completion 3", "tool_started 2", "tool_finished 5", "checkpoint 2"]
)
def test_after_kill_nine_nothing_recorded_is_lost_and_nothing_is_done_twice(home: Home, moment: str) -> None:
    kind, _, number = moment.partition(" ")
    program = [sys.executable, "-c", KILLED, str(home.root), str(home.state)]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    left = int(number)
    for line in process.stdout:
        left -= line.strip() == kind
        if not left:
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    before = list(read_events(home.record))
    done = sum(event["type"] == "tool_finished" for event in before)
    result, _ = home.resume([append(100), text("done")])
    assert result.answer == "done"
    numbers = (home.root / "log.txt").read_text().split()
    assert len(numbers) == len(set(numbers))
    assert len(numbers) - 1 >= done
    assert list(read_events(home.record))[: len(before)] == before


def test_a_refusal_right_after_the_newest_message_does_not_lose_it(home: Home) -> None:
    home.run(lambda request, n: call("shell", command="seq 1 20000"), max_steps=1)
    script = [error("overflow", limit=6_000), text("ok")]
    result, requests = home.resume(script, "SENTINEL-9 now this", max_steps=5)
    assert result.answer == "ok"
    for request in requests:
        assert sum(m.content.count("SENTINEL-9 now this") for m in request.messages) == 1


def test_a_history_can_be_shortened_on_the_way_long_before_the_trigger(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.run([*(call("shell", command=f"seq {n}00 {n}99") for n in range(1, 9)), text("First.")])
    result, requests = home.resume([text("Second.")], "And now?", compact=True)
    assert result.answer == "Second."
    (event,) = [e for e in read_events(home.record) if e["type"] == "compaction"]
    assert event["changed"]
    assert event["after"] < 0.7 * event["before"] < 0.7 * 15_360
    assert any("And now?" in message.content for message in requests[0].messages)
    assert "seq 100 199" in requests[0].messages[1].content
    small, _ = home.resume([text("Third.")], "More?", compact=True, window=200_000)
    assert small.answer == "Third."


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
def test_what_a_killed_command_made_is_not_the_users_and_runs_nothing(home: Home) -> None:
    settings = home.root / "ev" / ".git" / "config"
    chimera.run(
        "do it ☃",
        workspace=home.root,
        state=home.state,
        model=ScriptedModel([call("shell", command="git init -q ev"), text("never seen")], window=32_000),
        mode="auto",
    )
    home.cut_record("tool_started")
    settings.write_text(settings.read_text() + "[core]\n\tfsmonitor = false\n")

    result, _ = home.resume([call("shell", command="echo x > ev/.git/x && cat ev/.git/x"), text("done")])

    assert "fsmonitor" not in settings.read_text()
    assert [w.partition(" and put")[0] for w in result.warnings if "put aside" in w] == [
        "ev/.git/config was made by a command"
    ]
    started = [event for event in read_events(home.record) if event["type"] == "run_started"]
    assert [event["git_entries"] for event in started] == [[".git"], [".git"]]
    assert (home.root / "ev" / ".git" / "x").exists()


@pytest.mark.parametrize("kind", ["cut", "call"])
def test_the_longest_reply_that_is_allowed_fits_beside_a_long_message_of_the_user(
    home: Home, kind: str
) -> None:
    """A model that goes on for ever is cut at the output limit; that may not be the end of the run."""
    page = "The keeper wrote of the wind, of the oil and of ships that passed by. " * 30
    home.run([text("done")])

    def script(request: Request, n: int) -> Reply:
        assert request.max_tokens is not None
        endless = "and the oil was left, " * (request.max_tokens // 6)
        if n < 2:
            return (
                Reply(text=endless, finish_reason="length")
                if kind == "cut"
                else call("shell", command=f": {endless}")
            )
        return text("done again")

    result, _ = home.resume(script, page, window=6_000)
    assert (result.stop_reason, result.answer) == ("answered", "done again"), result.message
