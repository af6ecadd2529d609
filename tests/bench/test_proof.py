"""What scripted policies prove of a generated task, held-out values included."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from chimera.bench.generators.catalogue import CHECKED_IN_SEED, GENERATORS
from chimera.bench.generators.instance import RELEASE_SEEDS
from chimera.bench.proof import proofs
from chimera.bench.task import BenchTask, load_task

pytestmark = pytest.mark.slow

TASKS = Path(__file__).parents[2] / "tasks"
HELD_OUT = CHECKED_IN_SEED + RELEASE_SEEDS


@pytest.fixture
def dead_ends() -> BenchTask:
    return load_task(TASKS / "long" / "dead-ends")


def test_a_context_task_fills_three_windows_and_takes_its_compactions(dead_ends: BenchTask) -> None:
    assert proofs([dead_ends]) == {"chimera/dead-ends": ()}


def test_a_task_that_fits_its_window_is_found_out_with_open_and_with_held_out_values(
    dead_ends: BenchTask,
) -> None:
    faults = proofs([replace(dead_ends, window=100_000)])["chimera/dead-ends"]
    said = [fault.removeprefix("scripted:rereader, seed ").split(maxsplit=3) for fault in faults]
    assert [(int(words[0].rstrip(":")), words[1]) for words in said] == [
        (seed, verb) for seed in (CHECKED_IN_SEED, HELD_OUT) for verb in ("fills", "solves", "compacts")
    ]
    assert "without compaction; it must be 3 times its window of 100,000" in faults[0]
    assert "compacts 0 times in 100,000 tokens (ends with answered); min_compactions is 2" in faults[2]


def test_a_folder_that_its_generator_did_not_write_is_found_out(tmp_path: Path) -> None:
    folder = tmp_path / "tools" / "one-long-line"
    GENERATORS["one-long-line"](CHECKED_IN_SEED).write(folder)
    (folder / "instruction.md").write_text("Write what `catalog.json` holds.\n")
    (fault,) = proofs([load_task(folder)])["chimera/one-long-line"]
    assert fault.startswith("instruction.md: is not what the generator makes of seed 1;")


def test_a_task_of_somebody_else_is_not_proved(dead_ends: BenchTask) -> None:
    assert proofs([replace(dead_ends, seed=None), replace(dead_ends, name="acme/other")]) == {}
