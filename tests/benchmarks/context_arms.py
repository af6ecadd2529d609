"""The ways to keep a history in a window that the benchmark compares, each as good as its idea allows.

All arms keep the system message and the task, never split a call from its result, and look at the size of the request
before it is sent, at the same trigger. The four plain ones cut a result at 10,000 characters or, in windows below
10,000 tokens, at as many characters as the window has tokens; where they cut the history at all they aim for the same
target as ours, so that rewrites are rare. What differs is the idea:

- none: everything is sent.
- truncate-oldest: the oldest turns go.
- mask-last-10: the results of all but the newest 10 turns become a placeholder; where that does not fit, of all but
  the newest 5, 2 or 1. Calls and reasoning stay.
- summary: a model writes a summary of all but the newest turns (those that fit a quarter of the room), and of the
  summary before. The model is scripted: of the facts in what it reads it loses 3 in 10, every time, and it writes no
  more than a tenth of the room. Its prompts count as sent.
- note, mask: chimera's context manager in either mode.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from typing_extensions import override

from chimera.core.context import Context
from chimera.core.context_budget import ContextBudget, Room
from chimera.core.messages import Message, system, tool_result, user
from chimera.core.model import Window
from chimera.core.recording import learn
from chimera.core.state import RunState
from chimera.core.tokens import Floor, TokenCounter
from chimera.record.events import Event
from chimera.record.run_directory import RunFiles
from chimera.tools.known_files import KnownFiles
from chimera.workspace.paths import Workspace
from tests.benchmarks.context_histories import History, Step

COUNTER = TokenCounter()
RESULT_CHARACTERS = 10_000
SUMMARY_LOSS = 0.3
_MASK_LAST = (10, 5, 2, 1)


class Arm(Protocol):
    """One way. `request` says what would be sent now, `add` takes the reply and its results."""

    extra_sent: int
    """Tokens of requests beside the run's own."""

    def request(self) -> tuple[Message, ...] | None:
        """The messages of the next request; None where it stops by itself."""
        ...

    def add(self, step: Step) -> None: ...

    def named_files(self) -> Mapping[str, str]:
        """The files that a name in the prompt can stand for: name -> text."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Turn:
    """A reply and its results, counted once."""

    messages: tuple[Message, ...]
    tokens: int
    masked: bool = False

    @classmethod
    def of(cls, *messages: Message, masked: bool = False) -> Turn:
        return cls(messages, sum(map(COUNTER.message, messages)), masked)


class Plain:
    """The arm `none`, and what the other plain arms share."""

    def __init__(self, history: History, budget: ContextBudget) -> None:
        self.history = history
        self.system = system(history.system)
        self.floor: Floor = COUNTER.floor(self.system, history.tools)
        self.budget = budget
        self.turns: list[Turn] = []
        self.notes = ""
        """What follows the task."""
        self.extra_sent = 0
        self._opening = 0
        self._state("")

    def request(self) -> tuple[Message, ...] | None:
        if self.size >= self.budget.trigger:
            self.shrink()
        rest = (message for turn in self.turns for message in turn.messages)
        return (self.system, self._first(), *rest)

    def add(self, step: Step) -> None:
        results = (
            tool_result(call.id, self.cut(output.text) or "(no output)")
            for call, output in zip(step.message.tool_calls, step.outputs, strict=True)
        )
        self.turns.append(Turn.of(step.message, *results))

    def named_files(self) -> Mapping[str, str]:
        return {}

    def close(self) -> None:
        """Nothing is open."""

    @property
    def size(self) -> int:
        return self.floor.total + self._opening + sum(turn.tokens for turn in self.turns)

    @property
    def room(self) -> Room:
        task = COUNTER.message(user(self.history.task))
        return Room.of(self.budget, self.floor, task)

    def shrink(self) -> None:
        """Bring the history below the trigger, if the idea can."""

    def cut(self, text: str) -> str:
        """A result as every plain arm takes it: head and tail."""
        limit = min(RESULT_CHARACTERS, self.budget.window.tokens)
        if len(text) <= limit:
            return text
        half = limit // 2
        return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"

    def _state(self, notes: str) -> None:
        self.notes = notes
        self._opening = COUNTER.message(self._first())

    def _first(self) -> Message:
        return user(f"{self.history.task}\n\n{self.notes}" if self.notes else self.history.task)


class TruncateOldest(Plain):
    """Drops turns from the old end."""

    @override
    def shrink(self) -> None:
        while len(self.turns) > 1 and self.size > self.room.target:
            del self.turns[0]


class MaskLast(Plain):
    """Replaces old results by a placeholder."""

    @override
    def shrink(self) -> None:
        for newest in _MASK_LAST:
            self.turns = [*map(self._masked, self.turns[:-newest]), *self.turns[-newest:]]
            if self.size < self.budget.trigger:
                break

    def _masked(self, turn: Turn) -> Turn:
        return turn if turn.masked else Turn.of(*map(self._placeholder, turn.messages), masked=True)

    def _placeholder(self, message: Message) -> Message:
        if message.role != "tool":
            return message
        line = f"[old output left out: {message.content.count(chr(10)) + 1} lines]"
        return tool_result(message.tool_call_id or "", line) if len(line) < len(message.content) else message


class Summary(Plain):
    """Lets a (scripted) model sum up what goes."""

    _times = 0

    @override
    def shrink(self) -> None:
        kept: list[Turn] = []
        room = self.room.share(0.25)
        for turn in reversed(self.turns):
            if kept and sum(one.tokens for one in kept) + turn.tokens > room:
                break
            kept.insert(0, turn)
        gone = self.turns[: len(self.turns) - len(kept)]
        if not gone:
            return
        text = "\n".join([self.notes, *(texts(message) for turn in gone for message in turn.messages)])
        self.extra_sent += min(COUNTER.text(text), self.budget.window.tokens)
        self._times += 1
        self.turns = kept
        self._state(self._written(text))

    def _written(self, text: str) -> str:
        lines = ["Summary of the work so far: the logs were counted part by part, as the task asks."]
        room = self.room.share(0.10) - COUNTER.text(lines[0])
        for fact in reversed(self.history.facts):
            if fact.text in text and self._remembers(fact.text):
                room -= COUNTER.text(fact.text) + 2
                if room < 0:
                    break
                lines.append(f"- {fact.text}")
        return "\n".join(lines)

    def _remembers(self, fact: str) -> bool:
        digest = hashlib.sha256(f"{self._times} {fact}".encode()).digest()
        return digest[0] / 256 >= SUMMARY_LOSS


class Ours:
    """chimera's own context manager, as the loop uses it."""

    def __init__(self, history: History, budget: ContextBudget) -> None:
        self.files = RunFiles.temporary()
        self.extra_sent = 0
        self.events: list[Event] = []
        self.context = Context(
            counter=COUNTER,
            schemas=history.tools,
            workspace=Workspace.open(self.files.path, run_dir=self.files.path),
            known=KnownFiles(),
            files=self.files,
            emit=self.events.append,
        )
        self.state: RunState = self.context.begin(history.system, history.task, budget, 0.0)

    def request(self) -> tuple[Message, ...] | None:
        self.state.stop = self.state.stop or self.context.fit(self.state)
        if self.state.stop is not None:
            return None
        self.state.steps += 1
        return self.context.request(self.state).messages

    def add(self, step: Step) -> None:
        for output in step.outputs:
            learn(self.state, output)
        self.context.admit(self.state, step.message, step.outputs)

    def named_files(self) -> Mapping[str, str]:
        return {
            f"@run/{folder.name}/{file.name}": file.read_text(encoding="utf-8")
            for folder in (self.files.outputs, self.files.archive)
            for file in folder.iterdir()
        }

    def close(self) -> None:
        shutil.rmtree(self.files.path, ignore_errors=True)


ARMS = ("none", "truncate-oldest", "mask-last-10", "summary", "note", "mask")


def make_arm(name: str, history: History, window: int, fraction: float = 0.6) -> Arm:
    """An arm at its beginning."""
    budget = ContextBudget(window=Window(tokens=window, source="argument"), fraction=fraction)
    match name:
        case "none":
            return Plain(history, budget)
        case "truncate-oldest":
            return TruncateOldest(history, budget)
        case "mask-last-10":
            return MaskLast(history, budget)
        case "summary":
            return Summary(history, budget)
        case "note" | "mask":
            return Ours(history, ContextBudget(window=budget.window, fraction=fraction, mode=name))
        case _:
            raise ValueError(f"no arm is named {name!r}; known: {', '.join(ARMS)}")


def texts(message: Message) -> str:
    """What a model reads of a message."""
    return "\n".join(_texts(message))


def _texts(message: Message) -> Iterator[str]:
    yield message.content
    for call in message.tool_calls:
        yield f"{call.name} {call.arguments}"


def prompt_text(messages: Sequence[Message]) -> str:
    """What a model reads of a request."""
    return "\n".join(map(texts, messages))
