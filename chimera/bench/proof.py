"""What scripted policies prove of a generated task: that it can be done, that it takes several windows, and who fails it.

No model is asked. A task that no generator made, or that no policy plays, is not proved and has no fault here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chimera.bench.context_run import INFINITE, Cell, Outcome
from chimera.bench.context_track import ANY_ARM, POLICIES, sweep
from chimera.bench.generators.catalogue import GENERATORS
from chimera.bench.generators.instance import RELEASE_SEEDS
from chimera.bench.task import BenchTask

PROVER = "rereader"
"""The policy that can do every task where its window lets it."""
WINDOWS = 3
"""So many of its windows a task of these suites fills without compaction."""
_SUITES = frozenset({"context", "long"})
_OURS, _NULL = "ours-note", "none"


def proofs(tasks: Sequence[BenchTask], *, workers: int = 1) -> dict[str, tuple[str, ...]]:
    """Faults of tasks as the policies find them, by name of the task. Only tasks that were played are in it.

    Each is played with its own seed and with one whose values come from the held-out families.
    """
    played = {task.name: task for task in tasks if _is_playable(task)}
    cells = {name: list(_cells(task)) for name, task in played.items()}
    every = [cell for mine in cells.values() for cell in mine]
    outcomes = {outcome.cell: outcome for outcome in sweep(every, workers=workers)} if every else {}
    return {
        name: (*_differences(task), *(f for cell in cells[name] if (f := _fault(task, outcomes[cell]))))
        for name, task in played.items()
    }


def _is_playable(task: BenchTask) -> bool:
    return task.seed is not None and task.short_name in GENERATORS and task.short_name in POLICIES


def _cells(task: BenchTask) -> Iterator[Cell]:
    seed = task.seed or 0
    for drawn in (seed, seed % RELEASE_SEEDS + RELEASE_SEEDS):
        yield Cell(task.short_name, PROVER, ANY_ARM, INFINITE, drawn)
        if task.window and task.min_compactions:
            yield Cell(task.short_name, PROVER, _NULL, task.window, drawn)
            yield Cell(task.short_name, PROVER, _OURS, task.window, drawn)


def _differences(task: BenchTask) -> Iterator[str]:
    """What is played is the instance of the generator: the folder must be the same."""
    files = GENERATORS[task.short_name](task.seed or 0).folder_files()
    for path, text in files.items():
        found = task.folder / path
        if not found.is_file() or found.read_bytes() != text.encode():
            yield (
                f"{path}: is not what the generator makes of seed {task.seed}; "
                "change the generator and write the task again, or give the task a name of its own"
            )
            return


def _fault(task: BenchTask, outcome: Outcome) -> str | None:
    cell, window = outcome.cell, task.window or 0
    who = f"scripted:{PROVER}, seed {cell.seed}"
    if cell.arm == ANY_ARM:
        if not outcome.solved:
            return f"{who}: does not solve it in a window without end ({outcome.stop_reason})"
        if task.suite in _SUITES and outcome.peak < WINDOWS * window:
            return f"{who}: fills {outcome.peak:,} tokens without compaction; it must be {WINDOWS} times its window of {window:,}"
    elif cell.arm == _NULL and outcome.solved:
        return f"{who}: solves it in {window:,} tokens without any compaction"
    elif cell.arm == _OURS and outcome.compactions < task.min_compactions:
        return (
            f"{who}: compacts {outcome.compactions} times in {window:,} tokens (ends with {outcome.stop_reason}); "
            f"min_compactions is {task.min_compactions}"
        )
    return None
