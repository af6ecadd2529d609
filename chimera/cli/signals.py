"""Signals while a run goes on: the first one stops it honestly, the second one ends everything at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from chimera.core.agent import Interrupted
from chimera.workspace import process_table

_EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143}


@contextmanager
def stop_signals() -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into `Interrupted` for the duration of the block.

    A signal that this process was started to ignore (`nohup`) stays ignored.
    """
    received = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal received
        if received:
            _end_at_once(_EXIT_CODES[signal.Signals(number)])
        received = True
        raise Interrupted("SIGINT" if number == signal.SIGINT else "SIGTERM")

    earlier = {number: signal.getsignal(number) for number in _EXIT_CODES}
    ours = [number for number, handler in earlier.items() if handler is not signal.SIG_IGN]
    for number in ours:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, earlier[number])


def _end_at_once(exit_code: int) -> None:
    process_table.send(_descendants(os.getpid()), signal.SIGKILL)
    os._exit(exit_code)


def _descendants(ancestor: int) -> set[process_table.Process]:
    processes = process_table.living()
    found: set[process_table.Process] = set()
    parents = {ancestor}
    while parents:
        children = {p for p in processes.values() if p.parent in parents} - found
        found |= children
        parents = {child.pid for child in children}
    return found
