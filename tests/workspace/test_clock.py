from __future__ import annotations

import pytest

from chimera.workspace.clock import surely_past

SECOND = 1_000_000_000
EVEN = 1_700_000_000 * SECOND


@pytest.mark.parametrize(
    ("stamp", "now", "sure"),
    [
        pytest.param(EVEN + 123_456, EVEN + 123_456 + 25_000_000, True, id="a later tick"),
        pytest.param(EVEN + 123_456, EVEN + 123_456 + 5_000_000, False, id="the same tick"),
        pytest.param(EVEN, EVEN + 1_900_000_000, False, id="FAT stamps both with the same even second"),
        pytest.param(EVEN, EVEN + 2_100_000_000, True, id="the next even second"),
        pytest.param(EVEN + 123_456, EVEN, False, id="a clock that was put back"),
    ],
)
def test_a_change_gets_another_stamp_only_after_a_step_of_the_clock(stamp: int, now: int, sure: bool) -> None:
    assert surely_past(stamp, now) is sure
