"""What the times tell that a file system stamps changes with."""

from __future__ import annotations

COARSEST_NS = 2_000_000_000
"""The step of a file system that counts seconds: FAT counts every other one."""
# Of the kernel, which stamps with the time of its last tick (100 a second at least).
_TICKS_NS = 20_000_000
_FINE_NS = 1_000_000


def surely_past(changed_ns: int, now_ns: int) -> bool:
    """Whether a change after `now_ns` is sure to get another stamp than `changed_ns`.

    A stamp with digits below the millisecond is one of a file system that has them.
    """
    step_ns = _TICKS_NS if changed_ns % _FINE_NS else COARSEST_NS
    return changed_ns < now_ns - step_ns
