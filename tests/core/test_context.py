"""The context manager on its own: what it says when it must cut, and why it stops."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimera.config import CompactionMode
from chimera.core.context import Context
from chimera.core.context_budget import ContextBudget, Room
from chimera.core.messages import ToolCall, Usage, assistant, system, user
from chimera.core.model import Window
from chimera.core.outputs import ToolOutput
from chimera.core.state import RunState, StopReason
from chimera.core.summary import Summariser
from chimera.core.tokens import TokenCounter
from chimera.errors import ContextOverflowError
from chimera.record.events import Event
from chimera.record.run_directory import RunFiles
from chimera.testing import ScriptedModel, text
from chimera.tools.known_files import KnownFiles
from chimera.workspace.paths import Workspace

COUNTER = TokenCounter()
TOOL = {
    "type": "function",
    "function": {"name": "shell", "description": "Run a command. " * 20, "parameters": {}},
}


class Manager:
    """A context manager over a folder, with the state of a run."""

    def __init__(self, path: Path, *, window: int, mode: CompactionMode = "note", summary: str = "") -> None:
        self.files = RunFiles(path / "run")
        (path / "work").mkdir()
        self.events: list[Event] = []
        model = ScriptedModel(lambda request, n: text(summary))
        self.context = Context(
            counter=COUNTER,
            schemas=(TOOL,),
            workspace=Workspace.open(path / "work", run_dir=self.files.path),
            known=KnownFiles(),
            files=self.files,
            emit=self.events.append,
            summariser=Summariser(model=model, counter=COUNTER, emit=self.events.append),
        )
        budget = ContextBudget(window=Window(tokens=window, source="argument"), mode=mode)
        self.state: RunState = self.context.begin("You are a tester.", "Count the herons.", budget, 0.0)
        self._ids = 0

    @property
    def room(self) -> Room:
        return Room.of(self.state.budget, self.state.floor, self.state.history.task_tokens)

    def turn(self, *results: str, arguments: str = "{}") -> None:
        calls = [
            ToolCall(id=f"c{self._ids}_{n}", name="shell", arguments=arguments) for n in range(len(results))
        ]
        self._ids += 1
        outputs = [ToolOutput(text=one, digest=f"ran {self._ids}.{n}") for n, one in enumerate(results)]
        self.context.admit(self.state, assistant("", *calls), outputs)

    def last(self) -> str:
        return self.state.history.turns[-1].replies[-1].content


def words(tokens: int) -> str:
    return "word " * tokens


def test_what_the_loop_says_to_a_long_reply_is_said_in_words(tmp_path: Path) -> None:
    manager = Manager(tmp_path, window=8_000)
    said = "Your reply was cut at the output limit. Write less at a time."
    manager.context.answer_back(manager.state, assistant(words(2_000)), said)
    assert manager.last() == said


def test_a_long_answer_of_the_loop_is_cut_even_behind_a_long_reply(tmp_path: Path) -> None:
    manager = Manager(tmp_path, window=8_000)
    manager.context.answer_back(
        manager.state, assistant(words(2_000)), "The check failed.\n" + "herons\n" * 3_000
    )
    assert manager.last().startswith("The check failed.\nherons\n")
    assert "left out; in full: @run/outputs/0002.txt" in manager.last()
    assert COUNTER.text(manager.last()) <= manager.room.turn_cap / 2


def test_a_summary_that_takes_the_room_of_the_newest_turn_is_left_out(tmp_path: Path) -> None:
    manager = Manager(tmp_path, window=8_000, mode="summary", summary="a\n" * 80)
    for _ in range(3):
        manager.turn(words(400))
    fits_barely = int(manager.room.size * 0.93)
    manager.turn("ok", arguments='{"command": "' + words(fits_barely) + '"}')
    assert manager.context.fit(manager.state) is None
    assert manager.state.compactions == 1
    assert "Your notes" not in manager.state.history.context
    assert any("No summary" in event.fields["text"] for event in manager.events if event.type == "warning")


@pytest.mark.parametrize("part", ["floor", "task"])
def test_a_factor_that_takes_all_room_is_reported_as_floor_or_task(tmp_path: Path, part: str) -> None:
    floor = COUNTER.floor(system("You are a tester."), [TOOL]).total
    task = COUNTER.message(user("Count the herons."))
    fits_half = floor if part == "floor" else floor + task
    manager = Manager(tmp_path, window=int(2 * fits_half / 0.48))
    assert manager.state.stop is None
    manager.turn("ok")
    estimate = manager.state.floor.total + manager.state.history.tokens
    manager.context.observe(manager.state, assistant("ok"), Usage(input_tokens=2 * estimate))
    stop = manager.context.fit(manager.state)
    assert stop is not None
    assert (stop.reason, stop.detail) == (StopReason.CANNOT_SHRINK, part)


def test_an_output_that_is_cut_twice_is_kept_once(tmp_path: Path) -> None:
    manager = Manager(tmp_path, window=16_000)
    manager.turn(words(2_500))
    manager.context.learn(manager.state, ContextOverflowError("too large", limit=6_000))
    assert len(list(manager.files.outputs.iterdir())) == 1
    assert "@run/outputs/0001.txt" in manager.last()


def test_what_was_cut_can_be_found_after_its_turn_is_gone(tmp_path: Path) -> None:
    manager = Manager(tmp_path, window=8_000)
    manager.turn(words(2_000) + "heron 7731 " + words(2_000))
    while not manager.state.compactions:
        manager.turn(words(400))
        assert manager.context.fit(manager.state) is None
    assert "heron 7731" not in "".join(file.read_text() for file in manager.files.archive.iterdir())
    assert "heron 7731" in (manager.files.outputs / "0001.txt").read_text()
    assert "@run/outputs" in manager.state.history.context
