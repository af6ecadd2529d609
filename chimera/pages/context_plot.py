"""The curve of a context as SVG: one column a request, in its parts, against trigger, budget and window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from chimera.pages.document import PALETTE, PLOT_STYLE, plain
from chimera.pages.plots import COLOURS, legend, short_size, svg, ticks

_TOP, _BOTTOM, _LEFT, _RIGHT = 34, 40, 46, 10
_MOST_COLUMNS = {920: 220, 400: 90}
"""By width of the drawing, so that a column can still be seen; of several requests in one column the largest is drawn."""
_LINE_APART = 15
_NEAR = 1.25
"""A line is in the picture if it is at most this many times as high as the largest request."""
STYLE = """
.limit{fill:none;stroke:var(--ink);stroke-width:1.2}.limit.trigger{stroke-dasharray:2 3}.limit.budget{stroke-dasharray:7 4}
.plot text.limit-name{font-size:12px;fill:var(--ink);stroke:var(--card);stroke-width:4px;paint-order:stroke;stroke-linejoin:round}
.shrunk{fill:none;stroke:var(--bad);stroke-width:1.8}.plot .shrunk-end{fill:var(--bad)}
a.mark{cursor:pointer}a.mark:focus-visible .column,a.mark:hover .column{stroke:var(--ink);stroke-width:1.6}
.hit{fill:transparent}.narrow-plot{display:none}
@media(max-width:44rem){.wide-plot{display:none}.narrow-plot{display:block}}
"""
"""Rules that a page with such a plot needs."""


class Column(Struct, frozen=True, kw_only=True):
    """One request."""

    name: str
    """As people call it: step 7."""
    size: int
    """Tokens, as calibrated at the time."""
    parts: Mapping[str, int]
    """Estimates by part; drawn in proportion. Empty: nothing is known of its parts."""
    compacted: bool = False
    """The history was compacted before it."""
    before: int | None = None
    """What it would have been without that; None where nobody knows."""
    after: int | None = None
    """What it was then, where `size` is that of another one of several requests drawn as one."""
    target: str = ""
    """Id of the place in the page that tells more."""


class Limits(Struct, frozen=True, kw_only=True):
    """What the columns are measured against, in tokens."""

    trigger: int
    budget: int
    window: int


def context_plot(
    title: str, columns: Sequence[Column], limits: Limits, names: Mapping[str, str], *, small: bool = False
) -> str:
    """The plot in a drawing for wide pages and one for narrow ones, of which a page shows one, and a legend.

    Args:
        title: for those who cannot see it.
        columns: the requests in order, at least one.
        limits: drawn as lines, where they are near enough to be seen.
        names: of all parts, and what people call them; the order gives the colours.
        small: only the narrow drawing, for one plot of many.
    """
    if small:
        return _Drawing(title, columns, limits, names, 400, 300).svg()
    drawings = "".join(
        f'<div class="{kind}-plot">{_Drawing(title, columns, limits, names, width, height).svg()}</div>'
        for kind, width, height in (("wide", 920, 320), ("narrow", 400, 300))
    )
    used = {
        n: words for n, (name, words) in enumerate(names.items()) if any(c.parts.get(name) for c in columns)
    }
    return f"{drawings}{legend(used) if used else ''}"


def context_picture(title: str, columns: Sequence[Column], limits: Limits, names: Mapping[str, str]) -> str:
    """The wide drawing as a file of its own, with its colours and a legend. Arguments are those of `context_plot`."""
    width, height, edge, row = 920, 320, 14, 26
    drawing = _Drawing(title, columns, limits, names, width, height).svg()
    placed = drawing.replace("<svg ", f'<svg x="{edge}" y="{edge}" width="{width}" height="{height}" ', 1)
    entries, x, y = [], float(edge + _LEFT), height + 2 * edge
    for colour, (name, words) in enumerate(names.items()):
        if any(column.parts.get(name) for column in columns):
            entries.append(
                f'<rect class="part s{colour % COLOURS}" x="{x:.0f}" y="{y - 11}" width="12" height="12" rx="2"/>'
                f'<text x="{x + 18:.0f}" y="{y}">{plain(words)}</text>'
            )
            x += 44 + 7.2 * len(words)
    whole = (width + 2 * edge, height + row + 2 * edge)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole[0]} {whole[1]}" role="img" aria-label="{plain(title)}">'
        f"<style>{PALETTE}{PLOT_STYLE}{STYLE}.ground{{fill:var(--card)}}</style>"
        f'<rect class="ground" width="{whole[0]}" height="{whole[1]}" rx="8"/>'
        f'{placed}<g class="plot">{"".join(entries)}</g></svg>\n'
    )


class _Drawing:
    """One drawing of a given size, in units of the SVG."""

    def __init__(
        self,
        title: str,
        columns: Sequence[Column],
        limits: Limits,
        names: Mapping[str, str],
        width: int,
        height: int,
    ) -> None:
        self.title, self.limits, self.names = title, limits, tuple(names)
        self.width, self.height = width, height
        group = -(-len(columns) // _MOST_COLUMNS[width])
        self.columns = [_largest(columns[n : n + group]) for n in range(0, len(columns), group)]
        largest = max(max(column.size, column.before or 0) for column in columns)
        self._all_lines = (
            ("trigger", limits.trigger),
            ("budget", limits.budget),
            ("window", limits.window),
        )
        near = [
            size
            for _, size in self._all_lines
            if size <= largest * _NEAR or size == limits.window <= 3 * largest
        ]
        self.lines = [(name, size) for name, size in self._all_lines if size <= max([largest, *near])]
        self.ticks = ticks(max([largest, *near]))
        self.apart = (width - _LEFT - _RIGHT) / len(self.columns)

    def svg(self) -> str:
        parts = [self._axis()]
        parts += [self._column(place, column) for place, column in enumerate(self.columns)]
        parts += self._limits()
        return svg(self.title, self.width, self.height, "".join(parts))

    def _y(self, size: float) -> float:
        return self.height - _BOTTOM - (self.height - _TOP - _BOTTOM) * size / self.ticks[-1]

    def _axis(self) -> str:
        parts = []
        for value in self.ticks:
            y = self._y(value)
            parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{self.width - _RIGHT}"/>')
            parts.append(
                f'<text class="tick" x="{_LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{short_size(value)}</text>'
            )
        every = max(1, round(40 / self.apart))
        for place in range(0, len(self.columns), every):
            label = self.columns[place].name.rpartition(" ")[2]
            parts.append(
                f'<text class="tick" x="{self._middle(place):.1f}" y="{self.height - _BOTTOM + 17}" '
                f'text-anchor="middle">{plain(label)}</text>'
            )
        middle = (self.width + _LEFT - _RIGHT) / 2
        parts.append(
            f'<text class="axis" x="{middle:.0f}" y="{self.height - 5}" text-anchor="middle">step</text>'
        )
        return "".join(parts)

    def _middle(self, place: int) -> float:
        return _LEFT + self.apart * (place + 0.5)

    def _column(self, place: int, column: Column) -> str:
        wide = max(self.apart * 0.78, min(self.apart, 1.5))
        x, bottom = self._middle(place) - wide / 2, self._y(0)
        total = sum(column.parts.values())
        drawn, base = [], 0.0
        for colour, name in enumerate(self.names):
            if not (size := column.parts.get(name, 0)):
                continue
            top = base + column.size * size / total
            drawn.append(
                f'<rect class="part s{colour % COLOURS}" x="{x:.1f}" y="{self._y(top):.1f}" width="{wide:.1f}" '
                f'height="{self._y(base) - self._y(top):.2f}"/>'
            )
            base = top
        top_y = self._y(column.size)
        kind = "column" if drawn else "column part s0"
        drawn.append(
            f'<rect class="{kind if not total else "column hit"}" x="{x:.1f}" y="{top_y:.1f}" width="{wide:.1f}" '
            f'height="{bottom - top_y:.1f}"/>'
        )
        said = f"{column.name}: {column.size:,} tokens"
        if column.compacted:
            said += ", compacted" if column.before is None else f", compacted from {column.before:,}"
            said += "" if column.after is None else f" to {column.after:,}"
            end_y = top_y if column.after is None else self._y(column.after)
            start_y = end_y - 22 if column.before is None else self._y(column.before)
            drawn.append(self._drop(place, start_y, end_y))
        if total:
            said += (
                "".join(f", {column.parts[name]:,} {name}" for name in self.names if column.parts.get(name))
                if self.width > 600
                else ""
            )
        tip = f'<text class="tip" x="{_LEFT}" y="16" aria-hidden="true">{plain(said)}</text>'
        hit = f'<rect class="hit" x="{self._middle(place) - self.apart / 2:.1f}" y="{_TOP}" width="{self.apart:.1f}" height="{bottom - _TOP}"/>'
        content = f"{hit}{''.join(drawn)}{tip}"
        if column.target:
            return f'<a class="mark" href="#{plain(column.target)}" aria-label="{plain(said)}">{content}</a>'
        return f'<g class="mark" tabindex="0" role="img" aria-label="{plain(said)}">{content}</g>'

    def _drop(self, place: int, y: float, end_y: float) -> str:
        """What a compaction took off, as an arrow down to the column."""
        x = self._middle(place)
        return (
            f'<path class="shrunk" d="M{x - 5:.1f} {y:.1f}h10M{x:.1f} {y:.1f}V{end_y - 2:.1f}"/>'
            f'<path class="shrunk-end" d="M{x - 4:.1f} {end_y - 7:.1f}h8l-4 7z"/>'
        )

    def _limits(self) -> list[str]:
        drawn, last = [], -99.0
        if above := [(name, size) for name, size in self._all_lines if (name, size) not in self.lines]:
            said = ", ".join(f"{name} {size:,}" for name, size in above)
            drawn.append(
                f'<text class="limit-name" x="{self.width - _RIGHT - 3}" y="{_TOP - 8}" text-anchor="end">↑ {said}</text>'
            )
        for name, size in self.lines:
            y = self._y(size)
            drawn.append(f'<path class="limit {name}" d="M{_LEFT} {y:.1f}H{self.width - _RIGHT}"/>')
            named_at = y - 5 if abs(y - 5 - last) >= _LINE_APART else last - _LINE_APART
            drawn.append(
                f'<text class="limit-name" x="{self.width - _RIGHT - 3}" y="{named_at:.1f}" text-anchor="end">'
                f"{name} {size:,}</text>"
            )
            last = named_at
        return drawn


def _largest(columns: Sequence[Column]) -> Column:
    """The largest of several requests, with the compaction that took most off before any of them."""
    largest = max(columns, key=lambda column: column.size)
    compacted = [column for column in columns if column.compacted]
    if not compacted or compacted == [largest]:
        return largest
    shrunk = max(compacted, key=lambda column: (column.before or column.size) - column.size)
    return replace(largest, compacted=True, before=shrunk.before, after=shrunk.size)
