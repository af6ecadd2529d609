"""Which processes there are, and which of them a command started. Reads /proc; where there is none, finds nothing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

_PROC = Path("/proc")
# Start times count from boot, suspended time included; where that clock is missing there is no /proc either.
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Process(Struct, frozen=True, kw_only=True):
    """One living process. `pid` and `started` together are never reused."""

    pid: int
    parent: int
    group: int
    session: int
    started: int
    """Clock ticks since boot."""


def living() -> dict[int, Process]:
    """All processes by pid, zombies left out."""
    try:
        pids = [int(name) for name in os.listdir(_PROC) if name.isdigit()]  # noqa: PTH208  (names, not paths)
    except OSError:
        return {}
    found = (_read(pid) for pid in pids)
    return {process.pid: process for process in found if process is not None}


def _read(pid: int) -> Process | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The name in parentheses may hold anything, so the fields are counted from its end (man 5 proc).
    state, parent, group, session, *rest = stat[stat.rindex(b")") + 2 :].split()
    if state in {b"Z", b"X"}:
        return None
    return Process(pid=pid, parent=int(parent), group=int(group), session=int(session), started=int(rest[15]))


def started_by(session: int, processes: Mapping[int, Process]) -> set[Process]:
    """The processes of a session and all their descendants, in whatever session those are."""
    children: dict[int, list[Process]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    found: set[Process] = set()
    queue = [process for process in processes.values() if process.session == session]
    while queue:
        process = queue.pop()
        if process not in found:
            found.add(process)
            queue += children.get(process.pid, ())
    return found


def marked(variable: str, value: str, processes: Iterable[Process]) -> set[Process]:
    """The processes that were started with `variable=value` in their environment."""
    entry = f"{variable}={value}".encode()
    return {process for process in processes if entry in _environment(process.pid)}


def _environment(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def still(processes: Iterable[Process]) -> set[Process]:
    """Those that are alive now."""
    now = {process: _read(process.pid) for process in processes}
    return {before for before, after in now.items() if after is not None and after.started == before.started}


def send(processes: Iterable[Process], number: signal.Signals) -> None:
    """Signal each process that is still the one that was seen, the oldest first: no parent then sees its child die."""
    for process in sorted(processes, key=lambda process: (process.started, process.pid)):
        if still([process]):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, number)


def tick_now() -> int:
    """The present in the unit of `Process.started`."""
    return int(time.clock_gettime(_BOOT_CLOCK) * os.sysconf("SC_CLK_TCK"))
