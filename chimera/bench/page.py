"""A report of jobs as one HTML page that needs nothing else: no scripts, no fonts, no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from chimera.bench.aggregate import (
    TOKEN_CLASSES,
    Aggregate,
    FinishedJob,
    Series,
    arm_label,
    by_suite,
    by_window,
)
from chimera.bench.plots import Bar, Line, Mark, lines_over_windows, shape, short_size, stacked_bars
from chimera.bench.row import Row
from chimera.bench.tables import HEAD, cells, cost, remarks, shown, title
from chimera.errors import ConfigError

_CLASSES = dict(
    zip(
        TOKEN_CLASSES, ("prompt, not cached", "cache read", "cache write", "output", "reasoning"), strict=True
    )
)
_STYLE = """
:root{color-scheme:light dark;--ink:#1c2128;--soft:#57606a;--page:#fff;--card:#f6f8fa;--line:#d0d7de;--bad:#b3261e;
--good:#176f2c;--c0:#0b62b8;--c1:#b8500b;--c2:#1a7f37;--c3:#8250df;--c4:#b3261e;--c5:#0a7a83}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9aa5b1;--page:#0d1117;--card:#161b22;--line:#30363d;
--bad:#ff8d84;--good:#6fdd8b;--c0:#6cb6ff;--c1:#ffab70;--c2:#6fdd8b;--c3:#d2a8ff;--c4:#ff8d84;--c5:#5fd4de}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem clamp(.9rem,3vw,2.5rem);max-width:84rem;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.5rem;line-height:1.25;margin:.2rem 0 1rem;overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:2.2rem 0 .7rem}h3{font-size:1rem;margin:0 0 .4rem}
.wide{overflow-x:auto;border:1px solid var(--line);border-radius:.5rem}
table{border-collapse:collapse;width:100%;font-size:.875rem;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .6rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line);vertical-align:top}
tbody tr:last-child>*{border-bottom:0}thead th{background:var(--card);font-weight:600;color:var(--soft)}
th:first-child,td:first-child,.text{text-align:left}td.text:last-child{white-space:normal;min-width:6rem;overflow-wrap:anywhere}
.plots{margin-top:.7rem;display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,20rem),1fr));gap:1rem}
figure.bars{max-width:32rem}details{margin-top:1.6rem}figure{margin:0;padding:1rem;background:var(--card);border:1px solid var(--line);border-radius:.5rem}
.plot{display:block;width:100%;height:auto;overflow:visible}
.plot text{font:13px system-ui,sans-serif;fill:var(--soft)}.plot .axis,.plot .tip{fill:var(--ink)}
.grid{stroke:var(--line);stroke-width:1;fill:none}.line{fill:none;stroke:currentColor;stroke-width:2}
.whisker{fill:none;stroke:currentColor;stroke-width:1.5;opacity:.55}.dot,.key{fill:currentColor}.part{fill:currentColor}
.s0{color:var(--c0)}.s1{color:var(--c1)}.s2{color:var(--c2)}.s3{color:var(--c3)}.s4{color:var(--c4)}.s5{color:var(--c5)}
.tip{visibility:hidden}.mark:hover .tip,.mark:focus .tip{visibility:visible}
.mark{outline:none;cursor:default}.mark:focus-visible .dot>*,.mark:focus-visible .part,.mark:hover .dot>*{stroke:var(--ink);
stroke-width:2.5}
.key{width:.9em;height:.9em;vertical-align:-.08em;margin-right:.35em}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;padding:0;margin:.5rem 0 0;font-size:.875rem}
.legend li{overflow-wrap:anywhere}
.swatch{display:inline-block;width:.8em;height:.8em;border-radius:2px;background:currentColor;margin-right:.4em}
.remarks{color:var(--soft);padding-left:1.2rem;font-size:.9375rem}
.good{color:var(--good)}.bad{color:var(--bad)}.soft{color:var(--soft)}
summary{cursor:pointer;padding:.35rem 0}:focus-visible{outline:2px solid var(--c0);outline-offset:2px}
a.skip{position:absolute;left:-99rem}a.skip:focus{left:1rem;top:.5rem;background:var(--page);padding:.4rem}
"""


def write_page(path: Path, jobs: Sequence[FinishedJob]) -> None:
    """Write the report of jobs as a page.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        path.write_text(page(jobs), encoding="utf-8")
    except OSError as fault:
        raise ConfigError(f"the page cannot be written to {str(path)!r}: {fault.strerror}") from fault


def page(jobs: Sequence[FinishedJob]) -> str:
    """The report as HTML."""
    names = title(jobs)
    suites, series = by_suite(jobs), by_window(jobs)
    head, rows = shown(HEAD, [cells(one) for one in suites])
    sections = [
        _window_plots(series) if any(len(one.points) > 1 for one in series) else "",
        f"<h2 id=results>Results</h2>{_table(head, [_marked(head, row) for row in rows], text={0, 1, len(head) - 1})}",
        f'<ul class="remarks">{"".join(f"<li>{escape(text)}" for text in remarks(jobs))}</ul>',
        _token_plot(suites),
        *(_trials(job, opened=len(jobs) == 1) for job in jobs),
        f"<h2>Settings</h2>{''.join(_settings(job) for job in jobs)}",
    ]
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Benchmark {escape(names)}</title><style>{_STYLE}</style></head><body>"
        '<a class="skip" href="#results">Skip to the results</a>'
        f"<header><h1>Benchmark {escape(names)}</h1></header><main>{''.join(sections)}</main></body></html>\n"
    )


def _marked(head: Sequence[str], row: Sequence[str]) -> list[str]:
    """Escaped cells, with what must not be overlooked in red: tampering and errors."""
    return [
        f'<span class="bad">{escape(cell)}</span>'
        if name in {"tampered", "errors"} and cell != "-"
        else escape(cell)
        for name, cell in zip(head, row, strict=True)
    ]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, text: set[int]) -> str:
    """A table of cells that are HTML already. It can be scrolled by keyboard where it is too wide."""

    def line(tag: str, values: Sequence[str]) -> str:
        kinds = ["text" if n in text else "" for n in range(len(values))]
        scope = " scope=col" if tag == "th" else ""
        return "".join(
            f'<{tag}{scope} class="{kind}">{value}</{tag}>' for kind, value in zip(kinds, values, strict=True)
        )

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    head_line = line("th", [escape(name) for name in head])
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="table">'
        f"<table><thead><tr>{head_line}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _window_plots(series: Sequence[Series]) -> str:
    if not series:
        return ""
    priced = all(point.cost_usd is not None for one in series for _, point in one.points)
    by_price = "Cost of a trial, USD" if priced else "Tokens of a trial"
    legend = "".join(f"<li>{shape(n)}{escape(one.label)}" for n, one in enumerate(series))
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
    drawn = "".join(f"<figure><h3>{escape(name)}</h3>{plot}</figure>" for name, plot in figures)
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
    used = [name for name in TOKEN_CLASSES if any(one.tokens[name] for one in with_tokens)]
    bars = [
        Bar(
            label=f"{one.suite} · {one.label}",
            parts=tuple(
                (n, one.tokens[name], f"{one.tokens[name]:,} {_CLASSES[name]}")
                for n, name in enumerate(TOKEN_CLASSES)
                if one.tokens[name]
            ),
            total=f"{sum(one.tokens.values()):,}",
        )
        for one in with_tokens
    ]
    legend = "".join(
        f'<li><span class="swatch s{TOKEN_CLASSES.index(name)}"></span>{_CLASSES[name]}' for name in used
    )
    drawn = stacked_bars("Tokens by class", bars)
    return f'<h2>Tokens by class</h2><figure class="bars">{drawn}<ul class="legend">{legend}</ul></figure>'


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
    rows += [[escape(name), '<span class="bad">missing</span>', *["-"] * 7] for name in job.missing]
    return (
        f"<details{' open' if opened else ''}><summary><h2 style='display:inline'>Trials of {escape(job.record.job)}"
        f"</h2></summary>{_table(head, rows, text={0, 1, 3, 8})}</details>"
    )


def _trial(row: Row) -> list[str]:
    said = [f"tampered with {', '.join(row.tampered)}"] if row.tampered else []
    said += [f"{row.error.message} ({row.error.phase}, {row.error.kind})"] if row.error else []
    said += [f"begun {row.tries} times"] if row.tries > 1 else []
    kind = "good" if row.passed else "bad" if row.status in {"graded", "agent_error"} else "soft"
    word = "passed" if row.passed else "failed" if row.status == "graded" else row.status
    return [
        escape(row.trial),
        f'<span class="{kind}">{word}</span>',
        "-" if row.reward is None else f"{row.reward:g}",
        escape(row.stop_reason or "-"),
        "-" if row.steps is None else str(row.steps),
        "-" if row.tokens is None else f"{row.tokens.total:,}",
        "-" if row.context is None else str(row.context.compactions),
        f"{sum(row.seconds.values()):.1f}",
        escape("; ".join(said)),
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
    rows = [[escape(name), escape(str(value))] for name, value in values.items()]
    return f"<h3>{escape(record.job)}</h3>{_table(('setting', 'value'), rows, text={0, 1})}"
