from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.bench.statistics import (
    difference_interval,
    holm,
    mcnemar_exact,
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


def test_one_trial_a_task_and_tasks_that_agree_have_wilsons_interval() -> None:
    assert rate_interval({"a": (1, 1), "b": (0, 1)}) == wilson(1, 2)
    assert rate_interval({"a": (3, 3), "b": (3, 3)}) == wilson(2, 2)
    assert rate_interval({}) is None


def test_the_interval_of_a_difference_has_its_sign() -> None:
    worse = {f"task-{n}": (1, n % 4 == 0, 1) for n in range(20)}
    low, high = difference_interval({key: (a, int(b), n) for key, (a, b, n) in worse.items()})
    assert -1 <= low < -0.75 < high < 0
    same = {f"task-{n}": (n % 2, n % 2, 1) for n in range(20)}
    assert difference_interval(same) == (0, 0)


def test_the_interval_of_a_ratio_holds_it() -> None:
    low, high = ratio_interval({f"task-{n}": (100.0 + n, 200.0 + 3 * n) for n in range(12)})
    assert 2 < low < 2.05 < high < 2.15
