"""Intervals and tests for rates. scipy does the mathematics; what has no name there is written out.

Everything here is deterministic: resampling begins from the same seed each time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from math import comb, sqrt
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from chimera.errors import ConfigError
from chimera.extras import install_command

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RESAMPLES = 10_000
_SEED = 20_260_101
_CONFIDENCE = 0.95
# Beside the difference that was found, where the score is 0, its square cannot change its sign.
_NEAR = 1e-9
_MOST_PAIRS = 10_000_000

Method = Literal["wilson", "bootstrap by task"]


class Interval(Struct, frozen=True, kw_only=True):
    """A 95 % interval."""

    low: float
    high: float
    method: Method

    def percent(self) -> str:
        """For people, as percents."""
        return f"[{self.low:.1%}, {self.high:.1%}]".replace("%", "")


def require_scipy() -> Any:
    """The module `scipy.stats`.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        from scipy import stats
    except ImportError as fault:
        raise ConfigError(f"statistics need scipy: {install_command('stats')}") from fault
    return stats


def wilson(passed: int, trials: int) -> Interval | None:
    """Wilson's score interval of a rate; None without trials."""
    if not trials:
        return None
    found = require_scipy().binomtest(passed, trials).proportion_ci(_CONFIDENCE, method="wilson")
    return Interval(low=float(found.low), high=float(found.high), method="wilson")


def rate_interval(by_task: Mapping[str, tuple[int, int]]) -> Interval | None:
    """The interval of a pass rate over tasks, each `(passed, trials)`.

    Trials of one task are alike, so with several of them the tasks are what is resampled. Where most tasks came to the
    same, resampling knows next to nothing: so it is never narrower than Wilson's interval of one trial a task.
    """
    counts = [pair for pair in by_task.values() if pair[1]]
    passed, trials = sum(pair[0] for pair in counts), sum(pair[1] for pair in counts)
    if trials == len(counts):
        return wilson(passed, trials)
    least = wilson(round(passed / trials * len(counts)), len(counts))
    assert least is not None
    if len({pair[0] / pair[1] for pair in counts}) == 1:
        return least
    columns = list(zip(*counts, strict=True))
    low, high = _bootstrap(columns, lambda p, n: p.sum(-1) / n.sum(-1))
    return Interval(low=min(low, least.low), high=max(high, least.high), method="bootstrap by task")


def _bootstrap(
    columns: Sequence[Sequence[float]], statistic: Callable[..., NDArray[np.float64]]
) -> tuple[float, float]:
    """Percentile interval of a statistic of columns whose rows are drawn together."""
    import numpy as np

    data = np.asarray(columns, dtype=np.float64)
    rows = np.random.default_rng(_SEED).integers(0, data.shape[1], (RESAMPLES, data.shape[1]))
    values = statistic(*(column[rows] for column in data))
    low, high = np.quantile(values, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2])
    return float(low), float(high)


def mcnemar_exact(only_a: int, only_b: int) -> float:
    """Two-sided p that the discordant pairs of two arms fall as unevenly by chance; 1 where there are none."""
    if only_a + only_b == 0:
        return 1.0
    return float(require_scipy().binomtest(only_a, only_a + only_b, 0.5).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for being several, after Holm (1979): the smallest times all, the next times one less, ..."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, p_values[index] * (len(p_values) - rank)))
        adjusted[index] = highest
    return adjusted


def difference_interval(by_task: Mapping[str, tuple[int, int, int]]) -> tuple[float, float]:
    """The 95 % interval of B's pass rate minus A's, over tasks, each `(passed by A only, by B only, pairs)`.

    With one pair a task it is `paired_interval`. With several the tasks are what is resampled; where most of them came to
    the same, resampling knows next to nothing, so it is never narrower than `paired_interval` of as many pairs as tasks.
    """
    only_a, only_b, pairs = (sum(column) for column in zip(*by_task.values(), strict=True))
    share = len(by_task) / pairs
    low, high = paired_interval(only_a * share, only_b * share, len(by_task))
    if pairs == len(by_task):
        return low, high
    columns = list(zip(*by_task.values(), strict=True))
    drawn_low, drawn_high = _bootstrap(columns, lambda a, b, n: (b.sum(-1) - a.sum(-1)) / n.sum(-1))
    return min(low, drawn_low), max(high, drawn_high)


def paired_interval(only_a: float, only_b: float, pairs: int) -> tuple[float, float]:
    """Tango's (1998) score interval of B's rate minus A's, from the pairs that only one of them passed.

    Where no pair differs it is 3.84 / (pairs + 3.84) wide to each side, and a bootstrap would have no width at all.
    """
    z = float(require_scipy().norm.ppf((1 + _CONFIDENCE) / 2))
    from scipy.optimize import brentq

    found = (only_b - only_a) / pairs

    def excess(difference: float) -> float:
        """Of the squared score over its bound, were this the real difference."""
        half = only_a + only_b - (2 * pairs + only_a - only_b) * difference
        rest = 8 * pairs * only_a * difference * (1 - difference)
        share_a = (half + sqrt(max(0.0, half * half + rest))) / (4 * pairs)
        variance = pairs * (2 * share_a + difference * (1 - difference))
        return (only_b - only_a - pairs * difference) ** 2 - z * z * variance

    low = -1.0 if found <= -1 + _NEAR else float(brentq(excess, -1, found - _NEAR))
    high = 1.0 if found >= 1 - _NEAR else float(brentq(excess, found + _NEAR, 1))
    return low, high


def pairs_to_show(only_a: float, only_b: float, margin: float) -> int | None:
    """The fewest pairs whose interval ends above `-margin` if these shares of them differ; None if there are none."""
    if only_b - only_a <= -margin:
        return None

    def shown(pairs: int) -> bool:
        return paired_interval(only_a * pairs, only_b * pairs, pairs)[0] > -margin

    most = 1
    while not shown(most):
        most *= 2
        if most > _MOST_PAIRS:
            return None
    return bisect_left(range(most), True, lo=most // 2, key=shown)


def ratio_interval(by_task: Mapping[str, tuple[float, float]]) -> tuple[float, float] | None:
    """The 95 % interval of B's sum over A's, over tasks, each `(sum of A, sum of B)`, all above 0.

    None for a single task: there is nothing to resample.
    """
    if len(by_task) < 2:
        return None
    require_scipy()
    columns = list(zip(*by_task.values(), strict=True))
    return _bootstrap(columns, lambda a, b: b.sum(-1) / a.sum(-1))


def pass_at_k(trials: int, passed: int, k: int) -> float | None:
    """The chance that one of k trials passes, without bias (Chen et al. 2021); None with fewer than k trials."""
    return None if trials < k else 1 - comb(trials - passed, k) / comb(trials, k)


def pass_all_k(trials: int, passed: int, k: int) -> float | None:
    """The chance that all of k trials pass (pass^k), without bias; None with fewer than k trials."""
    return None if trials < k else comb(passed, k) / comb(trials, k)
