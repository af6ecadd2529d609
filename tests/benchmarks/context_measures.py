"""What the context benchmark measures of an arm over a history."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from chimera.core.context_budget import ContextBudget
from chimera.core.messages import Message
from chimera.core.model import Window
from tests.benchmarks.context_arms import COUNTER, Arm, make_arm, prompt_text
from tests.benchmarks.context_histories import History, Planted
from tests.strict_provider import violations

AGES = (10, 30, 10**9)
"""Upper ends, in steps since a fact was planted."""
Fate = Literal["verbatim", "pointer", "lost"]
_EVERY = 5
"""Requests between two looks at the facts."""
_NAME = re.compile(r"@run/(?:outputs|archive)(?:/\d+\.\w+)?")


@dataclass(kw_only=True)
class Measured:
    """Sums over the requests of one arm over one history, or over several."""

    arm: str
    window: int
    steps: int = 0
    planned: int = 0
    illegal: int = 0
    with_task: int = 0
    over_trigger: int = 0
    rewrites: int = 0
    sent: int = 0
    cacheable: int = 0
    ends: list[str] = field(default_factory=list)
    """Why it ended before its history did."""
    facts: dict[tuple[int, Fate], int] = field(default_factory=dict)
    seconds: float = 0.0
    dumps_seconds: float = 0.0

    def __add__(self, other: Measured) -> Measured:
        both = Measured(arm=self.arm, window=self.window, ends=[*self.ends, *other.ends])
        for name in ("steps", "planned", "illegal", "with_task", "over_trigger", "rewrites", "sent", "cacheable", "seconds", "dumps_seconds"):  # fmt: skip
            setattr(both, name, getattr(self, name) + getattr(other, name))
        both.facts = {
            key: self.facts.get(key, 0) + other.facts.get(key, 0) for key in {*self.facts, *other.facts}
        }
        return both

    def fate(self, age: int, fate: Fate) -> float:
        """Share of the facts of an age that met a fate, over all looks at them; 0 where there was none."""
        seen = sum(self.facts.get((age, one), 0) for one in ("verbatim", "pointer", "lost"))
        return self.facts.get((age, fate), 0) / seen if seen else 0.0

    def fields(self) -> dict[str, Any]:
        """The figures as JSON values."""
        return {
            "arm": self.arm,
            "window": self.window,
            "steps": self.steps,
            "planned": self.planned,
            "ends": self.ends,
            "illegal": self.illegal,
            "task_share": round(self.with_task / max(1, self.steps), 4),
            "over_trigger": self.over_trigger,
            "rewrites": self.rewrites,
            "tokens_sent": self.sent,
            "cacheable_share": round(self.cacheable / max(1, self.sent), 4),
            "facts": {
                f"age {low}-{high if high < 10**9 else ''}": {
                    fate: round(self.fate(high, fate), 4) for fate in ("verbatim", "pointer", "lost")
                }
                for low, high in zip((1, *(age + 1 for age in AGES)), AGES, strict=False)
            },
            "time_to_dumps": round(self.seconds / max(1e-9, self.dumps_seconds), 3),
        }


def measure(name: str, history: History, window: int, *, fraction: float = 0.6) -> Measured:
    """Run one arm over one history."""
    arm = make_arm(name, history, window, fraction)
    try:
        return _Measurement(name, history, window, fraction, arm).run()
    finally:
        arm.close()


class _Measurement:
    def __init__(self, name: str, history: History, window: int, fraction: float, arm: Arm) -> None:
        self.history = history
        self.arm = arm
        self.trigger = ContextBudget(
            window=Window(tokens=window, source="argument"), fraction=fraction
        ).trigger
        self.result = Measured(arm=name, window=window, planned=len(history.steps))
        self.floor = 0
        self.sizes: dict[int, tuple[Message, int]] = {}
        self.before: tuple[Message, ...] = ()

    def run(self) -> Measured:
        for number, step in enumerate(self.history.steps):
            messages = self._timed()
            if messages is None:
                self.result.ends.append("stops itself")
                break
            if not self._look(number, messages):
                self.result.ends.append("refused")
                break
            start = time.process_time()
            self.arm.add(step)
            self.result.seconds += time.process_time() - start
        self.result.sent += self.arm.extra_sent
        return self.result

    def _timed(self) -> tuple[Message, ...] | None:
        start = time.process_time()
        messages = self.arm.request()
        self.result.seconds += time.process_time() - start
        if messages is not None:
            wires = [message.wire() for message in messages]
            start = time.process_time()
            json.dumps(wires)
            self.result.dumps_seconds += time.process_time() - start
        return messages

    def _look(self, number: int, messages: tuple[Message, ...]) -> bool:
        """Measure one request; False where a provider would refuse it for its size."""
        result = self.result
        sizes = [self._size(message) for message in messages]
        total = sum(sizes) + self._tools()
        if total > result.window:
            return False
        result.steps += 1
        result.sent += total
        result.over_trigger += total >= self.trigger
        result.illegal += bool(violations([message.wire() for message in messages]))
        result.with_task += any(self.history.task in message.content for message in messages)
        same = _common(self.before, messages)
        if self.before:
            result.rewrites += same < len(self.before)
            result.cacheable += sum(sizes[:same]) + self._tools()
        self.before = messages
        if number % _EVERY == _EVERY - 1:
            self._facts(number, messages)
        return True

    def _facts(self, number: int, messages: Sequence[Message]) -> None:
        prompt = prompt_text(messages)
        named = _reachable(prompt, self.arm.named_files())
        for fact in self.history.facts:
            age = number - fact.step
            if age >= 1:
                key = next(high for high in AGES if age <= high), _fate(fact, prompt, named)
                self.result.facts[key] = self.result.facts.get(key, 0) + 1

    def _size(self, message: Message) -> int:
        # By identity: the messages live as long as this measurement, and most stay the same from step to step.
        if id(message) not in self.sizes:
            self.sizes[id(message)] = message, COUNTER.message(message)
        return self.sizes[id(message)][1]

    def _tools(self) -> int:
        self.floor = self.floor or sum(map(COUNTER.schema, self.history.tools)) + 3
        return self.floor


def _common(before: Sequence[Message], after: Sequence[Message]) -> int:
    """Messages at the beginning that are the same."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(before), len(after)))


def _reachable(prompt: str, files: Mapping[str, str]) -> str:
    """The text of every file of the run that the prompt names, itself or by its folder."""
    names = set(_NAME.findall(prompt))
    return "\n".join(
        text for name, text in files.items() if name in names or name.rpartition("/")[0] in names
    )


def _fate(fact: Planted, prompt: str, named: str) -> Fate:
    """Where a fact is. A file of the workspace can be read again as long as the prompt says that it was read."""
    if fact.text in prompt:
        return "verbatim"
    if fact.text in named or (fact.path is not None and fact.path in prompt):
        return "pointer"
    return "lost"


def add_up(measured: Iterable[Measured]) -> Measured:
    """The sum of some measurements of one arm."""
    first, *rest = measured
    for other in rest:
        first = first + other
    return first
