"""Generated tasks: the same on every machine, different for every seed, and checked in as they are made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from chimera.bench.agents import Oracle
from chimera.bench.generators.catalogue import CHECKED_IN_SEED, GENERATORS
from chimera.bench.generators.instance import RELEASE_SEEDS, draw
from chimera.bench.generators.wording import HELD_OUT_FAMILIES, OPEN_FAMILIES, families, twin, values
from chimera.bench.task import load_task
from chimera.bench.trial import Trial

pytestmark = pytest.mark.slow

TASKS = Path(__file__).parents[2] / "tasks"
NAMES = sorted(GENERATORS)


@pytest.mark.parametrize("name", NAMES)
def test_the_checked_in_task_is_what_its_generator_makes(name: str) -> None:
    instance = GENERATORS[name](CHECKED_IN_SEED)
    folder = TASKS / instance.suite / name
    found = {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert found == instance.folder_files()


@pytest.mark.parametrize("name", NAMES)
def test_another_seed_makes_another_task_of_the_same_form(name: str) -> None:
    one, other = GENERATORS[name](2), GENERATORS[name](3)
    assert one.expected != other.expected
    assert one.folder_files().keys() - one.files.keys() >= {"task.toml", "tests/expected.json"}
    assert (one.window, one.max_steps, one.checks) == (other.window, other.max_steps, other.checks)
    assert GENERATORS[name](2).folder_files() == one.folder_files()


@pytest.mark.parametrize("name", NAMES)
def test_no_expected_text_stands_in_the_instruction(name: str) -> None:
    instance = GENERATORS[name](4)
    assert not [fact for fact in instance.facts if fact.value in instance.instruction]


@pytest.mark.parametrize("name", NAMES)
def test_the_rules_are_in_the_instruction(name: str) -> None:
    instance = GENERATORS[name](4)
    assert all(rule in instance.instruction for rule in instance.rules)


@pytest.mark.parametrize("name", NAMES)
def test_the_solution_is_graded_1(name: str, tmp_path: Path) -> None:
    instance = GENERATORS[name](RELEASE_SEEDS + 2)
    folder = tmp_path / instance.suite / name
    instance.write(folder)
    task = load_task(folder)
    assert (task.name, task.window, task.max_steps) == (
        f"chimera/{name}",
        instance.window,
        instance.max_steps,
    )
    row = Trial(task=task, agent=Oracle(), attempt=1, isolation="copy", folder=tmp_path / "oracle").run()
    assert (row.status, row.reward) == ("graded", 1)


def test_two_families_of_values_are_drawn_for_releases_only() -> None:
    assert families(RELEASE_SEEDS - 1) == OPEN_FAMILIES
    assert families(RELEASE_SEEDS) == HELD_OUT_FAMILIES
    assert not set(OPEN_FAMILIES) & set(HELD_OUT_FAMILIES)


def test_a_twin_differs_in_one_character() -> None:
    rng = draw("twins", 1)
    for value in values(rng, 1, 20):
        other = twin(value, rng)
        assert len(other) == len(value)
        assert sum(a != b for a, b in zip(value, other, strict=True)) == 1


def test_the_marathon_pays_for_the_phases_that_are_done(tmp_path: Path) -> None:
    instance = GENERATORS["migration-marathon"](2)
    first_phase = instance.solution.replace("$(seq 5)", "1")
    assert first_phase != instance.solution
    replace(instance, solution=first_phase).write(tmp_path / "long" / instance.name)
    task = load_task(tmp_path / "long" / instance.name)
    row = Trial(task=task, agent=Oracle(), attempt=1, isolation="copy", folder=tmp_path / "trial").run()
    assert (row.status, row.reward, row.passed) == ("graded", 0.1667, False)
    parts = json.loads((tmp_path / "trial" / "verifier" / "reward.json").read_text())
    assert (parts["phase_1"], parts["phase_2"], parts["manifest"]) == (1, 0, 0)
