"""What must hold of the context track: self-checks of the track, and the bars that ours must clear."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable

from msgspec import Struct

from chimera.bench.context_run import Outcome
from chimera.bench.context_table import OURS, SUITES, Report
from chimera.bench.context_track import ANY_ARM, ARMS, PERFECT, PERFECT_TASKS, POLICIES, WINDOWS
from chimera.bench.generators.catalogue import GENERATORS
from chimera.bench.statistics import mcnemar_exact

_BAR_WINDOWS = tuple(window for window in WINDOWS if window <= 16_000)
_CHANCE = 0.05
"""Of the exact test of pairs, above which a difference may be chance."""


class Bar(Struct, frozen=True, kw_only=True):
    """Something that must hold, whether it does, and the figures that say so."""

    name: str
    passed: bool
    figures: str


def bars(report: Report) -> list[Bar]:
    """The bars and self-checks that the outcomes at hand can say something about."""
    return [
        bar
        for look in (_endless, _null, _monotone, _beats, _loses_to_none, _whole, _thrift, _forced)
        for bar in look(report)
    ]


def _endless(report: Report) -> Iterable[Bar]:
    found = report.of(arm=ANY_ARM)
    if found:
        missed = sorted({f"{o.cell.task}/{o.cell.policy}/{o.cell.seed}" for o in found if not o.solved})
        yield Bar(
            name="without an end of the window every policy solves every task",
            passed=not missed,
            figures=f"{len(found) - len(missed)} of {len(found)}"
            + (f"; not {', '.join(missed)}" if missed else ""),
        )


def _null(report: Report) -> Iterable[Bar]:
    for window in (w for w in _BAR_WINDOWS if w <= 8_000):
        share = report.share("none", window, ("context",))
        if share is not None:
            yield Bar(
                name=f"without compaction the suite context cannot be done in {window:,} tokens",
                passed=share <= 0.05,
                figures=f"{share:.0%} solved",
            )


def _monotone(report: Report) -> Iterable[Bar]:
    perfect = [o for o in report.of(arm=PERFECT, policy="recall") if o.cell.task in PERFECT_TASKS]
    windows = sorted({outcome.cell.window for outcome in perfect})
    if len(windows) > 1:
        solved = [sum(o.solved for o in perfect if o.cell.window == window) for window in windows]
        yield Bar(
            name="with a perfect summary a larger window never solves less",
            passed=solved == sorted(solved),
            figures=", ".join(f"{w // 1000}k {count}" for w, count in zip(windows, solved, strict=True)),
        )


def _beats(report: Report) -> Iterable[Bar]:
    for window in _BAR_WINDOWS:
        shares = {arm: report.share(arm, window, SUITES) for arm in ("truncate", "mask-10", *OURS)}
        known = {arm: share for arm, share in shares.items() if share is not None}
        if len(known) == len(shares):
            yield Bar(
                name=f"in {window:,} tokens {OURS[0]} solves more than truncate and mask-10",
                passed=known[OURS[0]] > max(known["truncate"], known["mask-10"]),
                figures=", ".join(f"{arm} {share:.0%}" for arm, share in known.items()),
            )


def _loses_to_none(report: Report) -> Iterable[Bar]:
    """In every window and suite, pair by pair (task, policy, seed), by McNemar's exact test. It needs scipy."""
    if importlib.util.find_spec("scipy") is None:
        return
    lost, compared = [], 0
    for arm in (arm for arm in ARMS if arm not in OURS):
        for window in WINDOWS:
            for suite in sorted({outcome.suite for outcome in report.outcomes}):
                theirs = {_pair(o): o.solved for o in report.of(arm=arm, window=window, suites=(suite,))}
                ours = {_pair(o): o.solved for o in report.of(arm=OURS[0], window=window, suites=(suite,))}
                both = theirs.keys() & ours.keys()
                better = sum(ours[key] and not theirs[key] for key in both)
                worse = sum(theirs[key] and not ours[key] for key in both)
                compared += bool(both)
                if worse > better and mcnemar_exact(worse, better) < _CHANCE:
                    lost.append(f"{arm} in {window:,} tokens on {suite}: {worse} to {better}")
    if compared:
        yield Bar(
            name=f"{OURS[0]} loses to no other arm in any window and suite by more than chance",
            passed=not lost,
            figures="; ".join(lost) if lost else f"{compared} comparisons of pairs",
        )


def _pair(outcome: Outcome) -> tuple[str, str, int]:
    return outcome.cell.task, outcome.cell.policy, outcome.cell.seed


def _whole(report: Report) -> Iterable[Bar]:
    ours = [outcome for arm in OURS for outcome in report.of(arm=arm)]
    if ours:
        faults = {
            name: sum(getattr(outcome, name) for outcome in ours)
            for name in ("task_missing", "rules_missing", "orphans", "over_window")
        }
        yield Bar(
            name="ours keeps task and rules in every request, no orphans, none over the window",
            passed=not any(faults.values()),
            figures=", ".join(f"{name} {count}" for name, count in faults.items()),
        )


def _thrift(report: Report) -> Iterable[Bar]:
    for arm in OURS:
        sent = {w: ratio for w in _BAR_WINDOWS if (ratio := report.resent(arm, w)) is not None}
        if sent:
            yield Bar(
                name=f"{arm} sends at most half of the tokens that no compaction sends",
                passed=max(sent.values()) <= 0.5,
                figures=", ".join(f"{window // 1000}k {ratio:.2f}" for window, ratio in sent.items()),
            )


def _forced(report: Report) -> Iterable[Bar]:
    """Each task takes three times its window without compaction, and compacts as often as it declares."""
    for name in POLICIES:
        endless = [o for o in report.of(arm=ANY_ARM, suites=SUITES) if o.cell.task == name]
        if not endless:
            continue
        task = GENERATORS[name](endless[0].cell.seed)
        least = min(outcome.peak for outcome in endless)
        counts = [
            o.compactions
            for o in report.of(arm="ours-note", window=task.window)
            if o.cell.task == name and o.solved
        ]
        yield Bar(
            name=f"{name} forces its compactions",
            passed=least >= 3 * task.window and (not counts or min(counts) >= task.min_compactions),
            figures=f"peak {least:,} for a window of {task.window:,}; compactions at least "
            f"{min(counts) if counts else 'unknown'}, {task.min_compactions} declared",
        )
