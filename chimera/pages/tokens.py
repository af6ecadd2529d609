"""Tokens by class, as bars with a legend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chimera.pages.plots import Bar, legend, stacked_bars

TOKEN_CLASSES: Mapping[str, str] = {
    "in_uncached": "prompt, not cached",
    "cache_read": "cache read",
    "cache_write": "cache write",
    "out": "output",
    "reasoning": "reasoning",
}
"""Classes that do not overlap, and what people call them."""


def tokens_by_class(bars: Sequence[tuple[str, Mapping[str, int]]]) -> str:
    """A figure of labelled bars, each with its tokens by class."""
    return parts_figure("Tokens by class", TOKEN_CLASSES, bars)


def parts_figure(title: str, names: Mapping[str, str], bars: Sequence[tuple[str, Mapping[str, int]]]) -> str:
    """A figure of labelled bars on one scale, each with its tokens by part.

    Args:
        title: for those who cannot see it.
        names: of all parts, and what people call them; the order gives the colours.
        bars: labels and tokens.
    """
    drawn = stacked_bars(
        title,
        [
            Bar(
                label=label,
                parts=tuple(
                    (colour, sizes[name], f"{sizes[name]:,} {words}")
                    for colour, (name, words) in enumerate(names.items())
                    if sizes.get(name)
                ),
                total=f"{sum(sizes.get(name, 0) for name in names):,}",
            )
            for label, sizes in bars
        ],
    )
    used = {
        colour: words
        for colour, (name, words) in enumerate(names.items())
        if any(sizes.get(name) for _, sizes in bars)
    }
    return f'<figure class="bars">{drawn}{legend(used)}</figure>'
