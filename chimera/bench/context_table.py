"""What the outcomes of the context track come to: the table, the self-checks of the track, and the bars that ours must clear."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import mean, median

from chimera.bench.context_run import INFINITE, Outcome
from chimera.bench.context_track import (
    ANY_ARM,
    ARMS,
    PERFECT,
    PERFECT_TASKS,
    POLICIES,
    SUMMARY_ARMS,
    SUMMARY_WINDOW,
    WINDOWS,
)
from chimera.bench.generators.catalogue import GENERATORS

SUITES = ("context", "long")
"""What the bars are about."""
OURS = ("ours-note", "ours-mask")
_BAR_WINDOWS = tuple(window for window in WINDOWS if window <= 16_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Something that must hold, whether it does, and the figures that say so."""

    name: str
    passed: bool
    figures: str


@dataclass(frozen=True)
class Report:
    """Outcomes, added up. All results are scripted."""

    outcomes: Sequence[Outcome]

    def table(self) -> str:
        """The tables as Markdown."""
        parts = [f"Scripted policies only; {len(self.outcomes):,} runs, seeds {self._seeds()}."]
        parts += [
            f"Solved, {' and '.join(suites)}:\n\n{self._solved(suites)}"
            for suites in (("context",), ("long",), ("tools", "basics"))
            if any(outcome.suite in suites for outcome in self.outcomes)
        ]
        parts.append(f"Prices and invariants, {' and '.join(SUITES)}:\n\n{self._prices()}")
        if self.of(arm=SUMMARY_ARMS[0]):
            parts.append(f"Summarisers at {SUMMARY_WINDOW:,} tokens, by policy:\n\n{self._summaries()}")
        return "\n\n".join(parts)

    def bars(self) -> list[Bar]:
        """The bars and self-checks that the outcomes at hand can say something about."""
        return [
            bar
            for look in (_endless, _null, _monotone, _beats, _whole, _thrift, _forced)
            for bar in look(self)
        ]

    def of(
        self,
        *,
        arm: str | None = None,
        window: int | None = None,
        suites: Iterable[str] | None = None,
        policy: str | None = None,
    ) -> list[Outcome]:
        """The outcomes of these."""
        wanted = None if suites is None else set(suites)
        return [
            outcome
            for outcome in self.outcomes
            if (arm is None or outcome.cell.arm == arm)
            and (window is None or outcome.cell.window == window)
            and (wanted is None or outcome.suite in wanted)
            and (policy is None or outcome.cell.policy == policy)
        ]

    def twin(self, outcome: Outcome) -> Outcome | None:
        """The same task, policy and seed in a window without end."""
        return self._twins.get((outcome.cell.task, outcome.cell.policy, outcome.cell.seed))

    def share(self, arm: str, window: int, suites: Iterable[str]) -> float | None:
        """Solved share; None where nothing was played."""
        found = self.of(arm=arm, window=window, suites=suites)
        return mean(outcome.solved for outcome in found) if found else None

    def resent(self, arm: str, window: int) -> float | None:
        """Median over solved runs: tokens sent over those of the twin without end."""
        ratios = [
            outcome.sent / twin.sent
            for outcome in self.of(arm=arm, window=window, suites=SUITES)
            if outcome.solved and (twin := self.twin(outcome)) is not None and twin.solved
        ]
        return median(ratios) if ratios else None

    @cached_property
    def _twins(self) -> dict[tuple[str, str, int], Outcome]:
        return {(o.cell.task, o.cell.policy, o.cell.seed): o for o in self.of(arm=ANY_ARM)}

    def _seeds(self) -> str:
        return ", ".join(map(str, sorted({outcome.cell.seed for outcome in self.outcomes})))

    def _windows(self) -> list[int]:
        return sorted({outcome.cell.window for outcome in self.outcomes} - {INFINITE})

    def _solved(self, suites: Sequence[str]) -> str:
        windows = self._windows()
        rows = []
        for arm in ARMS:
            counts = []
            for window in windows:
                found = _of_main_table(self.of(arm=arm, window=window, suites=suites))
                counts.append(f"{sum(o.solved for o in found)}/{len(found)}" if found else "-")
            rows.append([arm, *counts])
        endless = self.of(arm=ANY_ARM, window=INFINITE, suites=suites)
        shown = f"{sum(o.solved for o in endless)}/{len(endless)}" if endless else "-"
        rows = [[*row, shown] for row in rows]
        return _markdown(
            ["arm", *(f"{window // 1000}k" for window in windows), "no end (all policies)"], rows
        )

    def _prices(self) -> str:
        columns: list[tuple[str, Callable[[list[Outcome]], str]]] = [
            ("task kept", lambda found: _kept(found, "task_missing")),
            ("rules kept", lambda found: _kept(found, "rules_missing")),
            ("orphans", lambda found: str(sum(o.orphans for o in found))),
            ("over window", lambda found: str(sum(o.over_window for o in found))),
            ("false done", lambda found: f"{sum(o.false_done for o in found)}/{len(found)}"),
            (
                "rewrites / 100 steps",
                lambda found: _ratio(found, lambda o: 100 * o.rewrites, lambda o: o.steps),
            ),
            ("prefix shared", lambda found: _ratio(found, lambda o: o.cacheable, lambda o: o.sent, 2)),
            ("summariser", lambda found: _ratio(found, lambda o: o.summariser, lambda o: o.sent, 2)),
        ]
        rows = []
        for arm in ARMS:
            found = [o for o in _of_main_table(self.of(arm=arm, suites=SUITES)) if o.steps]
            if not found:
                continue
            longer = [o.steps / t.steps for o in found if o.solved and (t := self.twin(o)) and t.solved]
            sent = [value for w in self._windows() if (value := self.resent(arm, w)) is not None]
            steps = f"{median(longer):.2f}" if longer else "-"
            tokens = f"{min(sent):.2f} to {max(sent):.2f}" if sent else "-"
            rows.append([arm, *(show(found) for _, show in columns), steps, tokens])
        head = ["arm", *(name for name, _ in columns), "steps / no end", "tokens sent / no end"]
        return _markdown(head, rows)

    def _summaries(self) -> str:
        policies = ("recall", "rereader", "obedient")
        rows = []
        for arm in (*SUMMARY_ARMS, *OURS):
            row = [arm]
            for policy in policies:
                found = [
                    outcome
                    for outcome in self.of(arm=arm, window=SUMMARY_WINDOW, suites=SUITES, policy=policy)
                    if outcome.cell.seed == min(o.cell.seed for o in self.outcomes)
                ]
                row.append(f"{sum(o.solved for o in found)}/{len(found)}" if found else "-")
            rows.append(row)
        return _markdown(["arm", *policies], rows)


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
            best = max(known[arm] for arm in OURS)
            yield Bar(
                name=f"in {window:,} tokens ours solves more than truncate and mask-10",
                passed=best > max(known["truncate"], known["mask-10"]),
                figures=", ".join(f"{arm} {share:.0%}" for arm, share in known.items()),
            )


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


def _of_main_table(found: list[Outcome]) -> list[Outcome]:
    """Those of the policies that play a task in all arms."""
    return [outcome for outcome in found if outcome.cell.policy in POLICIES[outcome.cell.task]]


def _kept(found: list[Outcome], missing: str) -> str:
    requests = sum(outcome.steps for outcome in found)
    return f"{1 - sum(getattr(outcome, missing) for outcome in found) / requests:.2f}"


def _ratio(
    found: list[Outcome], above: Callable[[Outcome], int], below: Callable[[Outcome], int], digits: int = 0
) -> str:
    return f"{sum(map(above, found)) / max(1, sum(map(below, found))):.{digits}f}"


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)
