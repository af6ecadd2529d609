"""Two arms on the same tasks, trial by trial: is one better, and what can these trials not show?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from chimera.bench.aggregate import FinishedJob, arm_label
from chimera.bench.row import SCORED, Row
from chimera.bench.statistics import (
    difference_interval,
    holm,
    mcnemar_exact,
    pairs_to_show,
    ratio_interval,
)
from chimera.errors import ConfigError

DEFAULT_MARGIN = 0.05
"""How much worse B may be and still count as not worse: 5 points."""
LEAST_DISCORDANT = 6
"""With fewer pairs that differ, no exact test can come out below 0.05."""

Pair = tuple[str, int | None, int]


class Contender(Struct, frozen=True, kw_only=True):
    """One arm of a job."""

    label: str
    digests: Mapping[str, str]
    """Of its tasks, by name."""
    rows: Mapping[Pair, Row]
    """By task digest, seed and attempt; those that count in a rate."""
    planned: int
    """Trials it was to have, graded or not."""
    comparable: bool


def contenders(jobs: Sequence[FinishedJob]) -> list[Contender]:
    """Every arm of these jobs, in order."""
    found = []
    for job in jobs:
        arms = list(job.record.settings["arms"]) or [""]
        for arm in arms:
            rows = [row for row in job.rows if row.arm == arm]
            found.append(
                Contender(
                    label=f"{job.record.job}: {arm_label(job, arm)}"
                    if len(jobs) > 1
                    else arm_label(job, arm),
                    digests=job.record.tasks,
                    rows={(r.task_digest, r.seed, r.attempt): r for r in rows if r.status in SCORED},
                    planned=len(job.record.planned) // len(arms),
                    comparable=all(row.comparable for row in rows),
                )
            )
    return found


class Comparison(Struct, frozen=True, kw_only=True):
    """B against A over their pairs. Rates from 0 to 1."""

    a: str
    b: str
    pairs: int
    tasks: int
    unpaired: int
    """Graded trials of either that have no partner, and so do not count."""
    ungraded_a: int
    """Planned trials without a grade: they cannot count."""
    ungraded_b: int
    passed_a: int
    passed_b: int
    only_a: int
    only_b: int
    difference: float
    """B's rate minus A's."""
    difference_low: float
    difference_high: float
    p_value: float
    """McNemar's, exact and two-sided."""
    p_adjusted: float
    """After Holm, for all comparisons that were asked for at once."""
    margin: float
    tokens_a: float | None
    """Mean of a pair's trial, where both sides know."""
    tokens_b: float | None
    tokens_ratio: float | None
    tokens_ratio_low: float | None
    tokens_ratio_high: float | None
    warnings: tuple[str, ...]

    @property
    def not_worse(self) -> bool:
        """B is not worse by more than the margin, as far as a 95 % interval can tell."""
        return self.difference_low > -self.margin

    @property
    def pairs_needed(self) -> int | None:
        """About how many pairs would show it, if they differ as often as these; None if they then could not."""
        return pairs_to_show(self.only_a / self.pairs, self.only_b / self.pairs, self.margin)

    def fields(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            **asdict(self),
            "warnings": list(self.warnings),
            "not_worse": self.not_worse,
            "pairs_needed": self.pairs_needed,
        }

    def text(self) -> str:
        """For people."""
        rows = [
            ("", "A", "B", ""),
            (
                "pass",
                _share(self.passed_a, self.pairs),
                _share(self.passed_b, self.pairs),
                f"diff {_points(self.difference)} pts [{_points(self.difference_low)}, "
                f"{_points(self.difference_high)}]  McNemar exact p {self.p_value:.2g} (A only {self.only_a}, "
                f"B only {self.only_b})" + self._adjusted(),
            ),
        ]
        if self.tokens_a is not None and self.tokens_b is not None and self.tokens_ratio is not None:
            rows.append(
                (
                    "tokens/trial",
                    f"{self.tokens_a:,.0f}",
                    f"{self.tokens_b:,.0f}",
                    f"ratio {self.tokens_ratio:.2f} {self._ratio_interval()}",
                )
            )
        widths = [max(len(row[n]) for row in rows) for n in range(3)]
        lines = ["  ".join([*(row[n].ljust(widths[n]) for n in range(3)), row[3]]).rstrip() for row in rows]
        head = [f"A: {self.a}", f"B: {self.b}", f"{self.pairs} pairs of trials, {self.tasks} tasks"]
        return "\n".join(
            [*head, *lines, self._verdict(), *(f"warning: {warning}" for warning in self.warnings)]
        )

    def _ratio_interval(self) -> str:
        if self.tokens_ratio_low is None or self.tokens_ratio_high is None:
            return "(of one task, so without an interval)"
        return f"[{self.tokens_ratio_low:.2f}, {self.tokens_ratio_high:.2f}]  paired bootstrap by task"

    def _adjusted(self) -> str:
        return "" if self.p_adjusted == self.p_value else f", {self.p_adjusted:.2g} after Holm"

    def _verdict(self) -> str:
        asked = f"not worse than {self.margin * 100:g} points? "
        if self.not_worse:
            return f"{asked} yes (lower bound {_points(self.difference_low)})"
        needed = self.pairs_needed
        more = (
            f"; {self.pairs} pairs cannot show it, about {needed:,} would if the difference is what it seems"
            if needed is not None and needed > self.pairs
            else ""
        )
        return f"{asked} no (lower bound {_points(self.difference_low)}){more}"


def compare(found: Sequence[Contender], *, margin: float = DEFAULT_MARGIN) -> tuple[Comparison, ...]:
    """Every other contender against the first one, the p-values adjusted for how many there are.

    Raises:
        ConfigError: there are not two, they ran different tasks, or no trial of one has a partner.
    """
    if len(found) < 2:
        raise ConfigError("a comparison needs two arms: give two jobs, or one with several arms")
    first, *others = found
    raw = [_compared(first, other, margin) for other in others]
    adjusted = holm([one["p_value"] for one in raw])
    return tuple(Comparison(**one, p_adjusted=p) for one, p in zip(raw, adjusted, strict=True))


def _compared(a: Contender, b: Contender, margin: float) -> dict[str, Any]:
    _check_tasks(a, b)
    shared = sorted(a.rows.keys() & b.rows.keys(), key=str)
    if not shared:
        raise ConfigError(f"no trial of {a.label!r} has a partner in {b.label!r}: nothing can be compared")
    pairs = [(a.rows[key], b.rows[key]) for key in shared]
    outcomes: dict[str, tuple[int, int, int]] = defaultdict(lambda: (0, 0, 0))
    for one, other in pairs:
        in_a, in_b, count = outcomes[one.task_digest]
        outcomes[one.task_digest] = (
            in_a + (one.passed and not other.passed),
            in_b + (other.passed and not one.passed),
            count + 1,
        )
    only_a, only_b, count = (sum(column) for column in zip(*outcomes.values(), strict=True))
    low, high = difference_interval(outcomes)
    return {
        "a": a.label,
        "b": b.label,
        "pairs": count,
        "tasks": len(outcomes),
        "unpaired": len(a.rows) + len(b.rows) - 2 * count,
        "ungraded_a": a.planned - len(a.rows),
        "ungraded_b": b.planned - len(b.rows),
        "passed_a": sum(one.passed for one, _ in pairs),
        "passed_b": sum(other.passed for _, other in pairs),
        "only_a": only_a,
        "only_b": only_b,
        "difference": (only_b - only_a) / count,
        "difference_low": low,
        "difference_high": high,
        "p_value": mcnemar_exact(only_a, only_b),
        "margin": margin,
        **_tokens(pairs),
        "warnings": (*_left_out(a, b, count), *_warnings(a, b, count, len(outcomes), only_a + only_b)),
    }


def _check_tasks(a: Contender, b: Contender) -> None:
    both = sorted(a.digests.keys() & b.digests.keys())
    other = [name for name in both if a.digests[name] != b.digests[name]]
    if other:
        raise ConfigError(
            f"these tasks differ between {a.label!r} and {b.label!r}: {', '.join(other)}; run both on the same files"
        )


def _tokens(pairs: Sequence[tuple[Row, Row]]) -> dict[str, float | None]:
    """Tokens of both sides, where both were counted in the same way."""
    sums: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    count = 0
    for one, other in pairs:
        if one.tokens is None or other.tokens is None or one.tokens.estimated != other.tokens.estimated:
            continue
        count += 1
        of_a, of_b = sums[one.task_digest]
        sums[one.task_digest] = of_a + one.tokens.total, of_b + other.tokens.total
    known = {task: both for task, both in sums.items() if both[0] > 0}
    names = ("tokens_a", "tokens_b", "tokens_ratio", "tokens_ratio_low", "tokens_ratio_high")
    if not known:
        return dict.fromkeys(names)
    of_a, of_b = (sum(column) for column in zip(*known.values(), strict=True))
    ends = ratio_interval(known) or (None, None)
    return dict(zip(names, (of_a / count, of_b / count, of_b / of_a, *ends), strict=True))


def _left_out(a: Contender, b: Contender, pairs: int) -> Iterator[str]:
    """What was to be compared and was not, in words."""
    for side in (a, b):
        if ungraded := side.planned - len(side.rows):
            yield (
                f"{ungraded} of {side.planned} planned trials of {side.label} have no grade, and so do not count: "
                "what is missing may not be like the rest"
            )
    if unpaired := len(a.rows) + len(b.rows) - 2 * pairs:
        yield f"{unpaired} graded trials have no partner on the other side, and so do not count"


def _warnings(a: Contender, b: Contender, pairs: int, tasks: int, discordant: int) -> list[str]:
    found = []
    if discordant < LEAST_DISCORDANT:
        found.append(
            f"only {discordant} pairs differ; with fewer than {LEAST_DISCORDANT} the exact test cannot come out below 0.05"
        )
    if pairs > tasks:
        found.append(
            "trials of one task are alike: McNemar's test takes them for independent, the intervals do not"
        )
    if tasks < 5:
        found.append(f"{tasks} tasks are few to resample from: the intervals are rough")
    found += [f"{side.label} ran with other time limits" for side in (a, b) if not side.comparable]
    if only := sorted(a.digests.keys() ^ b.digests.keys()):
        found.append(f"run by one side only, and so left out: {', '.join(only)}")
    return found


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole} {part / whole:.1%}"


def _points(value: float) -> str:
    return f"{value * 100:+.1f}"
