"""The context track: tasks, scripted policies, arms, windows and seeds, every combination that says something.

No model is asked and nothing depends on the clock, so the same sweep gives the same numbers every time. What it shows is
what survives in a prompt, and at what price; not whether a model would use it.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from chimera.bench.arms import PEER
from chimera.bench.context_run import INFINITE, Cell, Outcome, play
from chimera.bench.peers import PEERS, installed
from chimera.bench.policies.mind import MINDS
from chimera.errors import ConfigError

WINDOWS = (4_000, 6_000, 8_000, 12_000, 16_000, 24_000, 32_000)
"""And a window without end, in which all arms are the same."""
ARMS = ("none", "truncate", "mask-10", "summary-lossy", "ours-note", "ours-mask")
"""Of the main table."""
SUMMARY_ARMS = (
    *("summary-perfect", "summary-lossy", "summary-paraphrasing", "summary-verbose"),
    *("summary-empty", "summary-inventing", "summary-poisoned"),
)
SUMMARY_WINDOW = 8_000
PEER_ARMS = tuple(f"{PEER}{name}" for name in PEERS)
PEER_WINDOWS = (8_000, 16_000)
PERFECT = "summary-perfect"
PERFECT_TASKS = ("relay-30", "exact-strings")
"""Where facts are all that counts."""
SEEDS = (1, 2, 3)
ANY_ARM = "(any)"
"""In a window without end."""
POLICIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "relay-30": ("recall", "rereader", "noter", "clumsy"),
        "exact-strings": ("recall", "rereader", "noter", "fading"),
        "vendor-is-holy": ("recall", "rereader", "obedient", "batcher"),
        "wrap-once": ("recall", "rereader", "batcher"),
        "ledger-walk": ("recall", "rereader", "clumsy"),
        "resume-overfull": ("recall", "rereader", "fading"),
        "parallel-batch": ("batcher", "clumsy"),
        "floor-squeeze": ("rereader",),
        "honest-stop": ("recall", "rereader"),
        "needle-in-log": ("rereader",),
        "noisy-make": ("rereader",),
        "one-long-line": ("rereader",),
        "change-of-mind": ("recall", "rereader"),
        "dead-ends": ("recall", "rereader"),
        "poisoned-notes": ("rereader", "obedient"),
        "migration-marathon": ("rereader", "batcher"),
    }
)
"""Per task those that act differently there; all of them play in a window without end."""
_MEMORY = Path("/dev/shm")  # noqa: S108  (folders below it are our own and private)

OnOutcome = Callable[[Outcome], None]


class Selection(Struct, frozen=True, kw_only=True):
    """What part of the track is played."""

    tasks: Sequence[str] = tuple(POLICIES)
    policies: Sequence[str] = tuple(MINDS)
    arms: Sequence[str] = (*ARMS, *SUMMARY_ARMS, *PEER_ARMS)
    windows: Sequence[int] = (*WINDOWS, INFINITE)
    seeds: Sequence[int] = SEEDS

    def __post_init__(self) -> None:
        known = {"tasks": POLICIES, "policies": MINDS, "arms": (*ARMS, *SUMMARY_ARMS, *PEER_ARMS)}
        for kind, names in known.items():
            if unknown := [name for name in getattr(self, kind) if name not in names]:
                raise ConfigError(f"{kind}: {unknown[0]!r} is unknown; known: {', '.join(names)}")

    def cells(self) -> list[Cell]:
        """The runs, sorted."""
        return sorted({*self._main(), *self._summaries(), *self._perfect(), *self._peers(), *self._endless()})

    def _main(self) -> Iterator[Cell]:
        for task, policy, seed in self._players():
            for arm in self.arms:
                for window in self.windows:
                    if policy in POLICIES[task] and arm in ARMS and window != INFINITE:
                        yield Cell(task, policy, arm, window, seed)

    def _summaries(self) -> Iterator[Cell]:
        for task, policy, seed in self._players():
            for arm in self.arms:
                chosen = arm in SUMMARY_ARMS and policy in {"recall", "rereader", "obedient"}
                if chosen and seed == SEEDS[0] and SUMMARY_WINDOW in self.windows:
                    yield Cell(task, policy, arm, SUMMARY_WINDOW, seed)

    def _perfect(self) -> Iterator[Cell]:
        """The perfect summary in every window: what it solves may only grow with the window."""
        for task, policy, seed in self._players():
            if PERFECT in self.arms and task in PERFECT_TASKS and policy == "recall":
                yield from (Cell(task, policy, PERFECT, w, seed) for w in self.windows if w != INFINITE)

    def _peers(self) -> Iterator[Cell]:
        """Those that are installed, where the main table is played with the first seed."""
        here = {f"{PEER}{name}" for name in installed()}
        for task, policy, seed in self._players():
            for arm in here.intersection(self.arms):
                for window in PEER_WINDOWS:
                    if policy in POLICIES[task] and seed == SEEDS[0] and window in self.windows:
                        yield Cell(task, policy, arm, window, seed)

    def _endless(self) -> Iterator[Cell]:
        if INFINITE in self.windows:
            for task, policy, seed in self._players():
                yield Cell(task, policy, ANY_ARM, INFINITE, seed)

    def _players(self) -> Iterator[tuple[str, str, int]]:
        for task in self.tasks:
            for policy in self.policies:
                for seed in self.seeds:
                    yield task, policy, seed


def sweep(
    cells: Iterable[Cell], *, workers: int, on_outcome: OnOutcome = lambda outcome: None
) -> list[Outcome]:
    """Play runs in several processes. The outcomes come in the order of their cells, whatever the processes did.

    Args:
        cells: what to play.
        workers: processes at a time.
        on_outcome: told of each as soon as it is known and all before it are.
    """
    ordered = sorted(cells)
    outcomes: list[Outcome] = []
    chunk = max(1, min(16, len(ordered) // (4 * workers)))
    with ProcessPoolExecutor(max_workers=workers, initializer=_prepare, initargs=(os.getpid(),)) as pool:
        try:
            for outcome in pool.map(_play, ordered, chunksize=chunk):
                outcomes.append(outcome)
                on_outcome(outcome)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return outcomes


def _prepare(parent: int) -> None:
    """Work in memory where there is such a place: the tools make every file durable, which a disk takes its time for.

    And end with the process that started this one, however that ends.
    """
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK):
        tempfile.tempdir = str(_MEMORY)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _play(cell: Cell) -> Outcome:
    # Without end nothing is compacted: any arm will do.
    arm = "ours-note" if cell.arm == ANY_ARM else cell.arm
    return replace(play(replace(cell, arm=arm)), cell=cell)
