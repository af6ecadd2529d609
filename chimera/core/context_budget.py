"""The numbers of the context budget, and the floor check. Arithmetic only.

    window W    what the model takes in one request
    budget B    share of W that is spent on the prompt
    trigger T   share of B at which compaction runs
    floor F     system message and tool schemas, on every request
    task K      the user's task, on every request
    room        T - F - K: what turns, state and note share; every cap is a share of it, never a bare constant

All in tokens. Why these shares: a turn at its cap with plan, file and note (0.49 of the room) stays below the target
(0.5), so no result can make a compaction tight, and at least two more turns fit before the next one.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from chimera.config import CompactionMode
from chimera.core.model import Window
from chimera.core.tokens import Calibration, Floor

DEFAULT_BUDGET_FRACTION = 0.6
"""The other 0.4 of the window pays for the completion and for what the estimate misses."""
DEFAULT_TRIGGER_FRACTION = 0.8
DEFAULT_KEEP_TURNS = 6
UNKNOWN_WINDOW = 16_384
TARGET_SHARE = 0.5
"""Of the room: where a compaction lands. Just under the trigger it would run again at almost every step."""
MIN_GAIN_SHARE = 0.05
"""Of the room: a compaction that frees less has not changed anything."""
TURN_SHARE = 0.20
PLAN_SHARE = 0.10
FILE_SHARE = 0.08
NOTE_SHARE = 0.11
"""As much as keeps the sum of the caps below the target. `chimera bench context` (scripted; suites context and long, three
seeds, 63 runs a window) solved 17, 42, 44 and 48 in 4k, 8k, 12k and 16k with it and with older changes listed by name,
instead of 16, 41, 42 and 42 with 0.08 and without the names."""
SUMMARY_SHARE = 0.05
"""With `--compaction summary`; the note then makes do with as much, so that turn, state and both stay below the target."""
REFUSED_SHARE = 0.85
"""Of a request that was refused for its size: the window we believe in where the provider names no limit."""

Part = Literal["floor", "task", "pinned", "tail"]


class ContextBudget(Struct, frozen=True, kw_only=True):
    """How the window is spent."""

    window: Window
    fraction: float = DEFAULT_BUDGET_FRACTION
    trigger_fraction: float = DEFAULT_TRIGGER_FRACTION
    keep_turns: int = DEFAULT_KEEP_TURNS
    mode: CompactionMode = "note"
    calibration: Calibration = field(default_factory=Calibration)

    @property
    def budget(self) -> int:
        """B: tokens for the prompt."""
        return _share(self.window.tokens, self.fraction)

    @property
    def trigger(self) -> int:
        """T: at or above this size a request is compacted before it is sent."""
        return _share(self.budget, self.trigger_fraction)

    def with_window(self, window: Window) -> ContextBudget:
        """The same shares of another window."""
        return replace(self, window=window)

    def observe(self, estimate: int, reported: int) -> ContextBudget:
        """The same budget, calibrated by one more reported prompt size."""
        return replace(self, calibration=self.calibration.observe(estimate, reported))


class Room(Struct, frozen=True, kw_only=True):
    """What is left under the trigger for turns, state and note. All sizes are estimates (uncalibrated).

    The trigger is divided by the calibration factor instead of multiplying every count by it: the comparisons are the
    same, and whatever works inside the room needs no factor.
    """

    trigger: int
    fixed: int
    """F + K."""

    @classmethod
    def of(cls, budget: ContextBudget, floor: Floor, task_tokens: int) -> Room:
        """The room of a run as calibrated now."""
        # An estimate is below this exactly when its size is below T.
        trigger = budget.calibration.estimate(budget.trigger - 1) + 1
        return cls(trigger=trigger, fixed=floor.total + task_tokens)

    @property
    def size(self) -> int:
        """T - F - K; negative where nothing fits."""
        return self.trigger - self.fixed

    @property
    def target(self) -> int:
        """The size of a whole request that a compaction aims for."""
        return self.fixed + self.share(TARGET_SHARE)

    @property
    def min_gain(self) -> int:
        return max(1, self.share(MIN_GAIN_SHARE))

    @property
    def turn_cap(self) -> int:
        return self.share(TURN_SHARE)

    def completion_cap(self, pinned: int) -> int:
        """What one more turn could take at most with state and note in place: no reply may be longer.

        Args:
            pinned: tokens of the user's newest message, which stays whole beside them.
        """
        most = self.share(1 - PLAN_SHARE - FILE_SHARE - NOTE_SHARE)
        return max(1, self.turn_cap, most - pinned)

    def share(self, fraction: float) -> int:
        """A share of the room, 0 where there is none."""
        return _share(max(0, self.size), fraction)


class Shortfall(Struct, frozen=True, kw_only=True):
    """Why the request cannot fit, however the history is shrunk."""

    part: Part
    message: str


def check_floor(
    budget: ContextBudget, floor: Floor, task_tokens: int, compact_total: int
) -> Shortfall | None:
    """Whether a step can fit at all, before anything is spent. `compact_total` is the floor with compacted schemas."""
    if budget.calibration.size(floor.total) >= budget.trigger:
        part: Part = "floor"
        what, count = "The floor of every request", floor.total
    elif budget.calibration.size(floor.total + task_tokens) >= budget.trigger:
        part = "task"
        what, count = "Floor and task together", floor.total + task_tokens
    else:
        return None
    size = budget.calibration.size(count)
    counted = (
        f"{count:,} tokens"
        if size == count
        else f"{count:,} tokens as counted, {size:,} as this model counts"
    )
    head = f"{what} ({counted}) does not fit below the trigger ({budget.trigger:,} tokens)."
    lines = [
        head,
        *floor_ledger(budget, floor, task_tokens),
        _remedy(budget, floor, task_tokens, compact_total),
    ]
    return Shortfall(part=part, message="\n".join(lines))


def floor_ledger(budget: ContextBudget, floor: Floor, task_tokens: int = 0) -> list[str]:
    """The table of fixed costs: window, budget, trigger, floor by part, largest tool first."""
    window = budget.window
    rows = [
        ("window", window.tokens, f"({window.source})"),
        ("budget", budget.budget, f"({budget.fraction:g} of the window)"),
        ("trigger", budget.trigger, f"({budget.trigger_fraction:g} of the budget)"),
        ("floor", floor.total, "(re-sent on every step)"),
        ("  system message", floor.system, ""),
    ]
    if floor.instructions:
        rows.append(("    AGENTS.md in it", floor.instructions, ""))
    rows += _tool_rows(floor)
    if task_tokens:
        rows.append(("task", task_tokens, ""))
    width = max(len(name) for name, _, _ in rows)
    return [f"  {name:<{width}}  {size:>10,}  {remark}".rstrip() for name, size, remark in rows]


def floor_fields(floor: Floor) -> dict[str, Any]:
    """The floor as it stands in results and events. `instructions` is a part of `system`."""
    return {
        "total": floor.total,
        "system": floor.system,
        "tools": dict(floor.tools),
        "instructions": floor.instructions,
    }


def _tool_rows(floor: Floor) -> list[tuple[str, int, str]]:
    """Tools and servers, the most expensive first; under each server its tools."""
    entries: list[tuple[int, list[tuple[str, int, str]]]] = []
    imported: set[str] = set()
    for server, tools in floor.servers.items():
        imported |= tools.keys()
        total = sum(tools.values())
        rows = [(f"  server {server}", total, f"({len(tools)} {'tool' if len(tools) == 1 else 'tools'})")]
        ordered = sorted(tools.items(), key=lambda item: -item[1])
        entries.append((total, rows + [(f"    {name}", size, "") for name, size in ordered]))
    entries += [
        (size, [(f"  {name}", size, "")]) for name, size in floor.tools.items() if name not in imported
    ]
    return [row for _, rows in sorted(entries, key=lambda entry: -entry[0]) for row in rows]


def _remedy(budget: ContextBudget, floor: Floor, task_tokens: int, compact_total: int) -> str:
    size = budget.calibration.size(floor.total + task_tokens)
    window = math.ceil((size + 1) / (budget.fraction * budget.trigger_fraction))
    while budget.with_window(Window(tokens=window, source="")).trigger <= size:
        window += 1
    saving = floor.total - compact_total
    ways = [f"a window of at least {window:,} tokens (--window)"]
    if floor.servers:
        server, tools = next(iter(floor.servers.items()))
        ways.append(
            f"no server {server}, whose tools cost {sum(tools.values()):,} tokens, or fewer of its {len(tools)} tools (--tools, "
            "or the filter in its file)"
        )
    elif floor.tools:
        ways.append("fewer tools (--tools)")
    if floor.instructions > floor.total / 4:
        ways.append("a shorter AGENTS.md")
    if saving > 0:
        ways.append(f"--compact-schemas, which saves {saving:,} tokens here")
    if task_tokens > floor.total:
        ways.insert(0, "a shorter task (put long material into a file and name it)")
    return "What would make it fit: " + "; ".join(ways) + "."


def _share(whole: int, fraction: float) -> int:
    # Rounding first: 0.8 x 0.6 must not lose a token to binary fractions.
    return math.floor(round(whole * fraction, 6))
