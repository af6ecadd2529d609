"""A machine without any sandbox, simulated by the kernel itself: user namespaces refused, Landlock not there."""

from __future__ import annotations

import errno
import os
import struct
import sys
from collections.abc import Sequence

from chimera.workspace.landlock import CONFINE
from chimera.workspace.seccomp import system_call_filter

_LOAD_NUMBER, _AT_LEAST, _ABOVE, _RETURN = (0x20, 0, 0, 0), 0x35, 0x25, 0x06
# The three system calls of Landlock, 444 to 446 on every machine, answered as by a kernel that has never heard of them.
_NO_LANDLOCK = b"".join(
    struct.pack("<HBBI", *instruction)
    for instruction in (
        _LOAD_NUMBER,
        (_AT_LEAST, 0, 2, 444),
        (_ABOVE, 1, 0, 446),
        (_RETURN, 0, 0, 0x0005_0000 | errno.ENOSYS),
        (_RETURN, 0, 0, 0x7FFF_0000),
    )
)


def without_landlock(argv: Sequence[str]) -> list[str]:
    """The command that runs `argv` on a kernel without Landlock."""
    return _filtered(argv, _NO_LANDLOCK)


def without_namespaces(argv: Sequence[str]) -> list[str]:
    """The command that runs `argv` where user namespaces are refused, as AppArmor does on some systems."""
    return _filtered(argv, _no_namespaces())


def unconfinable(argv: Sequence[str]) -> list[str]:
    """The command that runs `argv` where neither bubblewrap nor Landlock works."""
    return _filtered(argv, _NO_LANDLOCK, _no_namespaces())


def _no_namespaces() -> bytes:
    # What confined commands may not do takes bubblewrap its namespaces.
    program = system_call_filter(os.uname().machine, sockets="usual")
    assert program is not None
    return program


def _filtered(argv: Sequence[str], *programs: bytes) -> list[str]:
    source = CONFINE.read_text(encoding="utf-8")
    words = [f"filter={program.hex()}" for program in programs]
    return [sys.executable, "-I", "-S", "-c", source, *words, "--", *argv]
