"""The system call filter of confined commands: a classic BPF program, as `bwrap --seccomp` and prctl take it.

It refuses what no build and no test needs and what leads out of a sandbox or deep into the kernel. Numbers are those of
the kernel's system call tables and headers for x86_64 and aarch64, both little-endian.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

Sockets = Literal["usual", "none"]
"""`usual`: local, IPv4, IPv6, and netlink to ask for routes. `none`: only pairs that are connected from birth."""
_Instruction: TypeAlias = tuple[int, int, int, int]

# linux/bpf_common.h
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
# linux/seccomp.h: actions, and where `struct seccomp_data` has its fields
_ALLOW, _ERROR, _KILL = 0x7FFF_0000, 0x0005_0000, 0x8000_0000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_X32_BIT = 0x4000_0000
_CLONE_NEWUSER = 0x1000_0000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK, _NETLINK_ROUTE = 1, 2, 10, 16, 0


class _Machine(Struct, frozen=True, kw_only=True):
    architecture: int
    """AUDIT_ARCH_* of linux/audit.h."""
    column: int
    """In the table of numbers."""
    has_x32: bool = False


_MACHINES = {
    "x86_64": _Machine(architecture=0xC000_003E, column=0, has_x32=True),
    "aarch64": _Machine(architecture=0xC000_00B7, column=1),
}
_NUMBERS = {
    "ioctl": (16, 29),
    "socket": (41, 198),
    "clone": (56, 220),
    "truncate": (76, 45),
    "ptrace": (101, 117),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "setns": (308, 268),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "clone3": (435, 435),
}


def system_call_filter(machine: str, *, sockets: Sockets, truncation: bool = True) -> bytes | None:
    """The program for a machine as `os.uname` names it; None where its numbers are not known.

    Args:
        machine: `x86_64` or `aarch64`.
        sockets: which sockets can be made.
        truncation: whether files may be cut by their name; cutting an open file always works.
    """
    known = _MACHINES.get(machine)
    if known is None:
        return None
    program = [*_preamble(known)]
    for name, body in _rules(sockets, truncation):
        program += [(_EQUAL, 0, len(body), _NUMBERS[name][known.column]), *body]
    program.append(_allow())
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)


def _preamble(machine: _Machine) -> Iterator[_Instruction]:
    """Programs of another architecture end at once: their numbers mean other calls. Leaves the number loaded."""
    yield (_LOAD, 0, 0, _ARCHITECTURE)
    yield (_EQUAL, 1, 0, machine.architecture)
    yield (_RETURN, 0, 0, _KILL)
    yield (_LOAD, 0, 0, _NUMBER)
    if machine.has_x32:
        yield (_AT_LEAST, 0, 1, _X32_BIT)
        yield _refuse(errno.ENOSYS)


def _rules(sockets: Sockets, truncation: bool) -> Iterator[tuple[str, list[_Instruction]]]:
    yield "socket", _usual_sockets() if sockets == "usual" else [_refuse(errno.EPERM)]
    yield "ioctl", _terminal_input()
    for name in ("clone", "unshare"):
        yield name, [_argument(0), (_ANY_BIT, 0, 1, _CLONE_NEWUSER), _refuse(errno.EPERM), _allow()]
    # Its flags lie in memory, out of a filter's sight. Told that it does not exist, the C library takes clone.
    yield "clone3", [_refuse(errno.ENOSYS)]
    for name in ("io_uring_setup", "io_uring_enter", "io_uring_register"):
        yield name, [_refuse(errno.ENOSYS)]
    for name in ("ptrace", "process_vm_readv", "process_vm_writev", "setns"):
        yield name, [_refuse(errno.EPERM)]
    for name in ("add_key", "request_key", "keyctl"):
        yield name, [_refuse(errno.EPERM)]
    if not truncation:
        yield "truncate", [_refuse(errno.EACCES)]


def _usual_sockets() -> list[_Instruction]:
    return [
        _argument(0),
        (_EQUAL, 6, 0, _AF_UNIX),
        (_EQUAL, 5, 0, _AF_INET),
        (_EQUAL, 4, 0, _AF_INET6),
        (_EQUAL, 0, 2, _AF_NETLINK),
        _argument(2),
        (_EQUAL, 1, 0, _NETLINK_ROUTE),
        _refuse(errno.EAFNOSUPPORT),
        _allow(),
    ]


def _terminal_input() -> list[_Instruction]:
    """Refuses to type into a terminal on the user's behalf."""
    return [
        _argument(1),
        (_EQUAL, 1, 0, _TIOCSTI),
        (_EQUAL, 0, 1, _TIOCLINUX),
        _refuse(errno.EPERM),
        _allow(),
    ]


def _argument(position: int) -> _Instruction:
    # The low half only, as the kernel itself reads these arguments: bits above 32 would slip past a test of all 64.
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * position)


def _refuse(code: int) -> _Instruction:
    return (_RETURN, 0, 0, _ERROR | code)


def _allow() -> _Instruction:
    return (_RETURN, 0, 0, _ALLOW)
