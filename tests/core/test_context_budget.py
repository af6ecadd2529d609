"""Window, budget, trigger, room and the floor check."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.core.context_budget import (
    FILE_SHARE,
    NOTE_SHARE,
    PLAN_SHARE,
    TARGET_SHARE,
    TURN_SHARE,
    ContextBudget,
    Room,
    check_floor,
)
from chimera.core.model import Window
from chimera.core.tokens import Calibration, Floor

FLOOR = Floor(system=300, tools={"shell": 200, "read_file": 500})


def budget_of(window: int, factor: float = 1.0) -> ContextBudget:
    return ContextBudget(window=Window(tokens=window, source="argument"), calibration=Calibration(factor))


@pytest.mark.parametrize(
    ("window", "budget", "trigger"),
    [(1_000, 600, 480), (8_000, 4_800, 3_840), (16_384, 9_830, 7_864), (128_000, 76_800, 61_440), (1, 0, 0)],
)
def test_budget_and_trigger_are_floored_shares_of_the_window(window: int, budget: int, trigger: int) -> None:
    assert (budget_of(window).budget, budget_of(window).trigger) == (budget, trigger)


def test_a_turn_at_its_cap_with_plan_file_and_note_stays_below_the_target() -> None:
    assert TURN_SHARE + PLAN_SHARE + FILE_SHARE + NOTE_SHARE < TARGET_SHARE


@given(st.integers(1_000, 2_000_000), st.floats(0.5, 2.0), st.integers(0, 10**6))
def test_below_the_trigger_of_the_room_means_below_the_trigger_in_tokens(
    window: int, factor: float, estimate: int
) -> None:
    budget = budget_of(window, factor)
    room = Room.of(budget, FLOOR, 0)
    if estimate < room.trigger:
        assert budget.calibration.size(estimate) <= budget.trigger
    if budget.calibration.size(estimate) < budget.trigger - 1:
        assert estimate < room.trigger


@given(st.integers(1_000, 2_000_000))
def test_every_cap_is_a_share_of_the_room(window: int) -> None:
    room = Room.of(budget_of(window), FLOOR, 100)
    assert room.turn_cap == int(max(0, room.size) * 0.2 + 1e-9)
    assert room.fixed <= room.target <= max(room.trigger, room.fixed)


def test_a_floor_at_the_trigger_stops_and_shows_the_ledger_with_the_largest_tool_first() -> None:
    shortfall = check_floor(budget_of(2_084), FLOOR, 10, compact_total=900)
    assert shortfall is not None
    assert shortfall.part == "floor"
    text = shortfall.message
    assert text.index("read_file") < text.index("shell")
    for number in ("2,084", "1,250", "1,000", "500", "saves 100 tokens"):
        assert number in text


def test_a_floor_that_imported_tools_fill_names_the_server_to_do_without() -> None:
    tools = {"shell": 300, "a__one": 10, "b__one": 400, "b__two": 350, "a__two": 20}
    shortfall = check_floor(budget_of(2_500), Floor(system=200, tools=tools), 10, compact_total=1_280)
    assert shortfall is not None
    rows = [line.split()[:3] for line in shortfall.message.splitlines()]
    groups = [row for row in rows if row[0] in {"server", "shell", "b__one", "b__two", "a__two"}]
    assert groups == [
        ["server", "b", "750"],
        ["b__one", "400"],
        ["b__two", "350"],
        ["shell", "300"],
        ["server", "a", "30"],
        ["a__two", "20"],
    ]
    assert "no server b, whose tools cost 750 tokens, or fewer of its 2 tools" in shortfall.message


def test_a_task_that_does_not_fit_is_told_apart_from_the_floor() -> None:
    shortfall = check_floor(budget_of(4_000), FLOOR, 1_000, compact_total=1_000)
    assert shortfall is not None
    assert shortfall.part == "task"
    assert "shorter task" not in shortfall.message
    longer = check_floor(budget_of(4_000), FLOOR, 3_000, compact_total=1_000)
    assert longer is not None
    assert "shorter task" in longer.message


def test_what_fits_is_no_shortfall() -> None:
    assert check_floor(budget_of(4_000), FLOOR, 100, compact_total=1_000) is None


def test_the_window_that_the_ledger_recommends_would_do() -> None:
    shortfall = check_floor(budget_of(1_000), FLOOR, 50, compact_total=1_000)
    assert shortfall is not None
    recommended = int(shortfall.message.split("at least ")[1].split(" ")[0].replace(",", ""))
    assert check_floor(budget_of(recommended), FLOOR, 50, compact_total=1_000) is None
    assert check_floor(budget_of(recommended - 5), FLOOR, 50, compact_total=1_000) is not None


def test_calibration_counts_in_the_floor_check() -> None:
    assert check_floor(budget_of(4_000, 1.0), FLOOR, 100, compact_total=1_000) is None
    assert check_floor(budget_of(4_000, 2.0), FLOOR, 100, compact_total=1_000) is not None
