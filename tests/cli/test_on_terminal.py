"""Runs on a real pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from chimera.cli.cells import width
from chimera.config import process_environment
from tests.cli.command import UNCONFINED, Script

HOSTILE = "\x1b]0;owned\x07\x1b[31m漢字 [bold]" + "word " * 40


def on_terminal(
    *arguments: str, columns: int, typed: str = "", environment: dict[str, str] | None = None
) -> str:
    """What a terminal of this width received, with the program's line ends."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-m", "chimera", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**process_environment(), **(environment or {})},
        start_new_session=True,
    ) as process:
        os.close(theirs)
        received = bytearray()
        while chunk := read(ours):
            received += chunk
            if typed and received.endswith(b"Allow it? [y/N/a/t] "):
                os.write(ours, f"{typed[0]}\n".encode())
                typed = typed[1:]
            elif received.endswith(b"Enter for nothing) "):
                os.write(ours, b"not that file\n")
    os.close(ours)
    assert process.returncode == 0, received.decode()
    return received.decode().replace("\r\n", "\n")


def read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except OSError:  # how Linux says that the other end is closed
        return b""


@pytest.mark.parametrize("columns", [40, 80])
def test_nothing_is_wider_than_the_terminal_and_no_text_steers_it(
    repository: Path, script: Script, columns: int
) -> None:
    call = {"call": "shell", "arguments": {"command": f"echo '{HOSTILE}'"}, "text": HOSTILE}
    model = script([call, {"text": HOSTILE}])
    received = on_terminal(
        "run", "x", "--model", model, *UNCONFINED, columns=columns, environment={"NO_COLOR": "1"}
    )
    assert "\x1b" not in received
    assert "\x07" not in received
    for line in received.split("\n"):
        assert width(line.rpartition("\r")[2]) < columns
    assert "\\x1b]0;owned\\x07" in received
    assert "answered after 2 steps" in received


def test_on_one_screen_the_answer_is_shown_once_and_in_colour(repository: Path, script: Script) -> None:
    received = on_terminal("run", "x", "--model", script([{"text": "Only once."}]), *UNCONFINED, columns=80)
    assert received.count("Only once.") == 1
    assert "\x1b[36mstep 1" in received
    quiet = on_terminal(
        "run", "x", "-q", "--model", script([{"text": "Only once."}]), *UNCONFINED, columns=80
    )
    assert quiet == "Only once.\n"


def test_a_terminal_is_asked_and_its_no_is_a_no(repository: Path, script: Script) -> None:
    replies: list[dict[str, Any]] = [
        {"call": "shell", "arguments": {"command": "touch agreed"}},
        {"call": "shell", "arguments": {"command": "touch refused"}},
        {"text": "ok"},
    ]
    received = on_terminal(
        *("run", "x", "--model", script(replies), "--sandbox", "danger-full-access"), columns=80, typed="yn"
    )
    assert "mode ask" in received
    assert (repository / "agreed").exists()
    assert not (repository / "refused").exists()
    assert "denied by the user, who says: not that file" in received
