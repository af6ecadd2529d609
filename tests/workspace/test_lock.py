from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chimera.errors import RecordError, WorkspaceError, WorkspaceLockedError
from chimera.workspace.lock import workspace_lock

HOLDER = """
import sys
from pathlib import Path
from chimera.workspace.lock import workspace_lock
with workspace_lock(Path(sys.argv[1]), Path(sys.argv[2]), "run-of-holder"):
    print("held", flush=True)
    sys.stdin.read()
"""


def start_holder(state: Path, root: Path) -> subprocess.Popen[bytes]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(state), str(root)],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    return holder


def test_a_second_run_is_told_who_holds_the_workspace(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "link").symlink_to(root)
    with start_holder(tmp_path / "state", root) as holder:
        for path in (root, tmp_path / "link", root / ".." / "root"):
            with (
                pytest.raises(WorkspaceLockedError, match=rf"run run-of-holder \(process {holder.pid}\)"),
                workspace_lock(tmp_path / "state", path, "second"),
            ):
                pass
        holder.kill()


def test_a_killed_run_frees_the_workspace(tmp_path: Path) -> None:
    with start_holder(tmp_path / "state", tmp_path) as holder:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()

        with workspace_lock(tmp_path / "state", tmp_path, "next"):
            pass


def test_a_child_that_a_killed_run_was_just_starting_is_waited_for(tmp_path: Path) -> None:
    forking = HOLDER.replace(
        'print("held", flush=True)',
        "import os, time; os.fork() or (time.sleep(0.3), os._exit(0)); print('held', flush=True)",
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", forking, str(tmp_path / "state"), str(tmp_path)],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        holder.kill()
        holder.wait()
        with workspace_lock(tmp_path / "state", tmp_path, "next"):
            pass


def test_the_end_of_a_run_frees_the_workspace(tmp_path: Path) -> None:
    for run in ("first", "second"):
        with workspace_lock(tmp_path / "state", tmp_path, run):
            pass


def test_two_workspaces_can_be_worked_in_at_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with (
        workspace_lock(tmp_path / "state", tmp_path / "a", "first"),
        workspace_lock(tmp_path / "state", tmp_path / "b", "second"),
    ):
        pass


@pytest.mark.parametrize(
    ("held", "wanted", "relation"),
    [("a", "a/b", "lies in"), ("a", "a/b/c", "lies in"), ("a/b/c", "a", "holds"), ("a/b", "link", "holds")],
)
def test_a_folder_and_one_within_it_are_not_worked_in_at_once(
    tmp_path: Path, held: str, wanted: str, relation: str
) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "a-sibling").mkdir()
    (tmp_path / "link").symlink_to("a")
    state = tmp_path / "state"
    with start_holder(state, tmp_path / held) as holder:
        for _ in range(2):
            with (
                pytest.raises(
                    WorkspaceLockedError, match=rf"{relation} .*run-of-holder \(process {holder.pid}\)"
                ),
                workspace_lock(state, tmp_path / wanted, "second"),
            ):
                pass
        with workspace_lock(state, tmp_path / "a-sibling", "third"):
            pass
        holder.kill()
        holder.wait()
        with workspace_lock(state, tmp_path / wanted, "fourth"):
            pass


def test_what_a_killed_run_left_in_its_lock_file_names_nobody(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    state = tmp_path / "state"
    with start_holder(state, tmp_path / "a") as dead:
        dead.kill()
    with (
        workspace_lock(state, tmp_path / "a" / "b", "alive"),
        pytest.raises(WorkspaceLockedError, match=rf"holds .*run alive \(process {os.getpid()}\)"),
        workspace_lock(state, tmp_path / "a", "second"),
    ):
        pass


def test_the_lock_file_is_private(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        with workspace_lock(tmp_path / "state", tmp_path, "run"):
            for file in (tmp_path / "state" / "locks").iterdir():
                assert file.stat().st_mode & 0o777 == 0o600
                assert file.parent.stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(old)


def test_a_missing_workspace_and_an_unusable_state_directory_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(WorkspaceError, match="cannot be used"),
        workspace_lock(tmp_path, tmp_path / "no", "run"),
    ):
        pass
    with pytest.raises(RecordError, match="lock file"), workspace_lock(tmp_path / "file", tmp_path, "run"):
        pass
