"""The curve of a context on a terminal: one bar of prompt tokens a row, against trigger, budget and window."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from chimera.cli.terminal import Span, Terminal

_MOST_CELLS = 48
_USUAL_COLUMNS = 80
_MOST_ROWS = 60
"""Of one curve; a longer run shows several steps a row."""
MARGIN = 18
"""Cells of a row beside its bar: step number, mark, size."""


class Curve(Struct, frozen=True, kw_only=True):
    """What the bars are measured against, and how wide they are."""

    window: int
    budget: int
    trigger: int
    columns: int | None
    """Of the page; None on a pipe."""

    @property
    def cells(self) -> int:
        """Width of a bar that fills the window."""
        return max(1, min(_MOST_CELLS, (self.columns or _USUAL_COLUMNS) - MARGIN))

    @property
    def legend(self) -> str:
        """What the letters of the ruler mean."""
        return f"trigger T {self.trigger:,}, budget B {self.budget:,}, window W {self.window:,}"

    @property
    def ruler(self) -> str:
        """The line above the bars: T, B and W where they lie."""
        places = self._places()
        return "".join(
            next((name for name, place in places.items() if place == cell), " ") for cell in range(self.cells)
        ).rstrip()

    def bar(self, size: int) -> str:
        """A bar as wide as `size` tokens, with trigger, budget and window marked behind its end."""
        filled = max(1, round(self.cells * size / self.window))
        marks = set(self._places().values())
        return "".join("█" if cell < filled else "┊" if cell in marks else " " for cell in range(self.cells))

    def _places(self) -> Mapping[str, int]:
        marks = {"T": self.trigger, "B": self.budget, "W": self.window}
        return {
            name: max(0, min(round(self.cells * size / self.window), self.cells) - 1)
            for name, size in marks.items()
        }


def show_curve(
    page: Terminal,
    curve: Curve,
    heading: str,
    sizes: Sequence[int],
    compacted_at: Collection[int],
    *,
    most_rows: int = _MOST_ROWS,
) -> None:
    """Draw a curve with its heading and ruler.

    Args:
        page: where to.
        curve: what the bars are measured against.
        heading: what it is a curve of.
        sizes: of the requests, in tokens.
        compacted_at: indexes into `sizes`: requests that were compacted before they were sent.
        most_rows: with more requests, a row shows the largest of several.
    """
    page.block(f"{heading}: tokens of each request against {curve.legend}; ↺ compacted before it")
    page.line(f"      {curve.ruler}")
    per_row = -(-len(sizes) // most_rows) or 1
    for first in range(0, len(sizes), per_row):
        shown = sizes[first : first + per_row]
        compacted = any(first <= place < first + len(shown) for place in compacted_at)
        mark: Span = ("↺", "yellow") if compacted else " "
        page.line(f"{first + 1:>4} ", mark, f"{curve.bar(max(shown))} {max(shown):>9,}")
    if per_row > 1:
        page.block(f"{per_row} steps a row, the largest of them drawn", indent="      ")
