"""Starts this process over without secrets in its environment.

What a process was started with stays readable in `/proc/PID/environ` whatever it does to its variables afterwards, for
every process of the same user. So a command that runs tools takes the secrets out, hands them to itself over a pipe
and starts once more; from then on they are only in its memory.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import sys
from collections.abc import Mapping, MutableMapping, Sequence

from chimera import interruption
from chimera.workspace.secret_variables import secret_variables

HANDOVER = "_CHIMERA_HANDOVER"
"""Names the pipe: `DESCRIPTOR:INODE`. Whoever finds it set never starts over, so there is no loop."""
COMMANDS = frozenset({"run", "resume", "chat", "bench"})
_PIPE_BYTES = 1 << 20
_PR_SET_DUMPABLE = 4


def start_clean(arguments: Sequence[str], environment: MutableMapping[str, str]) -> None:
    """Return with every variable in `environment` and no secret in what other processes can read of it.

    Does nothing for commands that run no tools, and where there is nothing to hide. Does not return when it starts the
    process over.

    Args:
        arguments: without the name of the program.
        environment: the one of this process.
    """
    handed = environment.pop(HANDOVER, None)
    if handed is not None:
        environment.update(_received(handed))
        _forbid_inspection()
        return
    secrets = secret_variables(environment)
    if next((word for word in arguments if not word.startswith("-")), "") not in COMMANDS or not secrets:
        return
    if _can_start_over():
        _start_over(environment, secrets)
    _forbid_inspection()


def _can_start_over() -> bool:
    """Whether the same words start the same program: not where it was read from standard input or embedded."""
    main = sys.modules["__main__"]
    as_module = getattr(getattr(main, "__spec__", None), "name", "") == "chimera.__main__"
    as_script = os.path.basename(sys.argv[0]).partition(".")[0] == "chimera"  # noqa: PTH119  (no pathlib this early)
    return (as_module or as_script) and hasattr(main, "__file__") and bool(sys.executable)


def _start_over(environment: Mapping[str, str], secrets: Mapping[str, str]) -> None:
    """Become the same command without the secrets; return if that cannot be done."""
    reading, writing = os.pipe()
    try:
        with contextlib.suppress(OSError, AttributeError):
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        os.set_blocking(writing, False)
        content = os.fsencode("\0".join(f"{name}={value}" for name, value in secrets.items()))
        with contextlib.suppress(OSError):
            if os.write(writing, content) == len(content):
                os.close(writing)
                writing = -1
                os.set_inheritable(reading, True)
                clean = {name: value for name, value in environment.items() if name not in secrets}
                clean[HANDOVER] = f"{reading}:{os.fstat(reading).st_ino}"
                with interruption.handed_on() as undisturbed:
                    if undisturbed:
                        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], clean)  # noqa: S606
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)


def _received(handed: str) -> dict[str, str]:
    """What the process before this one handed over; nothing if the variable names no such pipe."""
    try:
        descriptor, inode = map(int, handed.split(":"))
        status = os.fstat(descriptor)
    except (ValueError, OSError):
        return {}
    if descriptor <= 2 or status.st_ino != inode or not stat.S_ISFIFO(status.st_mode):
        return {}
    with open(descriptor, "rb") as pipe:  # noqa: PTH123  (a descriptor is read)
        pairs = (pair.partition("=") for pair in os.fsdecode(pipe.read()).split("\0"))
        return {name: value for name, _, value in pairs if name}


def _forbid_inspection() -> None:
    """Ask the kernel to show memory and environment of this process to root only. Best effort."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
