from __future__ import annotations

from itertools import combinations
from math import log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.bench.statistics import (
    difference_interval,
    holm,
    mcnemar_exact,
    paired_interval,
    pairs_to_show,
    pass_all_k,
    pass_at_k,
    rate_interval,
    ratio_interval,
    wilson,
)


@pytest.mark.parametrize(
    ("passed", "trials", "low", "high"), [(10, 20, 29.9, 70.1), (30, 60, 37.7, 62.3), (150, 300, 44.4, 55.6)]
)
def test_wilsons_interval_is_the_published_one(passed: int, trials: int, low: float, high: float) -> None:
    interval = wilson(passed, trials)
    assert interval is not None
    assert (round(interval.low * 100, 1), round(interval.high * 100, 1)) == (low, high)
    assert interval.percent() == f"[{low}, {high}]"


def test_six_pairs_all_one_way_are_the_fewest_that_show_a_difference() -> None:
    assert round(mcnemar_exact(6, 0), 3) == 0.031
    assert mcnemar_exact(0, 5) > 0.05
    assert mcnemar_exact(3, 3) == mcnemar_exact(0, 0) == 1


def test_holm_raises_p_values_by_how_many_there_are() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_never_lowers_a_p_value_and_keeps_their_order(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(p <= a <= 1 for p, a in zip(p_values, adjusted, strict=True))
    pairs = sorted(zip(p_values, adjusted, strict=True))
    assert [a for _, a in pairs] == sorted(a for _, a in pairs)


@given(st.integers(1, 7), st.data())
def test_pass_at_k_is_the_share_of_samples_of_k_with_a_pass(trials: int, data: st.DataObject) -> None:
    passed, k = data.draw(st.integers(0, trials)), data.draw(st.integers(1, trials))
    samples = list(combinations([True] * passed + [False] * (trials - passed), k))
    assert pass_at_k(trials, passed, k) == pytest.approx(sum(map(any, samples)) / len(samples))
    assert pass_all_k(trials, passed, k) == pytest.approx(sum(map(all, samples)) / len(samples))
    assert pass_at_k(trials, passed, trials + 1) is pass_all_k(trials, passed, trials + 1) is None


def test_trials_of_one_task_are_not_taken_for_independent() -> None:
    by_task = {f"task-{n}": (4 if n < 5 else 0, 4) for n in range(10)}
    interval, as_if = rate_interval(by_task), wilson(20, 40)
    assert interval is not None
    assert as_if is not None
    assert interval.method == "bootstrap by task"
    assert interval.high - interval.low > 1.5 * (as_if.high - as_if.low)
    assert rate_interval(by_task) == interval


def test_one_odd_task_among_many_that_agree_does_not_make_a_rate_certain() -> None:
    interval, least = rate_interval({f"task-{n}": (3 - (n == 0), 3) for n in range(10)}), wilson(10, 10)
    assert interval is not None
    assert least is not None
    assert interval.low <= least.low
    assert interval.low < 29 / 30 < interval.high


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=8))
def test_the_interval_of_a_rate_holds_it(counts: list[tuple[int, int]]) -> None:
    by_task = {f"task-{n}": (passed, passed + missed) for n, (passed, missed) in enumerate(counts)}
    passed, trials = (sum(column) for column in zip(*by_task.values(), strict=True))
    interval = rate_interval(by_task)
    assert (interval is None) == (trials == 0)
    if interval is not None:
        assert 0 <= interval.low <= passed / trials + 1e-9
        assert passed / trials - 1e-9 <= interval.high <= 1


def test_one_trial_a_task_and_tasks_that_agree_have_wilsons_interval() -> None:
    assert rate_interval({"a": (1, 1), "b": (0, 1)}) == wilson(1, 2)
    assert rate_interval({"a": (3, 3), "b": (3, 3)}) == wilson(2, 2)
    assert rate_interval({}) is None


def test_the_interval_of_a_difference_has_its_sign() -> None:
    low, high = difference_interval({f"task-{n}": (int(n % 4 > 0), 0, 1) for n in range(20)})
    assert -1 <= low < -0.75 < high < 0


@pytest.mark.parametrize("pairs", [1, 8, 60, 200])
def test_pairs_that_agree_show_no_more_than_there_are_of_them(pairs: int) -> None:
    """With none of n that differ, the score interval ends at z^2 / (n + z^2)."""
    low, high = difference_interval({f"task-{n}": (0, 0, 1) for n in range(pairs)})
    assert high == pytest.approx(3.8415 / (pairs + 3.8415), rel=1e-3)
    assert low == pytest.approx(-high)


@pytest.mark.parametrize(("only_a", "only_b", "pairs"), [(12, 2, 44), (0, 3, 20), (7, 7, 30)])
def test_at_its_ends_the_score_is_as_large_as_chance_allows(only_a: int, only_b: int, pairs: int) -> None:
    """By another way than the formula: the likelihood under each end is maximised by trying."""
    for end in paired_interval(only_a, only_b, pairs):
        shares = [
            n / 100_000 for n in range(1, 100_000) if n / 100_000 + end > 0 and 2 * n / 100_000 + end < 1
        ]
        share = max(
            shares,
            key=lambda q, end=end: (
                only_a * log(q)  # type: ignore[misc]
                + only_b * log(q + end)
                + (pairs - only_a - only_b) * log(1 - 2 * q - end)
            ),
        )
        spread = sqrt(pairs * (2 * share + end * (1 - end)))
        assert abs(only_b - only_a - pairs * end) / spread == pytest.approx(1.96, abs=2e-3)


def test_all_pairs_one_way_end_at_one() -> None:
    assert paired_interval(0, 14, 14)[1] == 1
    assert paired_interval(14, 0, 14)[0] == -1


@given(st.integers(1, 40), st.data())
def test_the_interval_of_pairs_holds_the_difference_and_turns_round_with_the_arms(
    pairs: int, data: st.DataObject
) -> None:
    only_a = data.draw(st.integers(0, pairs))
    only_b = data.draw(st.integers(0, pairs - only_a))
    low, high = paired_interval(only_a, only_b, pairs)
    assert -1 <= low <= (only_b - only_a) / pairs <= high <= 1
    assert low < high
    assert paired_interval(only_b, only_a, pairs) == pytest.approx((-high, -low), abs=1e-6)


def test_more_trials_of_the_same_tasks_show_hardly_more() -> None:
    alike = difference_interval({f"task-{n}": (0, 0, 20) for n in range(5)})
    assert alike == pytest.approx(difference_interval({f"task-{n}": (0, 0, 1) for n in range(5)}))
    uneven = difference_interval({f"task-{n}": (0, 20 * (n < 5), 20) for n in range(10)})
    assert uneven[1] - uneven[0] > 0.5


def test_the_interval_of_a_ratio_holds_it() -> None:
    found = ratio_interval({f"task-{n}": (100.0 + n, 200.0 + 3 * n) for n in range(12)})
    assert found is not None
    assert 2 < found[0] < 2.05 < found[1] < 2.15


def test_the_ratio_of_one_task_has_no_interval() -> None:
    assert ratio_interval({"task": (100.0, 200.0)}) is None


@pytest.mark.parametrize(("only_a", "only_b", "needed"), [(0, 0, 73), (0.05, 0.05, 179), (0.1, 0.05, None)])
def test_so_many_pairs_show_it_and_one_less_does_not(
    only_a: float, only_b: float, needed: int | None
) -> None:
    found = pairs_to_show(only_a, only_b, 0.05)
    assert found == needed
    if found is not None:
        assert paired_interval(only_a * found, only_b * found, found)[0] > -0.05
        assert paired_interval(only_a * (found - 1), only_b * (found - 1), found - 1)[0] <= -0.05
