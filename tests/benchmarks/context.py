"""The context manager against plainer ways to keep a history in a window, on the same histories, without any model.

    python -m tests.benchmarks.context [--windows 4000,8000,...] [--steps 100] [--by-history] [--no-bars] [--json] [RUN...]

RUN: run directories of recorded runs, beside the generated histories. What it shows is what each way keeps of a
history that is the same for all; whether a real model uses what is kept, and how well a real one sums up, it does not.
The arms are described in `context_arms.py`, the figures in the legend below the table. Exit code 1: a bar was missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

if not __package__:  # run by its path
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from chimera.replay import read_recording
from tests.benchmarks.context_arms import ARMS
from tests.benchmarks.context_bars import Bar, bars
from tests.benchmarks.context_histories import History, from_recording, generated, recorded
from tests.benchmarks.context_measures import AGES, Measured, add_up, measure

WINDOWS = (4_000, 8_000, 16_000, 32_000, 64_000)
_HEADINGS = (
    "window", "arm", "steps", "illegal", "task", "over T", "rewrites", "sent k", "cached",
    *(f"age <={high}" for high in AGES[:-1]), "older", "time",
)  # fmt: skip
_LEGEND = """\
steps: done of planned; an arm whose request exceeds the window is refused and ends there. illegal: requests that a
strict provider refuses. task: share of requests that hold it verbatim. over T: requests at or above the trigger.
rewrites: requests that change what the one before had sent. sent: tokens of all requests, thousands; cached: share of
them that repeats the request before. age: facts by steps since they came up: % verbatim in the prompt / % that can be
found by a name in the prompt / % lost. time: of the arm, over one json.dumps of each request."""


def histories(steps: int, runs: Sequence[Path] = ()) -> list[History]:
    """The histories of the table."""
    return [
        generated("source and logs, 4 KB", steps=steps, size=4_000, texts="realistic"),
        generated("digits, 4 KB", steps=steps, size=4_000, texts="digits"),
        generated("small results, 1 KB", steps=steps, size=1_000, texts="realistic"),
        generated("batches of 2 to 10, 1 KB", steps=max(1, steps // 3), size=1_000, texts="realistic", width=(2, 10)),
        recorded(max(1, steps * 2 // 5)),
        *(from_recording(read_recording(path), name=path.name) for path in runs),
    ]  # fmt: skip


def table(
    windows: Sequence[int], played: Sequence[History], *, by_history: bool
) -> Iterator[tuple[str, Measured]]:
    """Every arm in every window: summed over the histories, or each by itself. The name says of which history."""
    for window in windows:
        for arm in ARMS:
            measured = [(history.name, measure(arm, history, window)) for history in played]
            if by_history:
                yield from measured
            else:
                yield "all", add_up(one for _, one in measured)


def row(measured: Measured) -> tuple[str, ...]:
    """The cells under the headings."""
    facts = [
        "/".join(f"{100 * measured.fate(age, fate):.0f}" for fate in ("verbatim", "pointer", "lost"))
        for age in AGES
    ]
    values = measured.fields()
    return (
        f"{measured.window:,}", measured.arm, f"{measured.steps}/{measured.planned}", str(measured.illegal),
        f"{values['task_share']:.0%}", str(measured.over_trigger), str(measured.rewrites), f"{measured.sent / 1_000:,.0f}",
        f"{values['cacheable_share']:.0%}", *facts, f"{values['time_to_dumps']:.1f}",
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and the bars."""
    parser = argparse.ArgumentParser(description="Compare ways to keep a history in a window.")
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN")
    parser.add_argument("--windows", default=",".join(map(str, WINDOWS)))
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--history-bytes", type=int, default=1_000_000, help="for the bars in milliseconds")
    parser.add_argument("--by-history", action="store_true")
    parser.add_argument("--no-bars", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    windows = [int(word) for word in given.windows.split(",")]
    rows = [*table(windows, histories(given.steps, given.runs), by_history=given.by_history)]
    found = [] if given.no_bars else [*bars(steps=given.steps, history_bytes=given.history_bytes)]
    if given.json:
        print(json.dumps({
            "rows": [{"history": name, **measured.fields()} for name, measured in rows],
            "bars": [{"name": bar.name, "passed": bar.passed, "figures": bar.figures} for bar in found],
        }))  # fmt: skip
    else:
        _print(rows, found, by_history=given.by_history)
    return int(not all(bar.passed for bar in found))


def _print(rows: Sequence[tuple[str, Measured]], found: Sequence[Bar], *, by_history: bool) -> None:
    cells = [_HEADINGS, *(row(measured) for _, measured in rows)]
    names = ["history", *(name for name, _ in rows)] if by_history else [""] * len(cells)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for name, line in zip(names, cells, strict=True):
        padded = "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        print(f"{padded}  {name}".rstrip())
    print(f"\n{_LEGEND}")
    for bar in found:
        print(f"\n{'pass' if bar.passed else 'MISS'}  {bar.name}\n      {bar.figures}")


if __name__ == "__main__":
    sys.exit(main())
