"""What the outcomes of the context track come to, as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from statistics import mean, median

from msgspec import Struct

from chimera.bench.arms import PEER
from chimera.bench.context_run import INFINITE, Outcome
from chimera.bench.context_track import (
    ANY_ARM,
    ARMS,
    PEER_ARMS,
    PEER_WINDOWS,
    POLICIES,
    SEEDS,
    SUMMARY_ARMS,
    SUMMARY_WINDOW,
)
from chimera.bench.peers import installed

SUITES = ("context", "long")
"""What the bars are about."""
OURS = ("ours-note", "ours-mask")


class Report(Struct, frozen=True, dict=True):
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
        if any(self.of(arm=OURS[0], window=window, suites=SUITES) for window in PEER_WINDOWS):
            head = f"Compactors of other agents, {' and '.join(SUITES)}, seed {SEEDS[0]}"
            parts.append(f"{head}:\n\n{self._peers()}")
        return "\n\n".join(parts)

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

    def _peers(self) -> str:
        """Peers beside our baselines: the same runs for all of them."""
        here = {f"{PEER}{name}": version for name, version in installed().items()}
        rows = []
        for arm in ("truncate", "mask-10", "summary-lossy", *PEER_ARMS, OURS[0]):
            found = {
                window: [
                    o
                    for o in _of_main_table(self.of(arm=arm, window=window, suites=SUITES))
                    if o.cell.seed == SEEDS[0]
                ]
                for window in PEER_WINDOWS
            }
            counts = [f"{sum(o.solved for o in one)}/{len(one)}" if one else "-" for one in found.values()]
            played = [o for one in found.values() for o in one]
            name = f"{arm} {here[arm]}" if arm in here else arm
            if not played:
                rows.append([name, "not installed" if arm in PEER_ARMS else "not played", *["-"] * 4])
                continue
            rows.append(
                [
                    name,
                    *counts,
                    _ratio(played, lambda o: 100 * o.rewrites, lambda o: o.steps),
                    f"{sum(o.stop_reason == 'cannot_shrink' for o in played)}/{len(played)}",
                    f"{sum(o.false_done for o in played)}/{len(played)}",
                ]
            )
        windows = [f"{window // 1000}k" for window in PEER_WINDOWS]
        return _markdown(["arm", *windows, "rewrites / 100 steps", "stuck", "false done"], rows)

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
