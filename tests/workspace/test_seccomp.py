"""The system call filter: what it answers on each machine, and that the kernel here agrees."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.workspace.landlock import CONFINE
from chimera.workspace.seccomp import Sockets, system_call_filter

ALLOWED = 0x7FFF_0000
KILLED = 0x8000_0000
MACHINES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
SOCKET, IOCTL, CLONE, UNSHARE = (
    {"x86_64": 41, "aarch64": 198},
    {"x86_64": 16, "aarch64": 29},
    {"x86_64": 56, "aarch64": 220},
    {"x86_64": 272, "aarch64": 97},
)
REFUSED = {
    "x86_64": {101, 248, 249, 250, 308, 310, 311, 425, 426, 427, 435},
    "aarch64": {117, 217, 218, 219, 268, 270, 271, 425, 426, 427, 435},
}
AF_VSOCK, AF_ALG, AF_PACKET, AF_NETLINK = 40, 38, 17, 16
HIGH_BITS = st.integers(0, 2**32 - 1).map(lambda bits: bits << 32)


def answer(
    machine: str, number: int, *arguments: int, architecture: int | None = None, sockets: Sockets = "usual"
) -> int:
    """What the kernel would do with a system call: the program, interpreted."""
    program = system_call_filter(machine, sockets=sockets)
    assert program is not None
    arch = MACHINES[machine] if architecture is None else architecture
    facts = struct.pack("<IIQ6Q", number, arch, 0, *arguments, *[0] * (6 - len(arguments)))
    code = list(struct.iter_unpack("<HBBI", program))
    position, loaded = 0, 0
    while True:
        operation, if_true, if_false, value = code[position]
        position += 1
        match operation:
            case 0x20:
                (loaded,) = struct.unpack_from("<I", facts, value)
            case 0x06:
                return int(value)
            case _:
                holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[operation]
                position += if_true if holds else if_false


def refusal(code: int) -> int:
    return 0x0005_0000 | code


@pytest.mark.parametrize("machine", MACHINES)
class TestProgram:
    @given(number=st.integers(0, 600))
    def test_every_call_but_the_named_ones_is_allowed(self, machine: str, number: int) -> None:
        conditional = {SOCKET[machine], IOCTL[machine], CLONE[machine], UNSHARE[machine]}
        if number not in conditional:
            assert (answer(machine, number) != ALLOWED) == (number in REFUSED[machine])

    @given(family=st.integers(0, 60), protocol=st.integers(0, 30), high=HIGH_BITS)
    def test_only_usual_sockets_are_made_whatever_the_high_bits_say(
        self, machine: str, family: int, protocol: int, high: int
    ) -> None:
        usual = family in {1, 2, 10} or (family == AF_NETLINK and protocol == 0)
        expected = ALLOWED if usual else refusal(errno.EAFNOSUPPORT)
        assert answer(machine, SOCKET[machine], family | high, 3, protocol | high) == expected

    @given(family=st.integers(0, 60))
    def test_no_socket_is_made_where_none_is_asked_for(self, machine: str, family: int) -> None:
        assert answer(machine, SOCKET[machine], family, sockets="none") == refusal(errno.EPERM)

    @given(request=st.integers(0, 2**32 - 1), high=HIGH_BITS)
    def test_nothing_is_typed_into_a_terminal(self, machine: str, request: int, high: int) -> None:
        expected = refusal(errno.EPERM) if request in {0x5412, 0x541C} else ALLOWED
        assert answer(machine, IOCTL[machine], 0, request | high) == expected
        assert answer(machine, IOCTL[machine], 0, 0x5412 | high) == refusal(errno.EPERM)

    @given(flags=st.integers(0, 2**64 - 1))
    def test_no_user_namespace_is_made(self, machine: str, flags: int) -> None:
        expected = refusal(errno.EPERM) if flags & 0x1000_0000 else ALLOWED
        assert answer(machine, CLONE[machine], flags) == expected
        assert answer(machine, UNSHARE[machine], flags) == expected

    @given(number=st.integers(0, 600))
    def test_another_architecture_ends_the_program(self, machine: str, number: int) -> None:
        assert answer(machine, number, architecture=0x4000_0003) == KILLED


@given(number=st.integers(0x4000_0000, 2**32 - 1))
def test_the_x32_interface_is_not_there(number: int) -> None:
    assert answer("x86_64", number) == refusal(errno.ENOSYS)


def test_a_machine_whose_numbers_are_unknown_has_no_filter() -> None:
    assert system_call_filter("riscv64", sockets="usual") is None


@pytest.mark.skipif(os.uname().machine not in MACHINES, reason="no filter for this machine")
class TestKernel:
    def run(self, code: str, sockets: Sockets = "usual", *, truncation: bool = True) -> list[str]:
        program = system_call_filter(os.uname().machine, sockets=sockets, truncation=truncation)
        assert program is not None
        source = CONFINE.read_text(encoding="utf-8")
        setting = (
            "import ctypes, errno, os, socket\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            "def call(*a):\n"
            "    r = libc.syscall(*[ctypes.c_long(x) for x in a])\n"
            "    print(errno.errorcode[ctypes.get_errno()] if r < 0 else 'ok')\n"
        )
        done = subprocess.run(
            [
                sys.executable,
                "-I",
                "-S",
                "-c",
                source,
                f"filter={program.hex()}",
                "--",
                sys.executable,
                "-I",
                "-c",
                setting + code,
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split()

    def test_rare_sockets_are_refused_and_usual_ones_made(self) -> None:
        number = SOCKET[os.uname().machine]
        families = [AF_VSOCK, AF_ALG, AF_PACKET, AF_VSOCK | 1 << 32, 1, 2, 10]
        code = f"for f in {families}: call({number}, f, 2, 0)\ncall({number}, 16, 3, 0)\ncall({number}, 16, 3, 15)\n"

        assert self.run(code) == ["EAFNOSUPPORT"] * 4 + ["ok"] * 4 + ["EAFNOSUPPORT"]

    def test_without_sockets_only_pairs_are_left(self) -> None:
        code = f"call({SOCKET[os.uname().machine]}, 1, 1, 0)\nprint(len(socket.socketpair()))"

        assert self.run(code, "none") == ["EPERM", "2"]

    def test_debugging_keys_rings_and_namespaces_are_refused(self) -> None:
        numbers = sorted(REFUSED[os.uname().machine])
        code = f"for n in {numbers}: call(n, 0, 0, 0, 0, 0)\ncall({UNSHARE[os.uname().machine]}, 0x10000000)"

        assert set(self.run(code)) == {"EPERM", "ENOSYS"}

    def test_files_are_not_cut_by_name_where_that_cannot_be_confined(self, tmp_path: Path) -> None:
        (tmp_path / "f").write_text("text")
        code = (
            f"try: os.truncate({str(tmp_path / 'f')!r}, 0)\n"
            "except PermissionError: print('refused')\n"
            f"with open({str(tmp_path / 'f')!r}, 'r+') as f: f.truncate(1)\n"
        )

        assert self.run(code, truncation=False) == ["refused"]
        assert (tmp_path / "f").read_text() == "t"

    @pytest.mark.skipif(os.uname().machine != "x86_64", reason="only x86-64 has this interface")
    def test_a_call_by_the_x32_interface_is_refused(self) -> None:
        assert self.run(f"call({0x4000_0000 + 39})") == ["ENOSYS"]
