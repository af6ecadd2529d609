from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chimera.record.syncing import Syncing


def test_what_was_asked_for_is_done_when_it_is_closed(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb", buffering=0) as file:
        syncing = Syncing(file.fileno())
        for _ in range(3):
            file.write(b"line\n")
            syncing.soon()
        syncing.now()
        syncing.close()
        syncing.close()
    assert (tmp_path / "file").read_bytes() == b"line\n" * 3


def test_a_fault_while_the_caller_went_on_is_told_before_anything_else_counts_as_on_disk() -> None:
    reading, writing = os.pipe()
    empty = os.open(os.devnull, os.O_WRONLY)
    try:
        syncing = Syncing(writing)  # a pipe cannot be brought to disk
        syncing.soon()
        syncing.close()
        os.dup2(empty, writing)
        with pytest.raises(OSError, match="Invalid argument"):
            syncing.now()
    finally:
        for descriptor in (reading, writing, empty):
            os.close(descriptor)


def test_a_system_without_fdatasync_brings_records_to_disk_by_fsync() -> None:
    program = (
        "import os, sys, tempfile\n"
        "sys.platform = 'darwin'; del os.fdatasync\n"
        "from chimera.record.syncing import Syncing\n"
        "file = tempfile.TemporaryFile(buffering=0); file.write(b'line')\n"
        "syncing = Syncing(file.fileno()); syncing.soon(); syncing.close(); syncing.now()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
