"""The stores that restoration reads."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.core.ledger import CommandRun, Fact, FileChanged, FileRead, Ledger, fact_fields, fact_of
from chimera.core.messages import Usage


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 20)), min_size=1, max_size=20))
def test_ranges_that_were_read_are_disjoint_and_cover_exactly_what_was_read(
    ranges: list[tuple[int, int]],
) -> None:
    ledger = Ledger()
    for first, length in ranges:
        ledger.add(FileRead(path="a", first=first, last=first + length, total=99))
    seen = {line for first, length in ranges for line in range(first, first + length + 1)}
    stored = [line for low, high in ledger.read["a"] for line in range(low, high + 1)]
    assert sorted(seen) == stored


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 20)), max_size=9),
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 20)), max_size=9),
)
def test_what_is_no_longer_shown_is_what_was_read_less_what_is_there(
    read: list[tuple[int, int]], shown: list[tuple[int, int]]
) -> None:
    ledger = Ledger()
    for first, length in read:
        ledger.add(FileRead(path="a", first=first, last=first + length, total=99))
    still = [FileRead(path="a", first=first, last=first + length, total=99) for first, length in shown]
    lines = {line for first, length in read for line in range(first, first + length + 1)}
    lines -= {line for first, length in shown for line in range(first, first + length + 1)}
    gone = ledger.no_longer_shown(still).get("a", ())
    assert [line for low, high in gone for line in range(low, high + 1)] == sorted(lines)


def test_changes_of_a_file_add_up_and_the_newest_is_the_file_being_edited() -> None:
    ledger = Ledger()
    ledger.add(FileChanged(path="a", added=1, removed=0, line=1, created=True))
    ledger.add(FileChanged(path="b", added=1, removed=1, line=5))
    ledger.add(FileChanged(path="a", added=2, removed=3, line=9))
    assert list(ledger.changed) == ["b", "a"]
    total = ledger.changed["a"]
    assert (total.added, total.removed, total.times, total.created) == (3, 3, 2, True)
    assert ledger.edited is not None
    assert ledger.edited.line == 9


def test_an_error_is_open_until_the_same_command_succeeds() -> None:
    ledger = Ledger()
    ledger.add(CommandRun(command="make", exit_code=2, error="boom"))
    ledger.add(CommandRun(command="ls", exit_code=0))
    assert list(ledger.open_errors()) == ["make"]
    ledger.add(CommandRun(command="make", exit_code=0))
    assert ledger.open_errors() == {}


def test_only_what_was_not_seen_before_is_news() -> None:
    ledger = Ledger()
    facts: list[Fact] = [CommandRun(command="ls", exit_code=0), FileRead(path="a", first=1, last=9, total=9)]
    for fact in facts * 3:
        ledger.add(fact)
    assert ledger.news == 2
    ledger.add(FileChanged(path="a", added=1, removed=1, line=1))
    ledger.add(FileChanged(path="a", added=1, removed=1, line=1))
    assert ledger.news == 4


@pytest.mark.parametrize(
    "fact",
    [
        FileRead(path="a", first=1, last=2, total=3),
        FileChanged(path="a", added=1, removed=2, line=3, created=True),
        CommandRun(command="make", exit_code=None, error="killed"),
    ],
    ids=lambda fact: type(fact).__name__,
)
def test_a_fact_survives_the_record(fact: Fact) -> None:
    assert fact_of(json.loads(json.dumps(fact_fields(fact)))) == fact


def test_a_sum_with_an_unknown_cost_is_unknown() -> None:
    assert (Usage(cost_usd=1.0) + Usage(cost_usd=0.5)).cost_usd == 1.5
    assert (Usage(cost_usd=1.0) + Usage(cost_usd=None)).cost_usd is None
