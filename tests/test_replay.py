"""Replays against the records of real runs: the same window must give what the run itself had."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import chimera
from chimera.api import run
from chimera.config import process_environment
from chimera.core.context_budget import ContextBudget
from chimera.core.messages import Usage
from chimera.core.model import Request, Window
from chimera.core.tokens import TokenCounter
from chimera.errors import RecordError
from chimera.models.scripted import ScriptedCall
from chimera.record.run_directory import read_events
from chimera.replay import Recording, Replay, read_recording, recorded_budget, replay
from chimera.testing import Reply, ScriptedModel, call, calls, error, text

COUNTER = TokenCounter()
Script = Sequence[Reply] | Callable[[Request, int], Reply]


class Recorder:
    """Runs scripts for real and keeps the records."""

    def __init__(self, path: Path) -> None:
        self.state = path / "state"
        self.root = path / "work"
        self.state.mkdir()
        self.root.mkdir()
        (self.root / "calc.py").write_text("def add(a, b):\n    return a - b\n", encoding="utf-8")

    def run(self, script: Script, *, window: int = 8_000, **options: Any) -> chimera.RunResult:
        return run(
            "Keep the purple heron in mind.",
            model=ScriptedModel(script),
            state=self.state,
            workspace=self.root,
            window=window,
            mode="yolo",
            sandbox="danger-full-access",
            **options,
        )


def path_of(result: chimera.RunResult) -> Path:
    assert result.run_dir is not None
    return Path(result.run_dir)


def events_of(result: chimera.RunResult, kind: str) -> list[dict[str, Any]]:
    return [event for event in read_events(path_of(result)) if event["type"] == kind]


def played(result: chimera.RunResult) -> Replay:
    recording = read_recording(path_of(result))
    return replay(recording, recorded_budget(recording), COUNTER)


def at(recording: Recording, window: int) -> Replay:
    budget = replace(recorded_budget(recording), window=Window(tokens=window, source="argument"))
    return replay(recording, budget, COUNTER)


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    for name in [name for name in process_environment() if name.startswith("CHIMERA_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CHIMERA_CONFIG_DIR", str(tmp_path / "config"))
    return Recorder(tmp_path)


def noise(n: int, lines: int = 60) -> Reply:
    return call(
        "shell", command=f"for i in $(seq {lines}); do echo line $i of run {n} $((i * {n + 7919})); done"
    )


def everything() -> list[Reply]:
    """Plan, edit, parallel and broken calls, a nudge, an empty reply, a large output, and checks that fail first."""
    plan = [{"title": "count the gulls", "status": "doing"}, {"title": "report", "status": "todo"}]
    edit = call("edit_file", path="calc.py", edits=[{"old": "a - b", "new": "a + b"}])
    broken = Reply(calls=(ScriptedCall("shell", '{"command": "ls'), *noise(1).calls))
    return [
        call("update_plan", tasks=plan, plan="first look, then act"),
        calls(call("read_file", path="calc.py"), edit),
        *(noise(n) for n in range(2, 9)),
        broken,
        text(""),
        *[call("shell", command="ls")] * 6,
        call("shell", command="seq 1 9000"),
        text("done?"),
        calls(*(noise(n, 20) for n in range(20, 29))),
        *(noise(n) for n in range(40, 52)),
        call("shell", command="touch checked"),
        text("done"),
    ]


def with_usage(script: Sequence[Reply], ratio: float) -> Callable[[Request, int], Reply]:
    """The script with prompt sizes as a provider might count them."""

    def reply(request: Request, n: int) -> Reply:
        size = sum(map(COUNTER.message, request.messages)) + sum(map(COUNTER.schema, request.tools))
        return replace(
            script[n], usage=Usage(input_tokens=round(size * ratio * (1 + n % 3 / 20)), output_tokens=9)
        )

    return reply


def assert_as_recorded(result: chimera.RunResult) -> None:
    replayed, context = played(result), result.context
    assert context is not None
    assert list(replayed.curve) == [event["calibrated"] for event in events_of(result, "prompt")]
    # The event names the step that it makes room for, counted from 1.
    compacted = [event for event in events_of(result, "compaction") if event["changed"]]
    assert list(replayed.compacted_at) == [event["step"] - 1 for event in compacted]
    assert list(replayed.compacted_from) == [event["before"] for event in compacted]
    assert (replayed.compactions, replayed.peak, replayed.sent) == (
        context.compactions,
        context.peak_prompt_tokens,
        context.prompt_tokens_sent,
    )
    archives = sum(file.stat().st_size for file in (path_of(result) / "archive").iterdir())
    assert replayed.archive_bytes == archives
    assert replayed.steps == result.steps


@pytest.mark.parametrize("window", [6_000, 20_000])
@pytest.mark.parametrize("mode", ["note", "mask"])
def test_a_replay_at_the_recorded_window_does_what_the_run_did(
    recorder: Recorder, window: int, mode: str
) -> None:
    result = recorder.run(everything(), window=window, compaction=mode, verify="test -e checked")
    assert result.answer == "done"
    assert result.context is not None
    assert result.context.compactions >= 1
    archived = "".join(file.read_text(encoding="utf-8") for file in (path_of(result) / "archive").iterdir())
    assert "brought nothing new" in archived
    assert_as_recorded(result)


@pytest.mark.parametrize("ratio", [0.7, 1.3])
def test_a_replay_goes_by_the_sizes_that_the_provider_reported(recorder: Recorder, ratio: float) -> None:
    factors = []
    for _ in range(2):
        (recorder.root / "checked").unlink(missing_ok=True)
        (recorder.root / "calc.py").write_text("def add(a, b):\n    return a - b\n", encoding="utf-8")
        result = recorder.run(with_usage(everything(), ratio), verify="test -e checked")
        assert result.context is not None
        assert result.context.calibration != 1.0
        assert_as_recorded(result)
        factors.append(read_recording(path_of(result)).calibration)
    assert factors == [None, pytest.approx(ratio, rel=0.15)]


def test_an_output_too_long_for_memory_is_played_by_its_ends(recorder: Recorder) -> None:
    result = recorder.run([call("shell", command="seq 1 400000"), noise(1), text("ok")])
    recording = read_recording(path_of(result))
    (output,) = recording.steps[0].outputs
    assert output is not None
    assert len(output.text) < 200_000
    assert "\n9\n" in output.text
    assert output.text.rstrip().endswith("\n400000")
    sizes = [event["calibrated"] for event in events_of(result, "prompt")]
    assert list(played(result).curve) == pytest.approx(sizes, rel=0.05)


def test_the_budget_of_the_run_is_read_from_its_record(recorder: Recorder) -> None:
    options: dict[str, Any] = {"budget_fraction": 0.85, "trigger": 0.7, "keep_turns": 3, "compaction": "mask"}
    result = recorder.run([*(noise(n) for n in range(20)), text("ok")], **options)
    budget = recorded_budget(read_recording(path_of(result)))
    assert (budget.window.tokens, budget.fraction, budget.trigger_fraction) == (8_000, 0.85, 0.7)
    assert (budget.keep_turns, budget.mode) == (3, "mask")
    assert_as_recorded(result)


def test_a_replay_is_deterministic(recorder: Recorder) -> None:
    result = recorder.run(everything())
    assert played(result) == played(result)


def test_a_larger_window_compacts_less_and_keeps_more_for_the_cache(recorder: Recorder) -> None:
    recording = read_recording(path_of(recorder.run([*(noise(n) for n in range(30)), text("ok")])))
    small, medium, large = (at(recording, window) for window in (6_000, 16_000, 200_000))
    assert small.compactions > medium.compactions > large.compactions == 0
    assert small.sent < medium.sent < large.sent
    assert small.floor_share > medium.floor_share > large.floor_share
    assert large.cacheable > 0.9
    assert large.gap is None
    assert small.gap is not None
    assert medium.archive_bytes > large.archive_bytes == 0
    assert len(large.curve) == large.steps == len(recording.steps) == 31
    for one in (small, medium, large):
        trigger = recorded_budget(recording).with_window(Window(tokens=one.window, source="argument")).trigger
        assert one.peak == max(one.curve) < trigger
        assert one.stop is None


def test_a_stop_is_reported_with_its_part_and_the_steps_before_it(recorder: Recorder) -> None:
    big = call("write_file", path="big.py", content="x = 1  # the quick brown fox\n" * 700)
    result = recorder.run([noise(1), noise(2), big, text("ok")], window=64_000)
    recording = read_recording(path_of(result))
    floor, tail, whole = (at(recording, window) for window in (1_000, 12_000, 64_000))
    assert (floor.stop, floor.steps, floor.curve, floor.floor_share) == ("floor", 0, (), 0.0)
    assert (tail.stop, tail.steps) == ("tail", 3)
    assert (whole.stop, whole.steps) == (None, 4)


def test_a_window_too_small_for_the_task_is_reported_as_such(recorder: Recorder) -> None:
    recording = read_recording(path_of(recorder.run([text("ok")])))
    huge = replace(recording, task="word soup " * 4_000)
    assert at(huge, 8_000).stop == "task"


def test_summaries_are_no_steps_and_a_replay_makes_do_with_the_note(recorder: Recorder) -> None:
    def script(request: Request, n: int) -> Reply:
        done = sum(message.role == "assistant" for message in request.messages)
        if not request.tools:
            return text("the port is 8123")
        return text("ok") if n > 30 and done else noise(n, 150)

    result = recorder.run(script, compaction="summary", window=20_000)
    assert any(event.get("purpose") == "summary" for event in events_of(result, "completion"))
    replayed = played(result)
    assert replayed.steps == result.steps
    assert replayed.compactions >= 1


def test_a_run_that_was_refused_is_played_without_the_refusal(recorder: Recorder) -> None:
    script = [*(noise(n, 90) for n in range(12)), error("overflow"), text("ok")]
    result = recorder.run(script, window=64_000)
    assert result.answer == "ok"
    replayed = played(result)
    assert (replayed.steps, replayed.stop, replayed.compactions) == (13, None, 0)


def test_a_run_that_died_in_a_call_is_played_as_far_as_it_got(recorder: Recorder) -> None:
    result = recorder.run([*(noise(n) for n in range(12)), text("ok")])
    record = path_of(result) / "events.jsonl"
    lines = record.read_text(encoding="utf-8").splitlines(keepends=True)
    cut = max(n for n, line in enumerate(lines) if '"type":"tool_started"' in line) + 1
    record.write_text("".join([*lines[:cut], '{"seq":99,"ty']), encoding="utf-8")
    assert played(result).curve == tuple(event["calibrated"] for event in events_of(result, "prompt"))


def test_a_workspace_that_is_gone_leaves_the_file_out(recorder: Recorder) -> None:
    result = recorder.run(everything())
    before = played(result)
    shutil.rmtree(recorder.root)
    after = played(result)
    assert after.steps == before.steps
    assert after.compactions >= 1


def test_a_replay_leaves_the_record_and_the_workspace_as_they_were(recorder: Recorder) -> None:
    result = recorder.run(everything())
    folders = (path_of(result), recorder.root)
    before = {file: file.read_bytes() for folder in folders for file in folder.rglob("*") if file.is_file()}
    at(read_recording(path_of(result)), 6_000)
    after = {file: file.read_bytes() for folder in folders for file in folder.rglob("*") if file.is_file()}
    assert after == before


def without(name: str) -> Callable[[dict[str, Any]], None]:
    def change(event: dict[str, Any]) -> None:
        event.pop(name, None)

    return change


def holding(**values: Any) -> Callable[[dict[str, Any]], None]:
    def change(event: dict[str, Any]) -> None:
        event.update(values)

    return change


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        pytest.param("run_started", without("system"), id="no system message"),
        pytest.param("run_started", without("tools"), id="no tools"),
        pytest.param("run_started", holding(tools=7), id="tools that are a number"),
        pytest.param("run_started", holding(task=None), id="a task that is nothing"),
        pytest.param("run_started", holding(type="other"), id="no beginning"),
        pytest.param("completion", without("message"), id="a completion without message"),
        pytest.param("completion", holding(message=[]), id="a message that is a list"),
        pytest.param("completion", holding(usage=None), id="a completion without usage"),
        pytest.param("completion", holding(message={"tool_calls": [{"id": "1"}]}), id="half a call"),
        pytest.param("prompt", without("estimated"), id="a prompt without size"),
        pytest.param("tool_finished", without("digest"), id="a result without digest"),
        pytest.param("tool_finished", holding(id="unasked"), id="a result that nobody asked for"),
        pytest.param("tool_finished", holding(facts=[{"kind": "miracle"}]), id="an unknown fact"),
        pytest.param("tool_finished", holding(output=None, output_file="@run/outputs/0099.txt"), id="an output that is gone"),
        pytest.param("plan", holding(tasks=[{"name": "x"}]), id="a task without title"),
    ],
)  # fmt: skip
def test_a_broken_record_is_an_error_that_names_the_run(
    recorder: Recorder, kind: str, change: Callable[[dict[str, Any]], None]
) -> None:
    plan = call("update_plan", tasks=[{"title": "look", "status": "doing"}])
    path = path_of(recorder.run([plan, noise(1), text("ok")]))
    events = list(read_events(path))
    for event in events:
        if event["type"] == kind:
            change(event)
    (path / "events.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events), encoding="utf-8")
    with pytest.raises(RecordError, match=path.name):
        read_recording(path)


def test_a_record_that_is_missing_or_empty_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="cannot be read"):
        read_recording(tmp_path / "nowhere")
    (tmp_path / "events.jsonl").write_text("not json\n", encoding="utf-8")
    with pytest.raises(RecordError, match="no beginning"):
        read_recording(tmp_path)


def test_a_recording_without_a_window_is_played_in_the_one_of_unknown_models(recorder: Recorder) -> None:
    recording = replace(read_recording(path_of(recorder.run([text("ok")]))), window=None)
    assert isinstance(recorded_budget(recording), ContextBudget)
    assert recorded_budget(recording).window.tokens == 16_384
