"""Takes the secrets out of what other processes can read of this one.

What a process was started with stays readable in `/proc/PID/environ` whatever it does to its variables afterwards, for
every process of the same user. What is read there is memory of this process, so a command that runs tools writes over
the secrets in it; from then on they are only in Python's own copy.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

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

    # What ran before, as a `.pth` file or `sitecustomize` may, can have changed a variable: then both values are to go.
    secrets = secret_variables(environment).keys() | secret_variables(_started_with()).keys()
    if not secrets:
        return
    try:
        import ctypes
    except ImportError:
        told = ", ".join(sorted(secrets))
        sys.stderr.write(f"chimera: this Python has no ctypes, so commands can read your keys: {told}\n")
        return
    library = ctypes.CDLL(None)
    names = {os.fsencode(name) for name in secrets}
    _overwrite([*_places(library), *_first_places()], names)
    _forbid_inspection(library)


def _overwrite(places: Iterable[int], names: Collection[bytes]) -> None:
    """Fill the values of these variables with zeros where they lie."""
    import ctypes

    for place in places:
        name, _, value = ctypes.string_at(place).partition(b"=")
        if name in names:
            ctypes.memset(place + len(name) + 1, 0, len(value))


def _started_with() -> dict[str, str]:
    """The variables that other processes can read of this one; empty where that cannot be told."""
    with contextlib.suppress(OSError), open("/proc/self/environ", "rb") as file:  # noqa: PTH123  (pathlib is not loaded yet)
        pairs = [entry.partition(b"=") for entry in file.read().split(b"\0")]
        return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
    return {}


def _first_places() -> Iterator[int]:
    """The addresses of the strings that this process was started with, on Linux."""
    import ctypes

    with contextlib.suppress(OSError), open("/proc/self/stat", "rb") as file:  # noqa: PTH123
        # Fields 50 and 51 of all, of which two are before the end of the name: proc(5).
        begin, end = map(int, file.read().rpartition(b")")[2].split()[47:49])
        while begin < end:
            yield begin
            begin += len(ctypes.string_at(begin)) + 1


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
