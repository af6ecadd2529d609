"""How fast chimera is beside the least loops that could do its work, and beside the coding agents that are installed.

    python -m tests.benchmarks.speed --peer pi=/path/to/pi --peer mini=/path/to/mini --peer codex=/path/to/codex

The model is a server on the loopback interface that thinks no time, so all time is the agent's own, but for that of the
commands (`true`; `cat` of 2 KB) and of the loopback. Contestants take turns; a first round, which compiles modules and
fills the caches of the disk, is not counted. Read the ratios: a busy machine slows all alike, and time on a processor
less than time by the clock. Nothing is to be compared between two runs of this program.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from tests.benchmarks.contestants import Contestant, contestants
from tests.benchmarks.speed_run import SPANS, Load, SpeedRun, run_once

Runs = Mapping[str, Sequence[SpeedRun]]
Measure = Callable[[SpeedRun], float | None]
_EARLY, _LATE = SPANS[0], SPANS[-1]
_US = "chimera"


def main() -> int:
    """Measure and print. Returns 1 if a bar is missed."""
    options = _options()
    programs = dict(peer.split("=", 1) for peer in options.peer)
    taking_part = [
        one
        for one in contestants(programs)
        if not options.only or one.name in options.only or one.name == _US
    ]
    with tempfile.TemporaryDirectory(prefix="speed-modules-") as caches:
        short = _take_turns(
            taking_part, Load(steps=20, output_bytes=0, files=1000), options.rounds, Path(caches)
        )
        _print("20 steps of `true`", short, _EARLY)
        long: Runs = {}
        if options.long_rounds:
            load = Load(steps=200, output_bytes=2000, files=1000)
            long = _take_turns(taking_part, load, options.long_rounds, Path(caches), warm=False)
            _print("200 steps of 2 KB, nothing forgotten", long, *SPANS)
    return _judge(short, long)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="mini, pi or codex, also as pi:ANOTHER; or chimera. PATH may be a program and its script.",
    )
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="of those that take part")
    parser.add_argument("--rounds", type=int, default=3, help="of 20 steps")
    parser.add_argument("--long-rounds", type=int, default=1, help="of 200 steps")
    return parser.parse_args()


def _take_turns(
    taking_part: Sequence[Contestant], load: Load, rounds: int, caches: Path, *, warm: bool = True
) -> Runs:
    runs: dict[str, list[SpeedRun]] = {one.name: [] for one in taking_part}
    for number in range(rounds + warm):
        for one in taking_part:
            run = run_once(one, load, caches)
            if number >= warm:
                runs[one.name].append(run)
    return runs


def _ms(runs: Sequence[SpeedRun], measure: Measure) -> float | None:
    values = [value for run in runs if (value := measure(run)) is not None]
    return median(values) * 1000 if values else None


def _print(title: str, runs: Runs, *spans: tuple[int, int]) -> None:
    columns: dict[str, Measure] = {
        "first ms": lambda run: run.first_request_s,
        "cpu ms": lambda run: run.first_request_cpu_s,
    }
    for span in spans:
        columns[f"{span[0]}-{span[1]} ms"] = lambda run, span=span: run.step_s(span)  # type: ignore[misc]
        columns[f"{span[0]}-{span[1]} cpu"] = lambda run, span=span: run.step_cpu_s(span)  # type: ignore[misc]
    print(f"\n{title}: medians; in brackets how many times as long as {_US}")
    print(
        f"{'':18}",
        *(f"{name:>17}" for name in columns),
        f"{'whole cpu s':>12} {'RSS MB':>7} {'floor':>6} {'rewrites':>8}",
    )
    ours = {name: _ms(runs[_US], measure) for name, measure in columns.items()}
    for name, of_one in runs.items():
        cells = [_cell(_ms(of_one, measure), ours[column]) for column, measure in columns.items()]
        newest = of_one[-1]
        whole = median(run.cpu_s for run in of_one)
        peak = median(run.peak_rss_mb for run in of_one)
        print(f"{name:18}", *cells, f"{whole:12.2f} {peak:7.0f} {newest.floor_tokens:6} {newest.rewrites:8}")


def _cell(value: float | None, ours: float | None) -> str:
    if value is None or not ours:
        return f"{'-':>17}"
    return f"{value:9.1f} ({value / ours:5.2f})"


def _judge(short: Runs, long: Runs) -> int:
    """Print each bar with what was measured, and return 1 if one is missed."""
    bars: list[tuple[str, float | None, float]] = []

    def bar(text: str, value: float | None, at_most: float) -> None:
        bars.append((text, value, at_most))

    first: Measure = lambda run: run.first_request_s  # noqa: E731
    us = _ms(short[_US], first)
    absent = {"pi", "codex"} - {name.partition(":")[0] for name in short}
    for name in short:
        factor = {"pi": 0.5, "codex": 1.0}.get(name.partition(":")[0])
        if factor is not None and us:
            bar(f"first request over that of {name}", us / (_ms(short[name], first) or us), factor)
    if {"chimera litellm", "loop litellm"} <= short.keys():
        ratio = (_ms(short["chimera litellm"], first) or 0) / (_ms(short["loop litellm"], first) or 1)
        bar("first request by litellm over that of its loop", ratio, 1.05)
    bar("ms a step", _ms(short[_US], lambda run: run.step_s(_EARLY)), 5)
    if confined := short.get("chimera confined"):
        bar(
            "ms a step with sandbox and snapshots, 1,000 files",
            _ms(confined, lambda run: run.step_s(_EARLY)),
            50,
        )
    bar("tokens of the first request", short[_US][-1].floor_tokens, 1_150)
    if ours := long.get(_US):
        early, late = (_ms(ours, lambda run, span=span: run.step_s(span)) for span in (_EARLY, _LATE))  # type: ignore[misc]
        bar("ms a step at 200", late, 12)
        bar("growth from 20 to 200", late / early if late and early else None, 1.5)
        bar("MB at most", max(run.peak_rss_mb for run in ours), 60)
    print()
    for text, value, at_most in bars:
        held = value is not None and value <= at_most
        print(
            f"{'ok  ' if held else 'OVER'} {text}: {value if value is None else round(value, 2)} (at most {at_most})"
        )
    for name in sorted(absent):
        print(f"--   first request over that of {name}: not measured, for {name} did not take part")
    return int(any(value is None or value > at_most for _, value, at_most in bars))


if __name__ == "__main__":
    raise SystemExit(main())
