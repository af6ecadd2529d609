"""Takes the secrets out of what other processes can read of this one.

What a process was started with stays readable in `/proc/PID/environ` whatever it does to its variables afterwards, for
every process of the same user. What is read there is memory of this process, so a command that runs tools writes over
the secrets in it; from then on they are only in Python's own copy.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ctypes

COMMANDS = frozenset({"run", "resume", "chat", "bench"})
_PR_SET_DUMPABLE = 4


def start_clean(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Leave `environment` as it is and no secret of it in what other processes can read.

    Does nothing for commands that run no tools, and where there is nothing to hide.

    Args:
        arguments: without the name of the program.
        environment: the one of this process.
    """
    if next((word for word in arguments if not word.startswith("-")), "") not in COMMANDS:
        return
    from chimera.workspace.secret_variables import secret_variables

    secrets = secret_variables(environment)
    if not secrets:
        return
    import ctypes

    library = ctypes.CDLL(None)
    _overwrite(library, {os.fsencode(name) for name in secrets})
    _forbid_inspection(library)


def _overwrite(library: ctypes.CDLL, names: Collection[bytes]) -> None:
    """Fill the values of these variables with zeros where they lie."""
    import ctypes

    for place in _places(library):
        name, _, value = ctypes.string_at(place).partition(b"=")
        if name in names:
            ctypes.memset(place + len(name) + 1, 0, len(value))


def _places(library: ctypes.CDLL) -> Iterator[int]:
    """The addresses of the `NAME=value` strings of this process, as the C library keeps them."""
    import ctypes

    strings = ctypes.POINTER(ctypes.c_void_p)
    if sys.platform == "darwin":
        environ = library["_NSGetEnviron"]
        environ.restype = ctypes.POINTER(strings)
        found = environ().contents
    else:
        found = strings.in_dll(library, "environ")
    index = 0
    while place := found[index]:
        yield place
        index += 1


def _forbid_inspection(library: ctypes.CDLL) -> None:
    """Ask the kernel to show memory and environment of this process to root only. Best effort."""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):
            library.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
