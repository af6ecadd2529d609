"""What a run leaves is the user's alone, whatever the mask says and whoever was there before."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from chimera.errors import RecordError
from chimera.record.run_directory import RunDirectory

PROGRAM = """
import os, sys; from pathlib import Path
os.umask(0)
from chimera.record.events import Event
from chimera.record.run_directory import RunDirectory
record = RunDirectory.create(Path(sys.argv[1]), "one")
record.emit(Event("warning", {"text": "x"})); record.keep_output("x"); record.keep_archive("x")
"""


def modes(folder: Path) -> set[tuple[bool, int]]:
    return {(path.is_dir(), stat.S_IMODE(path.lstat().st_mode)) for path in (folder, *folder.rglob("*"))}


def test_without_a_mask_everything_is_still_private(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path / "state")], check=True)
    assert modes(tmp_path / "state") == {(True, 0o700), (False, 0o600)}


def test_a_folder_of_runs_that_was_open_to_others_is_closed(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs").chmod(0o777)
    RunDirectory.create(tmp_path, "one").close()
    assert stat.S_IMODE((tmp_path / "runs").stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("linked", [True, False])
def test_a_folder_of_runs_of_somebody_else_is_refused(tmp_path: Path, linked: bool) -> None:
    theirs = tmp_path / ("theirs" if linked else "runs")
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    if linked:
        (tmp_path / "runs").symlink_to(theirs)
    with pytest.raises(RecordError, match="belongs to another user"):
        RunDirectory.create(tmp_path, "one")
    assert list(theirs.iterdir()) == []
