"""A report of jobs as one HTML page that needs nothing else: no scripts, no fonts, no network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chimera.bench.aggregate import (
    Aggregate,
    FinishedJob,
    Series,
    arm_label,
    by_suite,
    by_window,
)
from chimera.bench.report import broken
from chimera.bench.row import Row
from chimera.bench.tables import HEAD, cells, cost, remarks, shown, title
from chimera.pages.document import document, plain, table, write_document
from chimera.pages.plots import Line, Mark, lines_over_windows, shape, short_size
from chimera.pages.tokens import tokens_by_class


def write_page(path: Path, jobs: Sequence[FinishedJob]) -> None:
    """Write the report of jobs as a page.

    Raises:
        ConfigError: the file cannot be written.
    """
    write_document(path, page(jobs))


def page(jobs: Sequence[FinishedJob]) -> str:
    """The report as HTML."""
    names = title(jobs)
    suites, series = by_suite(jobs), by_window(jobs)
    head, rows = shown(HEAD, [cells(one) for one in suites])
    sections = [
        _window_plots(series) if any(len(one.points) > 1 for one in series) else "",
        f"<h2 id=results>Results</h2>{table(head, [_marked(head, row) for row in rows], left={0, 1, len(head) - 1})}",
        f'<ul class="remarks">{"".join(f"<li>{plain(text)}</li>" for text in remarks(jobs))}</ul>',
        _token_plot(suites),
        *(_trials(job, opened=len(jobs) == 1) for job in jobs),
        f"<h2>Settings</h2>{''.join(_settings(job) for job in jobs)}",
    ]
    return document(f"Benchmark {names}", "".join(sections), skip=("results", "Skip to the results"))


def _marked(head: Sequence[str], row: Sequence[str]) -> list[str]:
    """Escaped cells, with what must not be overlooked in red: breaches, tampering and errors."""
    return [
        f'<span class="bad">{plain(cell)}</span>'
        if (name in {"tampered", "errors"} and cell != "-") or (name == "breaches" and cell not in {"-", "0"})
        else plain(cell)
        for name, cell in zip(head, row, strict=True)
    ]


def _window_plots(series: Sequence[Series]) -> str:
    if not series:
        return ""
    priced = all(point.cost_usd is not None for one in series for _, point in one.points)
    by_price = "Cost of a trial, USD" if priced else "Tokens of a trial"
    legend = "".join(f"<li>{shape(n)}{plain(one.label)}</li>" for n, one in enumerate(series))
    figures = [
        (
            "Share solved, with 95 % intervals",
            lines_over_windows(
                "Share solved against window", _lines(series, _rate_mark), top=1.0, say=lambda v: f"{v:.0%}"
            ),
        ),
        (
            by_price,
            lines_over_windows(
                f"{by_price} against window",
                _lines(series, _cost_mark if priced else _tokens_mark),
                top=None,
                say=(lambda v: f"{v:.2g}") if priced else short_size,
            ),
        ),
        (
            "Compactions of a trial",
            lines_over_windows(
                "Compactions against window",
                _lines(series, _compactions_mark),
                top=None,
                say=lambda v: f"{v:g}",
            ),
        ),
    ]
    drawn = "".join(f"<figure><h3>{plain(name)}</h3>{plot}</figure>" for name, plot in figures)
    return (
        f'<h2>Against the context window</h2><ul class="legend">{legend}</ul><div class="plots">{drawn}</div>'
    )


def _lines(series: Sequence[Series], mark: object) -> list[Line]:
    assert callable(mark)
    return [
        Line(label=one.label, marks=tuple(found for w, p in one.points if (found := mark(w, p)) is not None))
        for one in series
    ]


def _rate_mark(window: int, point: Aggregate) -> Mark | None:
    if point.rate is None:
        return None
    interval = point.interval
    return Mark(
        x=window,
        y=point.rate,
        said=f"{window:,}: {point.passed} of {point.graded}, {cells(point)[4]}",
        low=interval.low if interval else None,
        high=interval.high if interval else None,
    )


def _cost_mark(window: int, point: Aggregate) -> Mark | None:
    if point.cost_usd is None:
        return None
    return Mark(
        x=window,
        y=point.cost_usd / point.planned,
        said=f"{window:,}: {cost(point)} for {point.planned} trials",
    )


def _tokens_mark(window: int, point: Aggregate) -> Mark | None:
    each = sum(point.tokens.values()) / point.planned
    return Mark(x=window, y=each, said=f"{window:,}: {each:,.0f} tokens a trial") if point.tokens else None


def _compactions_mark(window: int, point: Aggregate) -> Mark | None:
    if point.compactions is None:
        return None
    return Mark(
        x=window, y=point.compactions, said=f"{window:,}: {point.compactions:.1f} compactions a trial"
    )


def _token_plot(suites: Sequence[Aggregate]) -> str:
    with_tokens = [one for one in suites if one.tokens]
    if not with_tokens:
        return ""
    drawn = tokens_by_class([(f"{one.suite} · {one.label}", one.tokens) for one in with_tokens])
    return f"<h2>Tokens by class</h2>{drawn}"


def _trials(job: FinishedJob, *, opened: bool) -> str:
    head = (
        "trial",
        "status",
        "reward",
        "stop reason",
        "steps",
        "tokens",
        "compactions",
        "seconds",
        "remarks",
    )
    rows = [_trial(row) for row in job.rows]
    rows += [[plain(name), '<span class="bad">missing</span>', *["-"] * 7] for name in job.missing]
    return (
        f"<details{' open' if opened else ''}><summary><h2>Trials of {plain(job.record.job)}"
        f"</h2></summary>{table(head, rows, left={0, 1, 3, 8})}</details>"
    )


def _trial(row: Row) -> list[str]:
    said = [f"tampered with {', '.join(row.tampered)}"] if row.tampered else []
    if row.invariants is not None and row.invariants.breaches:
        said.append(broken(row.invariants))
    said += [f"{row.error.message} ({row.error.phase}, {row.error.kind})"] if row.error else []
    said += [f"begun {row.tries} times"] if row.tries > 1 else []
    kind = "good" if row.passed else "bad" if row.status in {"graded", "agent_error"} else "soft"
    word = "passed" if row.passed else "failed" if row.status == "graded" else row.status
    return [
        plain(row.trial),
        f'<span class="{kind}">{plain(word)}</span>',
        "-" if row.reward is None else f"{row.reward:g}",
        plain(row.stop_reason or "-"),
        "-" if row.steps is None else str(row.steps),
        "-" if row.tokens is None else f"{row.tokens.total:,}",
        "-" if row.context is None else str(row.context.compactions),
        f"{sum(row.seconds.values()):.1f}",
        plain("; ".join(said)),
    ]


def _settings(job: FinishedJob) -> str:
    record = job.record
    values = {
        **{f"arm {arm_label(job, arm)}": settings for arm, settings in record.settings["arms"].items()},
        **{name: value for name, value in record.settings.items() if name != "arms"},
        **{f"version of {name}": value for name, value in record.versions.items()},
        "tasks": f"{len(record.tasks)}" + (f" at {record.git['commit'][:12]}" if record.git else ""),
        "tasks differ from their commit": bool(record.git.get("dirty")),
        "machine": ", ".join(f"{name} {value}" for name, value in record.host.items()),
    }
    rows = [[plain(name), plain(str(value))] for name, value in values.items()]
    return f"<h3>{plain(record.job)}</h3>{table(('setting', 'value'), rows, left={0, 1})}"
