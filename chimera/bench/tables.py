"""A report of jobs as Markdown and as JSON, and the cells that the page shows as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chimera.bench.aggregate import Aggregate, FinishedJob, by_suite, by_window, models
from chimera.bench.row import SCHEMA, SCORED

HEAD = (
    *("suite", "arm", "graded", "passed", "rate [95 %]", "pass@k", "pass^k", "steps", "tokens/solved"),
    *("cost", "compactions", "rework", "summaries", "breaches", "tampered", "errors"),
)


def cells(one: Aggregate) -> tuple[str, ...]:
    """One aggregate, as `HEAD` has it."""
    rate = "-" if one.rate is None else f"{one.rate:.1%}"
    tokens = "-" if one.tokens_per_solved is None else f"{one.tokens_per_solved:,.0f}"
    return (
        one.suite,
        one.label,
        f"{one.graded}/{one.planned}",
        str(one.passed),
        f"{rate} {one.interval.percent()}" if one.interval else rate,
        _rate_of_k(one.pass_at_k, one.k),
        _rate_of_k(one.pass_all_k, one.k),
        "-" if one.steps is None else f"{one.steps:g}",
        f"~{tokens}" if one.tokens_estimated and tokens != "-" else tokens,
        cost(one),
        "-" if one.compactions is None else f"{one.compactions:.1f}",
        "-" if one.rework is None else f"{one.rework:.1%}",
        "-" if not one.summariser else f"{one.summariser:.1%}",
        "-" if one.breaches is None else str(one.breaches),
        str(one.tampered) if one.tampered else "-",
        ", ".join(f"{count} {name}" for name, count in one.errors.items()) or "-",
    )


def shown(
    head: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """A table without the columns in which nobody has anything, but for those that are good news when empty."""
    good = {"tampered", "errors"}
    kept = [n for n, name in enumerate(head) if name in good or any(row[n] != "-" for row in rows)]
    return tuple(head[n] for n in kept), [tuple(row[n] for n in kept) for row in rows]


def cost(one: Aggregate) -> str:
    """What it cost, if a model was asked."""
    if not one.tokens:
        return "-"
    return "unknown" if one.cost_usd is None else f"${one.cost_usd:.4f}"


def _rate_of_k(value: float | None, k: int) -> str:
    return "-" if value is None else f"{value:.1%} (k={k})"


def remarks(jobs: Sequence[FinishedJob]) -> list[str]:
    """What a reader has to know about the numbers, in words."""
    found = []
    rows = [row for job in jobs for row in job.rows]
    planned = sum(len(job.record.planned) for job in jobs)
    scored = [row for row in rows if row.status in SCORED]
    passed = sum(row.passed for row in scored)
    if missing := planned - len(scored):
        found.append(
            f"{missing} of {planned} planned trials have no grade; if all of them had failed, "
            f"{passed / planned:.1%} would have passed."
        )
    levels = sorted({row.isolation for row in rows})
    weak = " `copy` hides nothing from a determined agent." if "copy" in levels else ""
    networks = sorted({row.network for row in rows})
    found.append(
        f"Isolation: {', '.join(levels) or '-'}; network of the agent: {', '.join(networks) or '-'}.{weak}"
    )
    if any(row.tampered for row in rows):
        found.append(f"{sum(bool(row.tampered) for row in rows)} trials changed what they must leave alone.")
    breaches = sum(row.invariants.breaches for row in rows if row.invariants is not None)
    if breaches:
        found.append(
            f"{breaches} requests broke an invariant: a result without its call, no room in the window, or the task or a "
            "rule of it missing."
        )
    if odd := sum(not row.comparable for row in rows):
        found.append(f"{odd} trials ran with other time limits than the task's: not comparable.")
    if retried := sum(row.tries > 1 for row in rows):
        found.append(f"{retried} trials were begun again because provider or machine failed.")
    if any((row.model or "").startswith("scripted") for row in rows):
        found.append("Scripted models: these numbers say nothing about a real one.")
    found.append(
        "Rates are over graded trials; a broken agent counts as failed. Intervals: Wilson's, or with several trials of a "
        "task the tasks resampled (10,000 times, fixed seed), never narrower than Wilson's of one trial a task. Tokens with ~ were not all counted by the provider."
    )
    return found


def title(jobs: Sequence[FinishedJob]) -> str:
    """The jobs by name, and the model where all arms have the same."""
    names = ", ".join(job.record.job for job in jobs)
    found = models(jobs)
    return f"{names} ({found[0]})" if len(found) == 1 else names


def markdown(jobs: Sequence[FinishedJob]) -> str:
    """The report as Markdown."""
    lines = [f"# Benchmark {title(jobs)}", ""]
    lines += _table(*shown(HEAD, [cells(one) for one in by_suite(jobs)]))
    series = by_window(jobs)
    if any(len(one.points) > 1 for one in series):
        lines += ["", "## By context window", ""]
        rows = [
            (one.label, f"{window:,}", *cells(point)[1:]) for one in series for window, point in one.points
        ]
        lines += _table(*shown(("arm", "window", *HEAD[2:]), rows))
    lines += ["", *(f"- {remark}" for remark in remarks(jobs))]
    return "\n".join(lines) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    words = {"suite", "arm", "errors"}
    numbers = ["---" if name in words else "---:" for name in head]
    return [f"| {' | '.join(_plain(cell) for cell in line)} |" for line in (head, numbers, *rows)]


def _plain(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")


def fields(jobs: Sequence[FinishedJob]) -> dict[str, Any]:
    """The report as JSON values."""
    return {
        "schema": SCHEMA,
        "jobs": [{**job.record.fields(), "missing": list(job.missing)} for job in jobs],
        "suites": [one.fields() for one in by_suite(jobs)],
        "windows": [
            {"label": one.label, "points": [{"window": w, **point.fields()} for w, point in one.points]}
            for one in by_window(jobs)
        ],
        "remarks": remarks(jobs),
    }
