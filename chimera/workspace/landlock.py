"""The second way to confine commands: Landlock rules of the kernel with a system call filter. No program is needed.

Weaker than namespaces: it grants and refuses writing, but hides nothing. Numbers are those of linux/landlock.h.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from chimera.workspace.limits import limit_words
from chimera.workspace.seccomp import system_call_filter

CONFINE = Path(__file__).with_name("confine.py")
"""The program that confines itself and becomes the command. Handed over as text."""
_CREATE_RULESET, _VERSION = 444, 1
_WRITE_FILE = 1 << 1
# Remove and make entries of every kind: the rights from REMOVE_DIR to MAKE_SYM.
_CHANGE_FOLDERS = sum(1 << bit for bit in range(4, 13))
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1 << 0, 1 << 1
# The interface versions in which rights came, kernel documentation, userspace-api/landlock.
_ABI_REFER, _ABI_TRUNCATE, _ABI_TCP, _ABI_IOCTL_DEV, _ABI_SCOPES = 2, 3, 4, 5, 6
# Shells and build tools write these; none of them leads anywhere.
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/urandom")

_ALWAYS_MISSING = (
    "commands can read everything that you can read, keys in your home included",
    "commands can change .git: hooks, config and history",
    "commands can change mode, owner and times of files outside the workspace",
    "commands can see the other processes of this machine, but not their environment",
    "a process that leaves its session and clears its environment outlives its command",
    "commands cannot use /tmp, /dev/shm or pseudo-terminals; TMPDIR names a folder of their own",
)


class LandlockPlan(Struct, frozen=True, kw_only=True):
    """How commands are confined by Landlock, and what that cannot promise."""

    prefix: tuple[str, ...]
    """Stands before `--` and the command."""
    missing: tuple[str, ...]


def landlock_abi() -> int:
    """The version of the interface that this kernel offers; 0 where there is none or it is switched off."""
    if not sys.platform.startswith("linux"):
        return 0
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    version = library.syscall(
        ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint(_VERSION)
    )
    return max(0, int(version))


def plan_landlock(
    workspace: Path, *, writable: bool, allow_net: bool, abi: int, machine: str | None = None
) -> LandlockPlan:
    """The plan for commands in `workspace`, a real path.

    Args:
        workspace: stays writable, if `writable`.
        writable: false for the level read-only.
        allow_net: sockets of the usual kinds can be made, and nothing holds their connections back.
        abi: at least 1.
        machine: as `os.uname` names it; None: this one.
    """
    program = system_call_filter(
        machine or os.uname().machine,
        sockets="usual" if allow_net else "none",
        truncation=abi >= _ABI_TRUNCATE,
    )
    words = [
        f"fs={_file_rights(abi)}",
        f"net={0 if allow_net or abi < _ABI_TCP else _BIND_TCP | _CONNECT_TCP}",
        f"scope={_SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS if abi >= _ABI_SCOPES else 0}",
        *([f"write={workspace}"] if writable else []),
        *(f"write={device}" for device in _DEVICES if Path(device).exists()),
        *limit_words(),
        *([f"filter={program.hex()}"] if program else []),
    ]
    return LandlockPlan(
        prefix=(*_interpreter(), CONFINE.read_text(encoding="utf-8"), *words),
        missing=(*_ALWAYS_MISSING, *_losses(abi, allow_net=allow_net, filtered=program is not None)),
    )


def interpreter_inside(workspace: Path) -> bool:
    """Whether commands could change the Python that is to confine them."""
    places = (os.path.realpath(sys.executable), os.path.realpath(sys.base_prefix))
    return any(Path(place).is_relative_to(workspace) for place in places)


def _interpreter() -> tuple[str, ...]:
    # The real program, not the link of a virtual environment, which may lie in the workspace.
    return (os.path.realpath(sys.executable), "-I", "-S", "-c")


def _file_rights(abi: int) -> int:
    rights = _WRITE_FILE | _CHANGE_FOLDERS
    for needed, right in ((_ABI_REFER, _REFER), (_ABI_TRUNCATE, _TRUNCATE), (_ABI_IOCTL_DEV, _IOCTL_DEV)):
        rights |= right if abi >= needed else 0
    return rights


def _losses(abi: int, *, allow_net: bool, filtered: bool) -> Iterator[str]:
    if allow_net:
        yield "commands can talk to services of this machine through sockets: Docker, the SSH agent, the desktop"
    elif filtered:
        yield "commands can make no socket, not even for a server of their own on loopback"
    else:
        yield "commands can use UDP, name resolution and local sockets: no system call filter for this machine"
        if abi < _ABI_TCP:
            yield "commands can use TCP"
    if not filtered and abi < _ABI_TRUNCATE:
        yield "commands can empty files outside the workspace"
    if abi < _ABI_REFER:
        yield "commands cannot move or link files from one folder to another"
    if abi < _ABI_SCOPES:
        yield "commands can send signals to your other processes"
