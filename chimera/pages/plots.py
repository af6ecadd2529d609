"""Plots as SVG that stands in a page: no scripts, colours from the page's style, every mark reachable by keyboard."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor, log2, log10

from msgspec import Struct

from chimera.pages.document import plain

WIDTH, HEIGHT = 400, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 8, 32, 44
_APART = 5
"""Between marks of different series at the same place, so that their whiskers can be told apart."""
_SHAPES = (
    '<circle r="4.5"/>',
    '<rect x="-4" y="-4" width="8" height="8"/>',
    '<path d="M0-5.5 5 4H-5Z"/>',
    '<path d="M0-5.5 5.5 0 0 5.5-5.5 0Z"/>',
)
COLOURS = 6
"""Classes `s0`, `s1`, ... that a page must give colours."""


class Mark(Struct, frozen=True, kw_only=True):
    """One point of a line."""

    x: int
    y: float
    said: str
    """In words, for whoever points at it; the series goes without saying."""
    low: float | None = None
    high: float | None = None


class Line(Struct, frozen=True, kw_only=True):
    """A series of marks by x."""

    label: str
    marks: tuple[Mark, ...]


class Bar(Struct, frozen=True, kw_only=True):
    """A bar of parts that add up."""

    label: str
    parts: tuple[tuple[int, float, str], ...]
    """Colour, size and words of each."""
    total: str


def shape(index: int) -> str:
    """The mark of a series, for a legend."""
    drawn = _SHAPES[index % len(_SHAPES)]
    return f'<svg class="key s{index % COLOURS}" viewBox="-7 -7 14 14" aria-hidden="true">{drawn}</svg>'


def legend(colours: Mapping[int, str]) -> str:
    """What the colours mean."""
    entries = "".join(
        f'<li><span class="swatch s{colour % COLOURS}"></span>{plain(words)}</li>'
        for colour, words in colours.items()
    )
    return f'<ul class="legend">{entries}</ul>'


def lines_over_windows(
    title: str, lines: Sequence[Line], *, top: float | None, say: Callable[[float], str]
) -> str:
    """Values over context windows, on a logarithmic axis.

    Args:
        title: for those who cannot see it.
        lines: the series; each mark's x is a window in tokens.
        top: the end of the y axis; None for one that fits.
        say: writes a value at the y axis.
    """
    windows = sorted({mark.x for line in lines for mark in line.marks})
    highest = max((mark.high or mark.y for line in lines for mark in line.marks), default=0.0)
    values = ticks(highest) if top is None else [top * n / 4 for n in range(5)]

    def x_of(window: int) -> float:
        first, last = log2(windows[0]), log2(windows[-1])
        inner = WIDTH - _LEFT - _RIGHT - 40
        share = 0.5 if first == last else (log2(window) - first) / (last - first)
        return _LEFT + 20 + inner * share

    def y_of(value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / values[-1]

    parts = [_axes(windows, values, x_of, y_of, say)]
    for index, line in enumerate(lines):
        shift = (index - (len(lines) - 1) / 2) * _APART
        places = [(x_of(mark.x) + shift, y_of(mark.y), mark) for mark in line.marks]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)
        parts.append(f'<g class="s{index % COLOURS}"><polyline class="line" points="{path}"/>')
        parts += [_mark(x, y, mark, y_of, index, line.label) for x, y, mark in places]
        parts.append("</g>")
    return svg(title, WIDTH, HEIGHT, "".join(parts))


def _mark(x: float, y: float, mark: Mark, y_of: Callable[[float], float], index: int, label: str) -> str:
    whisker = ""
    if mark.low is not None and mark.high is not None:
        low, high = y_of(mark.low), y_of(mark.high)
        whisker = (
            f'<path class="whisker" d="M{x:.1f} {low:.1f}V{high:.1f}'
            f'M{x - 3:.1f} {low:.1f}h6M{x - 3:.1f} {high:.1f}h6"/>'
        )
    drawn = f'<g class="dot" transform="translate({x:.1f} {y:.1f})">{_SHAPES[index % len(_SHAPES)]}</g>'
    return _reachable(mark.said, f"{label}, {mark.said}", whisker + drawn, _LEFT, 14)


def _reachable(said: str, whole: str, drawn: str, x: float, y: float) -> str:
    """A mark that shows its words while it is pointed at or has the focus, and says all of it to who cannot see it."""
    return (
        f'<g class="mark" tabindex="0" role="img" aria-label="{plain(whole)}">'
        f'{drawn}<text class="tip" x="{x:g}" y="{y:g}" aria-hidden="true">{plain(said)}</text></g>'
    )


def _axes(
    windows: Sequence[int],
    values: Sequence[float],
    x_of: Callable[[int], float],
    y_of: Callable[[float], float],
    say: Callable[[float], str],
) -> str:
    parts = []
    for value in values:
        y = y_of(value)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}"/>')
        parts.append(
            f'<text class="tick" x="{_LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{plain(say(value))}</text>'
        )
    last = -99.0
    for window in windows:
        # A label that would run into the one before is left out; the marks still say where they are.
        if (x := x_of(window)) - last < 34:
            continue
        last = x
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{HEIGHT - _BOTTOM + 18}" text-anchor="middle">{short_size(window)}</text>'
        )
    parts.append(
        f'<text class="axis" x="{(WIDTH + _LEFT - _RIGHT) / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle">'
        "context window, tokens</text>"
    )
    return "".join(parts)


def stacked_bars(title: str, bars: Sequence[Bar]) -> str:
    """Bars of parts, one below the other, all on the same scale."""
    largest = max((sum(size for _, size, _ in bar.parts) for bar in bars), default=0) or 1
    room, height, parts = WIDTH - 2 * 4, 44, []
    for row, bar in enumerate(bars):
        y, x = 18 + row * height, 4.0
        parts.append(f'<text class="axis" x="4" y="{y + 14}">{plain(_clipped(bar.label))}</text>')
        parts.append(
            f'<text class="tick" x="{WIDTH - 4}" y="{y + 14}" text-anchor="end">{plain(bar.total)}</text>'
        )
        for colour, size, said in bar.parts:
            wide = room * size / largest
            drawn = f'<rect class="part s{colour % COLOURS}" x="{x:.1f}" y="{y + 20}" width="{wide:.1f}" height="16"/>'
            parts.append(_reachable(said, f"{bar.label}: {said}", drawn, 4, 14))
            x += wide
    return svg(title, WIDTH, 22 + height * len(bars), "".join(parts))


def _clipped(label: str, most: int = 44) -> str:
    return label if len(label) <= most else label[: most - 1] + "…"


def svg(title: str, width: int, height: int, content: str) -> str:
    """A drawing as wide as its place in the page, its marks in one group."""
    return f'<svg class="plot" viewBox="0 0 {width} {height}" role="group" aria-label="{plain(title)}">{content}</svg>'


def ticks(highest: float) -> list[float]:
    """Round values from 0 to the first one that is not below the highest."""
    if highest <= 0:
        return [0.0, 1.0]
    raw = highest / 4
    power = 10.0 ** floor(log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * (1 - 1e-9))
    return [step * n for n in range(ceil(highest / step - 1e-9) + 1)]


def short_size(tokens: float) -> str:
    """A number of tokens in few characters: 8k, 1.5M."""
    for limit, suffix in ((1e6, "M"), (1e3, "k")):
        if tokens >= limit:
            return f"{tokens / limit:.3g}{suffix}"
    return f"{tokens:.3g}"
