"""The canary escapes of the doctor: they find what gets out, tell what does not, and leave nothing behind."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chimera.config import process_environment
from chimera.workspace.escapes import DESCRIPTIONS, GUARANTEES, Guarantee, Trial, try_escapes

# One after the other: they look for what the others put into the system for a moment.
pytestmark = pytest.mark.xdist_group("escapes")
LANDLOCK_LOSES: set[Guarantee] = {"modes_outside", "write_git", "read_home", "survival"}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "home"
    home.mkdir()
    return {**process_environment(), "HOME": str(home)}


@pytest.fixture(autouse=True)
def nothing_is_left(environment: dict[str, str]) -> Iterator[None]:
    yield
    assert list(Path(environment["HOME"]).iterdir()) == []
    # A doctor that runs in another process of the suite tries and naps, too, but never for long.
    assert eventually(lambda: not list(Path("/etc").glob("chimera-doctor-*")))
    assert eventually(lambda: not any(b"sleep\0" + b"299." in command for command in command_lines()))


def eventually(holds: Callable[[], bool]) -> bool:
    """Whether it holds within half a minute: a nap that was left behind lasts ten times as long."""
    deadline = time.monotonic() + 30
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def command_lines() -> Iterator[bytes]:
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes()
            environ = (entry / "environ").read_bytes()
        except OSError:
            continue
        # Other tests let processes sleep, too; those of the attack have no environment.
        if not environ:
            yield command


def lost(trial: Trial) -> set[Guarantee]:
    assert trial.fault is None
    return {name for name, held in trial.held.items() if held is False}


def test_every_guarantee_has_words() -> None:
    assert tuple(DESCRIPTIONS) == GUARANTEES


@pytest.mark.usefixtures("bubblewrap")
def test_nothing_gets_out_of_bubblewrap(environment: dict[str, str]) -> None:
    trial = try_escapes("bwrap", environment)

    assert trial.works
    assert set(trial.held.values()) == {True}


@pytest.mark.usefixtures("landlock")
def test_what_gets_out_of_landlock_is_what_it_is_said_to_miss(environment: dict[str, str]) -> None:
    trial = try_escapes("landlock", environment)

    assert trial.works
    assert lost(trial) == LANDLOCK_LOSES
    assert {name for name, held in trial.held.items() if held} == {*GUARANTEES} - LANDLOCK_LOSES


def test_a_backend_that_confines_nothing_is_found_out(environment: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "bwrap").write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
    (folder / "bwrap").chmod(0o755)

    trial = try_escapes("bwrap", environment, trusted_path=str(folder))

    expected: set[Guarantee] = {*GUARANTEES}
    if os.geteuid() != 0:
        expected -= {"write_system", "mounts"}
    if not can_make_vsock():
        expected -= {"vsock"}
    assert not trial.works
    assert lost(trial) == expected


def can_make_vsock() -> bool:
    try:
        socket.socket(40, socket.SOCK_STREAM).close()
    except OSError:
        return False
    return True


def test_a_backend_that_is_missing_says_why(environment: dict[str, str], tmp_path: Path) -> None:
    trial = try_escapes("bwrap", environment, trusted_path=str(tmp_path))

    assert trial.fault is not None
    assert "bwrap was not found" in trial.fault
    assert not trial.works


def test_a_trial_that_does_not_come_to_its_end_proves_nothing(
    environment: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "bwrap").write_text("#!/bin/sh\necho quiet\n")
    (folder / "bwrap").chmod(0o755)

    trial = try_escapes("bwrap", environment, trusted_path=str(folder))

    assert trial.fault == "the trial did not come to its end: quiet"
    assert not trial.works
