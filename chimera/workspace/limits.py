"""What one process of a confined command may use up.

Memory is not limited by address space: Node and Java reserve far more of it than they use. The number of processes is
limited only where the kernel counts those of a user namespace by themselves (5.14): elsewhere everything that the user
has running would count, and a desktop alone has more.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

FILE_BYTES = 2 * 1024**3
OPEN_FILES = 4096
PROCESSES = 4096
"""Threads count, and numerical libraries start one per core and process."""
_SHELL_BLOCK = 512
"""Bytes in the unit of `ulimit -f` and `-c` of a POSIX shell."""
_COUNTED_BY_NAMESPACE = (5, 14)

_LIMITS = (
    (resource.RLIMIT_CORE, 0),
    (resource.RLIMIT_FSIZE, FILE_BYTES),
    (resource.RLIMIT_NOFILE, OPEN_FILES),
)


def limit_words() -> Iterator[str]:
    """The limits as words of `confine`."""
    for number, value in _limits():
        yield f"limit={number}:{value}"


def limiting_shell() -> tuple[str, ...]:
    """A command that sets the limits and becomes the command that follows it."""
    options = {resource.RLIMIT_CORE: "-c", resource.RLIMIT_FSIZE: "-f", resource.RLIMIT_NOFILE: "-n"}
    units = {resource.RLIMIT_FSIZE: _SHELL_BLOCK}
    lines = [f"ulimit {options[number]} {value // units.get(number, 1)}" for number, value in _limits()]
    if _kernel() >= _COUNTED_BY_NAMESPACE and _fits(resource.RLIMIT_NPROC, PROCESSES):
        # dash has -p for what others call -u.
        lines.append(f"{{ ulimit -u {PROCESSES} || ulimit -p {PROCESSES}; }} 2>/dev/null")
    return ("/bin/sh", "-c", "; ".join([*lines, 'exec "$@"']), "sh")


def _limits() -> Iterator[tuple[int, int]]:
    """Those that are stricter than what holds anyway."""
    return ((number, value) for number, value in _LIMITS if _fits(number, value))


def _fits(number: int, value: int) -> bool:
    most = resource.getrlimit(number)[1]
    return most in {resource.RLIM_INFINITY, value} or value < most


def _kernel() -> tuple[int, ...]:
    return tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2] if part.isdigit())
