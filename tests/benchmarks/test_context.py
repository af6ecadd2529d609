"""The context benchmark itself, on few and short histories."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chimera.config import process_environment
from tests.benchmarks.context import main
from tests.benchmarks.context_arms import ARMS
from tests.benchmarks.context_bars import bars
from tests.benchmarks.context_histories import History, generated
from tests.benchmarks.context_measures import AGES, measure


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in process_environment() if name.startswith("CHIMERA_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CHIMERA_CONFIG_DIR", str(tmp_path / "config"))


@pytest.fixture
def history() -> History:
    return generated("a try", steps=24, size=2_000, texts="realistic")


def test_a_history_is_the_same_every_time(history: History) -> None:
    again = generated("a try", steps=24, size=2_000, texts="realistic")
    assert again == history
    assert len(history.facts) == 8
    everything = "\n".join(
        [step.message.content for step in history.steps]
        + [o.text for step in history.steps for o in step.outputs]
    )
    assert all(everything.count(fact.text) == 1 for fact in history.facts)


@pytest.mark.parametrize("arm", ARMS)
def test_in_a_window_that_holds_everything_no_arm_changes_anything(history: History, arm: str) -> None:
    found, plain = measure(arm, history, 1_000_000), measure("none", history, 1_000_000)
    assert (found.steps, found.illegal, found.rewrites, found.over_trigger) == (24, 0, 0, 0)
    assert found.sent == plain.sent
    assert [found.fate(age, "verbatim") for age in AGES[:2]] == [1.0, 1.0]


def test_in_a_small_window_ours_loses_less_than_the_others_and_never_exceeds_the_trigger(
    history: History,
) -> None:
    found = {arm: measure(arm, history, 8_000) for arm in ARMS}
    assert found["none"].ends == ["refused"]
    for arm in ("note", "mask"):
        ours = found[arm]
        assert (ours.steps, ours.with_task, ours.illegal, ours.over_trigger, ours.ends) == (24, 24, 0, 0, [])
        assert 0 < ours.rewrites < 12
        for other in ("truncate-oldest", "mask-last-10", "summary"):
            assert ours.fate(30, "lost") < found[other].fate(30, "lost")
    assert found["summary"].fate(30, "verbatim") > found["truncate-oldest"].fate(30, "verbatim")
    assert all(one.illegal == 0 for one in found.values())


def test_the_command_prints_rows_for_every_arm_and_the_bars(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--steps", "8", "--windows", "6000", "--history-bytes", "40000"]
    main([*options, "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert [row["arm"] for row in printed["rows"]] == list(ARMS)
    assert {row["history"] for row in printed["rows"]} == {"all"}
    assert len(printed["bars"]) == 7
    main([*options, "--by-history", "--no-bars"])
    table = capsys.readouterr().out
    assert table.count("mask-last-10") == 5
    assert "recorded" in table


def test_the_bars_of_long_runs_are_cleared_in_short_ones_too() -> None:
    cleared = [bar for bar in bars(steps=12, history_bytes=40_000) if "rewrites" in bar.name]
    assert len(cleared) == 4
    assert all(bar.passed for bar in cleared)
    assert all(bar.figures.startswith("12/12 steps, 0 illegal, task in 12") for bar in cleared)
