"""What the processes of a running program have cost so far, read from /proc (Linux)."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """All processes of one session, as they are alive now."""

    cpu_s: float
    """Of all their threads, by the scheduler's own clock (nanoseconds, not ticks); of threads that ended only the ticks."""
    peak_rss_mb: float
    """Their largest resident sizes, added up."""


def read_session(session: int) -> Reading:
    """The reading of a session, which its leader was started in.

    Commands that an agent starts in sessions of their own, and has waited for, are not in it.
    """
    cpu_ns, peak_kb = 0, 0
    for place in _PROC.iterdir():
        if place.name.isdecimal():
            with suppress(OSError, IndexError, ValueError):
                if os.getsid(int(place.name)) == session:
                    cpu_ns += _cpu_ns(place)
                    peak_kb += _peak_kb(place)
    return Reading(cpu_s=cpu_ns / 1e9, peak_rss_mb=peak_kb / 1024)


def _cpu_ns(place: Path) -> int:
    threads = sum(int((task / "schedstat").read_text().split()[0]) for task in (place / "task").iterdir())
    fields = (place / "stat").read_bytes().rsplit(b")", 1)[1].split()
    ticks_ns = (int(fields[11]) + int(fields[12])) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return max(threads, ticks_ns)


def _peak_kb(place: Path) -> int:
    lines = (place / "status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
