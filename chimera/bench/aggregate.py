"""Rows added up: what the tables and plots of a report show."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from msgspec import Struct, to_builtins

from chimera.bench.results import JobRecord, read_record, read_rows
from chimera.bench.row import SCORED, Row
from chimera.bench.statistics import Interval, pass_all_k, pass_at_k, rate_interval
from chimera.pages.tokens import TOKEN_CLASSES


class FinishedJob(Struct, frozen=True, kw_only=True):
    """A job as its files tell it."""

    record: JobRecord
    rows: tuple[Row, ...]

    @classmethod
    def read(cls, path: Path) -> FinishedJob:
        """From its folder; it may still run.

        Raises:
            ConfigError: there is none, or its files are damaged.
        """
        return cls(record=read_record(path), rows=read_rows(path))

    @property
    def missing(self) -> tuple[str, ...]:
        """Planned trials without a row."""
        done = {row.trial for row in self.rows}
        return tuple(name for name in self.record.planned if name not in done)


class Aggregate(Struct, frozen=True, kw_only=True):
    """Trials that belong together. None means unknown or not applicable, never zero."""

    label: str
    """Of the arm."""
    suite: str
    """Empty where they are of several."""
    planned: int
    graded: int
    """Those that count in the rate; a broken agent is one that failed."""
    passed: int
    rate: float | None
    interval: Interval | None
    k: int
    """Trials of each task."""
    pass_at_k: float | None
    pass_all_k: float | None
    steps: float | None
    """Median of a trial."""
    tokens: dict[str, int]
    """By class, over all trials."""
    tokens_estimated: bool
    tokens_per_solved: float | None
    """All tokens of all trials over solved trials."""
    cost_usd: float | None
    compactions: float | None
    """Mean of a trial."""
    rework: float | None
    """Repeated calls over all tool calls."""
    summariser: float | None
    """Tokens of summaries over all tokens."""
    breaches: int | None
    """Requests that broke an invariant."""
    tampered: int
    not_comparable: int
    errors: dict[str, int]

    @classmethod
    def of(cls, label: str, rows: Sequence[Row], planned: int, *, suite: str = "") -> Aggregate:
        """The numbers of these rows."""
        scored = [row for row in rows if row.status in SCORED]
        by_task: dict[str, tuple[int, int]] = {}
        for row in scored:
            passed, trials = by_task.get(row.task, (0, 0))
            by_task[row.task] = passed + row.passed, trials + 1
        k = min((trials for _, trials in by_task.values()), default=0)
        passed = sum(row.passed for row in scored)
        used = [row.tokens for row in rows if row.tokens is not None]
        tokens = {name: sum(getattr(t, name) for t in used) for name in TOKEN_CLASSES}
        costs = [row.cost_usd for row in rows if row.tokens is not None]
        known = [cost for cost in costs if cost is not None]
        return cls(
            label=label,
            suite=suite,
            planned=planned,
            graded=len(scored),
            passed=passed,
            rate=passed / len(scored) if scored else None,
            interval=rate_interval(by_task),
            k=k,
            pass_at_k=_mean(pass_at_k(n, c, k) for c, n in by_task.values()) if k > 1 else None,
            pass_all_k=_mean(pass_all_k(n, c, k) for c, n in by_task.values()) if k > 1 else None,
            steps=median(steps) if (steps := [row.steps for row in rows if row.steps is not None]) else None,
            tokens=tokens if used else {},
            tokens_estimated=any(t.estimated for t in used),
            tokens_per_solved=sum(tokens.values()) / passed if used and passed else None,
            cost_usd=sum(known) if known and len(known) == len(costs) else None,
            compactions=_mean(row.context.compactions for row in rows if row.context is not None),
            rework=_share((row.rework.repeated_calls, row.rework.tool_calls) for row in rows if row.rework),
            summariser=_share(
                (row.summariser_tokens, row.tokens.total)
                for row in rows
                if row.summariser_tokens is not None and row.tokens is not None
            ),
            breaches=sum(row.invariants.breaches for row in rows if row.invariants is not None)
            if any(row.invariants is not None for row in rows)
            else None,
            tampered=sum(bool(row.tampered) for row in rows),
            not_comparable=sum(not row.comparable for row in rows),
            errors=dict(sorted(Counter(row.status for row in rows if row.status != "graded").items())),
        )

    def fields(self) -> dict[str, Any]:
        """As JSON values."""
        fields: dict[str, Any] = to_builtins(self)
        return fields


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known else None


def _share(pairs: Iterable[tuple[int, int]]) -> float | None:
    """All parts over all wholes; None where there is no whole."""
    known = list(pairs)
    whole = sum(whole for _, whole in known)
    return sum(part for part, _ in known) / whole if whole else None


def by_suite(jobs: Sequence[FinishedJob]) -> list[Aggregate]:
    """One aggregate for each suite and arm of each job, in order."""
    found = []
    several = len(models(jobs)) > 1
    for job in jobs:
        groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in job.rows:
            groups[row.suite, row.arm].append(row)
        attempts = int(job.record.settings["attempts"])
        arms = list(job.record.settings["arms"])
        for suite, arm in sorted(groups, key=lambda key: (key[0], arms.index(key[1]))):
            rows = groups[suite, arm]
            # A task without any row belongs to no suite that is known: the last line of a report counts those.
            planned = attempts * len({row.task for row in rows})
            label = arm_label(job, arm, with_model=several)
            found.append(
                Aggregate.of(
                    f"{job.record.job} · {label}" if len(jobs) > 1 else label, rows, planned, suite=suite
                )
            )
    return found


def arm_label(job: FinishedJob, arm: str, *, with_model: bool = True) -> str:
    """What tables call an arm, or an agent: its name and its model."""
    arms = job.record.settings["arms"]
    model = arms.get(arm, next(iter(arms.values()))).get("model")
    named = with_model and model and _letters(model) not in _letters(arm)
    return f"{arm} ({model})" if named else arm


def _letters(name: str) -> str:
    """What is left of a name in that of an arm, which is one for a folder as well."""
    return re.sub(r"\W+", "-", name)


def models(jobs: Sequence[FinishedJob]) -> tuple[str, ...]:
    """The models of all arms, each once."""
    found = [arm.get("model") for job in jobs for arm in job.record.settings["arms"].values()]
    return tuple(dict.fromkeys(model for model in found if model))


class Series(Struct, frozen=True, kw_only=True):
    """One line of a plot over windows."""

    label: str
    points: tuple[tuple[int, Aggregate], ...]
    """Window in tokens, with what came of it, by size."""


def by_window(jobs: Sequence[FinishedJob]) -> list[Series]:
    """The arms of all jobs, those that differ in their window alone as one series."""
    several = len(models(jobs)) > 1
    groups: dict[str, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    planned: Counter[tuple[str, int]] = Counter()
    for job in jobs:
        for row in job.rows:
            if row.context is None:
                continue
            settings = dict(job.record.settings["arms"].get(row.arm, {}))
            window = settings.pop("window", None) or row.context.window
            rest = [
                f"{key}={value}"
                for key, value in settings.items()
                if key not in {"agent", "model"} and value is not None
            ]
            label = " ".join([arm_label(job, row.agent, with_model=several), *rest])
            groups[label][window].append(row)
            planned[label, window] += 1
    return [
        Series(
            label=label,
            points=tuple(
                (window, Aggregate.of(f"{label} at {window:,}", rows, planned[label, window]))
                for window, rows in sorted(windows.items())
            ),
        )
        for label, windows in groups.items()
    ]
