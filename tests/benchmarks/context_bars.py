"""The bars that the context manager must clear, each with its figures."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from chimera.core.compaction import compact
from chimera.core.context_budget import ContextBudget, Room
from chimera.core.ledger import CommandRun
from chimera.core.messages import ToolCall, assistant
from chimera.core.model import Window
from chimera.core.outputs import ToolOutput
from chimera.core.plan import Plan
from chimera.core.restoration import Restored
from tests.benchmarks.context_arms import COUNTER, Ours
from tests.benchmarks.context_histories import History, Step, generated, log_text, source_chunks
from tests.benchmarks.context_measures import measure

REPEATS = 15


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One bar and how it was met."""

    name: str
    passed: bool
    figures: str


def bars(*, steps: int = 100, history_bytes: int = 1_000_000) -> Iterator[Bar]:
    """All bars.

    Args:
        steps: of the long runs; 100 for the bars as they are meant, fewer to try the benchmark itself.
        history_bytes: of the history that is compacted and counted.
    """
    for texts in ("realistic", "digits"):
        history = generated(f"{steps} steps of 4 KB, {texts}", steps=steps, size=4_000, texts=texts)
        for fraction, most in ((0.6, 35), (0.85, 20)):
            yield _long_run(history, fraction, most)
    yield _turns_kept(steps)
    yield _compaction_time(history_bytes)
    yield _counting_time(history_bytes)


def _long_run(history: History, fraction: float, most: int) -> Bar:
    found = measure("note", history, 16_000, fraction=fraction)
    passed = (
        found.steps == found.planned == found.with_task
        and found.illegal == found.over_trigger == 0
        and found.rewrites <= most
    )
    return Bar(
        name=f"{history.name}, window 16,000, budget fraction {fraction:g}: at most {most} rewrites",
        passed=passed,
        figures=f"{found.steps}/{found.planned} steps, {found.illegal} illegal, task in {found.with_task}, "
        f"{found.over_trigger} at or above the trigger, {found.rewrites} rewrites",
    )


def _turns_kept(steps: int) -> Bar:
    """Results of 1 KB in a window of 64,000, over as many steps as it takes for three compactions or so."""
    history = generated("1 KB", steps=4 * steps, size=1_000, texts="realistic")
    budget = ContextBudget(window=Window(tokens=64_000, source="argument"))
    arm = Ours(history, budget)
    try:
        for step in history.steps:
            if arm.request() is None:
                break
            arm.add(step)
        kept = [event.fields["kept_turns"] for event in arm.events if event.type == "compaction"]
    finally:
        arm.close()
    return Bar(
        name="results of 1 KB, window 64,000: 6 turns verbatim after every compaction",
        passed=bool(kept) and min(kept) == 6 and arm.state.stop is None,
        figures=f"{len(kept)} compactions in {arm.state.steps} steps, turns kept: {kept}",
    )


def _long_history(size: int) -> tuple[Ours, History]:
    """An arm in a window so large that nothing is compacted, filled with `size` bytes of results."""
    history = generated(f"{size} bytes", steps=max(1, size // 4_000), size=4_000, texts="realistic")
    arm = Ours(history, ContextBudget(window=Window(tokens=10_000_000, source="argument")))
    for step in history.steps:
        arm.request()
        arm.add(step)
    return arm, history


def _compaction_time(size: int) -> Bar:
    arm, _ = _long_history(size)
    try:
        state = arm.state
        restored = Restored(plan=Plan(), ledger=state.ledger, file=None, archive="@run/archive/0001.md")
        budgets = {
            mode: ContextBudget(window=Window(tokens=64_000, source="argument"), mode=mode)
            for mode in ("note", "mask")
        }
        room = Room.of(budgets["note"], state.floor, state.history.task_tokens)
        dumps = _least(partial(json.dumps, [message.wire() for message in state.history.messages()]))
        spent = {
            mode: _least(partial(compact, state.history, restored, budget, room, COUNTER))
            for mode, budget in budgets.items()
        }
        changed = compact(state.history, restored, budgets["note"], room, COUNTER).changed
    finally:
        arm.close()
    figures = ", ".join(
        f"{mode} {seconds * 1e3:.1f} ms = {seconds / dumps:.1f} x json.dumps of it"
        for mode, seconds in spent.items()
    )
    return Bar(
        name=f"compact() of a history of {size / 1e6:g} MB: at most 50 ms",
        passed=changed and max(spent.values()) <= 0.050,
        figures=f"{figures} ({dumps * 1e3:.1f} ms)",
    )


def _counting_time(largest: int) -> Bar:
    """What a step adds for 4 KB of new text, at histories of three sizes."""
    sample = _sample()
    spent = {size: _step_time(size, sample) for size in (largest // 100, largest // 10, largest)}
    plain = _least(partial(COUNTER.text, sample))
    least, most = spent[min(spent)], spent[max(spent)]
    figures = ", ".join(f"{size // 1_000:,} KB: {seconds * 1e3:.2f} ms" for size, seconds in spent.items())
    return Bar(
        name="counting 4 KB of new text: at most 1 ms a step, whatever the history",
        passed=max(spent.values()) <= 0.001 and most <= 1.5 * least,
        figures=f"{figures}; one count of the text alone: {plain * 1e3:.2f} ms",
    )


def _sample() -> str:
    """4 KB of text: half source, half log."""
    rng = random.Random(4)
    return "\n".join([next(source_chunks(2_000, 4)), log_text(2_000, rng)])


def _step_time(size: int, sample: str) -> float:
    """What a step with that text takes behind a history of that size, while no compaction is needed."""
    arm, _ = _long_history(size)
    steps = iter([_step(sample, number) for number in range(REPEATS)])

    def step() -> None:
        arm.add(next(steps))
        arm.context.fit(arm.state)

    try:
        return _least(step)
    finally:
        arm.close()


def _step(sample: str, number: int) -> Step:
    command = f"python -m colony.count --ward {number}"
    call = ToolCall(id=f"new_{number}", name="shell", arguments=json.dumps({"command": command}))
    fact = CommandRun(command=command, exit_code=0)
    output = ToolOutput(text=f"{number}\n{sample}", digest=f"ran `{command}`: exit 0", facts=(fact,))
    return Step(message=assistant("I count on.", call), outputs=(output,))


def _least(run: Callable[[], object]) -> float:
    """Least processor time of some runs, in seconds: what the work itself takes, whatever else the machine does."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)
