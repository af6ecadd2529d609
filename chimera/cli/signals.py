"""What a further signal does: everything that this process has started is killed, so that the end has to wait for nothing."""

from __future__ import annotations

import os
import signal

from chimera.workspace import process_table


def kill_descendants() -> None:
    """Kill every process that this one has started, itself or through others."""
    process_table.send(_descendants(os.getpid()), signal.SIGKILL)


def _descendants(ancestor: int) -> set[process_table.Process]:
    processes = process_table.living()
    found: set[process_table.Process] = set()
    parents = {ancestor}
    while parents:
        children = {p for p in processes.values() if p.parent in parents} - found
        found |= children
        parents = {child.pid for child in children}
    return found
