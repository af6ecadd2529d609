from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.bench.isolation import private_folder
from chimera.bench.task import BenchTask, load_task
from chimera.bench.tree import copy_files, make_graded_tree, make_start_tree

MakeTask = Callable[..., BenchTask]
PROTECTED = '[metadata.chimera]\nprotected = ["tests/**", "conftest.py"]\n'


def git(tree: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=tree, check=True, capture_output=True, text=True).stdout


def content(tree: Path) -> dict[str, str]:
    """All files but git's own."""
    files = [path for path in sorted(tree.rglob("*")) if path.is_file() and ".git" not in path.parts]
    return {path.relative_to(tree).as_posix(): path.read_text() for path in files}


@pytest.fixture
def task(make_task: MakeTask) -> BenchTask:
    return make_task(
        {
            "environment/workspace/tests/test_it.py": "assert answer() == 4\n",
            "environment/workspace/pkg/a.py": "a = 1\n",
            "environment/workspace/pkg/b.py": "b = 1\n",
        },
        toml=PROTECTED,
    )


@pytest.fixture
def worked(task: BenchTask, tmp_path: Path) -> Path:
    make_start_tree(task, tmp_path / "worked")
    return tmp_path / "worked"


@pytest.fixture
def graded(tmp_path: Path) -> Path:
    return tmp_path / "graded"


def test_the_start_tree_has_one_commit_and_no_other_trace(worked: Path) -> None:
    assert git(worked, "log", "--format=%s %at %an", "--all") == "Start 1767225600 bench\n"
    assert git(worked, "reflog", "--all") == git(worked, "remote") == git(worked, "status", "--short") == ""
    types = git(worked, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)").split()
    assert types.count("commit") == 1
    assert types.count("blob") == len(git(worked, "ls-files").split())


def test_the_start_tree_is_the_same_every_time(task: BenchTask, worked: Path, tmp_path: Path) -> None:
    make_start_tree(task, tmp_path / "again")
    assert git(worked, "rev-parse", "HEAD") == git(tmp_path / "again", "rev-parse", "HEAD")


def test_what_the_workspace_ignores_is_committed_all_the_same(make_task: MakeTask, tmp_path: Path) -> None:
    task = make_task({"environment/workspace/.gitignore": "*\n"})
    make_start_tree(task, tmp_path / "tree")
    assert git(tmp_path / "tree", "ls-files").split() == [".gitignore", "question.txt"]


def test_untouched_work_is_graded_as_the_task_has_it(task: BenchTask, worked: Path, graded: Path) -> None:
    assert make_graded_tree(task, worked, graded) == ()
    assert content(graded) == content(task.workspace)


def test_changes_additions_and_removals_are_carried_over(task: BenchTask, worked: Path, graded: Path) -> None:
    (worked / "pkg" / "a.py").unlink()
    (worked / "pkg" / "b.py").write_text("b = 2\n")
    (worked / "new").mkdir()
    (worked / "new" / "c.py").write_text("c = 3\n")
    (worked / "new" / "c.py").chmod(0o755)
    assert make_graded_tree(task, worked, graded) == ()
    assert not (graded / "pkg" / "a.py").exists()
    assert (graded / "pkg" / "b.py").read_text() == "b = 2\n"
    assert os.access(graded / "new" / "c.py", os.X_OK)


def test_a_folder_that_was_removed_does_not_come_back_empty(
    task: BenchTask, worked: Path, graded: Path
) -> None:
    for name in ("a.py", "b.py"):
        (worked / "pkg" / name).unlink()
    (worked / "pkg").rmdir()
    make_graded_tree(task, worked, graded)
    assert not (graded / "pkg").exists()


def test_protected_paths_are_restored_and_reported(task: BenchTask, worked: Path, graded: Path) -> None:
    (worked / "tests" / "test_it.py").write_text("assert True\n")
    (worked / "tests" / "extra.py").write_text("")
    (worked / "pkg" / "conftest.py").write_text("")
    assert make_graded_tree(task, worked, graded) == ("pkg/conftest.py", "tests/extra.py", "tests/test_it.py")
    assert (graded / "tests" / "test_it.py").read_text() == "assert answer() == 4\n"
    assert not (graded / "tests" / "extra.py").exists()
    assert not (graded / "pkg" / "conftest.py").exists()


def test_a_protected_file_that_was_deleted_is_back_and_reported(
    task: BenchTask, worked: Path, graded: Path
) -> None:
    (worked / "tests" / "test_it.py").unlink()
    assert make_graded_tree(task, worked, graded) == ("tests/test_it.py",)
    assert (graded / "tests" / "test_it.py").exists()


def test_running_the_tests_is_no_tampering(task: BenchTask, worked: Path, graded: Path) -> None:
    (worked / "tests" / "__pycache__").mkdir()
    (worked / "tests" / "__pycache__" / "test_it.cpython-311.pyc").write_bytes(b"")
    assert make_graded_tree(task, worked, graded) == ()
    assert not (graded / "tests" / "__pycache__").exists()


@pytest.mark.parametrize("target", ["/etc/passwd", "../../secret", "pkg/../../secret"])
def test_links_that_lead_out_are_dropped_and_reported(
    task: BenchTask, worked: Path, graded: Path, target: str
) -> None:
    (worked / "answer.txt").symlink_to(target)
    assert make_graded_tree(task, worked, graded) == ("answer.txt",)
    assert not (graded / "answer.txt").is_symlink()


def test_links_within_the_tree_are_carried_over(task: BenchTask, worked: Path, graded: Path) -> None:
    (worked / "link.py").symlink_to("pkg/a.py")
    assert make_graded_tree(task, worked, graded) == ()
    assert (graded / "link.py").readlink() == Path("pkg/a.py")


def test_a_folder_turned_into_a_link_changes_nothing_behind_the_link(
    task: BenchTask, worked: Path, graded: Path
) -> None:
    for name in ("a.py", "b.py"):
        (worked / "pkg" / name).unlink()
    (worked / "pkg").rmdir()
    (worked / "other").mkdir()
    (worked / "other" / "a.py").write_text("other = 1\n")
    (worked / "pkg").symlink_to("other")
    assert make_graded_tree(task, worked, graded) == ()
    assert (graded / "pkg").is_symlink()
    assert (graded / "other" / "a.py").read_text() == "other = 1\n"


def test_a_link_in_place_of_the_tests_leads_the_grader_nowhere(
    task: BenchTask, worked: Path, graded: Path
) -> None:
    (worked / "tests" / "test_it.py").unlink()
    (worked / "tests").rmdir()
    (worked / "tests").symlink_to("pkg")
    assert make_graded_tree(task, worked, graded) == ("tests/test_it.py",)
    assert not (graded / "tests").is_symlink()
    assert (graded / "tests" / "test_it.py").read_text() == "assert answer() == 4\n"
    assert not (graded / "pkg" / "test_it.py").exists()


def test_pipes_and_files_that_cannot_be_read_do_not_stop_the_grading(
    task: BenchTask, worked: Path, graded: Path
) -> None:
    os.mkfifo(worked / "pipe")
    (worked / "locked.txt").write_text("x")
    (worked / "locked.txt").chmod(0)
    assert make_graded_tree(task, worked, graded) == ()
    assert not (graded / "pipe").exists()


def test_paths_that_are_too_long_do_not_stop_the_grading(
    task: BenchTask, worked: Path, graded: Path, tmp_path: Path
) -> None:
    deep = f"for n in $(seq 60); do mkdir {'d' * 90} && cd {'d' * 90}; done; echo 4 >lost.txt"
    subprocess.run(["bash", "-c", f"{deep}; cd {worked}; echo 4 >found.txt"], cwd=worked, check=True)
    assert make_graded_tree(task, worked, graded) == ()
    assert (graded / "found.txt").is_file()
    copy_files(worked, tmp_path / "kept")
    assert (tmp_path / "kept" / "found.txt").is_file()
    subprocess.run(["rm", "-rf", str(worked)], check=True)


def test_a_private_folder_goes_whatever_is_in_it() -> None:
    deep = f"for n in $(seq 60); do mkdir {'d' * 90} && cd {'d' * 90}; done; chmod 000 ."
    with private_folder("test") as folder:
        subprocess.run(["bash", "-c", deep], cwd=folder, check=True)
    assert not folder.exists()


def test_only_declared_artifacts_are_graded(make_task: MakeTask, tmp_path: Path) -> None:
    task = make_task(
        {"environment/workspace/src/keep.py": "", "environment/workspace/src/gen/x.py": "old\n"},
        toml='artifacts = [{ source = "/app/src", exclude = ["gen"] }, "/app/answer.txt"]\n',
    )
    worked, graded = tmp_path / "worked", tmp_path / "graded"
    make_start_tree(task, worked)
    for path in ("src/new.py", "src/gen/x.py", "answer.txt", "question.txt", "stray.txt"):
        (worked / path).write_text("new\n")
    make_graded_tree(task, worked, graded)
    assert content(graded) == {
        "answer.txt": "new\n",
        "question.txt": "2 + 2\n",
        "src/gen/x.py": "old\n",
        "src/keep.py": "",
        "src/new.py": "new\n",
    }


NAMES = st.sampled_from(["tests", "pkg", "conftest.py", "test_it.py", "a.py", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


@given(st.lists(st.tuples(PATHS, st.sampled_from(["write", "remove", "link"])), max_size=12))
def test_whatever_an_agent_leaves_the_protected_files_are_the_tasks_own(steps: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as desk:
        folder = Path(desk, "task")
        for path, text in {
            "task.toml": 'schema_version = "1.4"\ntask.name = "a/b"\n' + PROTECTED,
            "instruction.md": "x",
            "tests/test.sh": "",
            "environment/workspace/tests/test_it.py": "true\n",
            "environment/workspace/pkg/a.py": "a = 1\n",
        }.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        task = load_task(folder)
        worked, graded = Path(desk, "worked"), Path(desk, "graded")
        subprocess.run(["cp", "-r", task.workspace, worked], check=True)
        for path, what in steps:
            _act(worked / path, what)
        tampered = make_graded_tree(task, worked, graded)
        assert (graded / "tests" / "test_it.py").read_text() == "true\n"
        assert not (graded / "tests").is_symlink()
        assert not [p for p in graded.rglob("conftest.py") if p.is_file()]
        for found in graded.rglob("*"):
            assert Path(os.path.realpath(found)).is_relative_to(os.path.realpath(graded))
        mine = worked / "tests" / "test_it.py"
        intact = mine.is_file() and not (worked / "tests").is_symlink() and not mine.is_symlink()
        assert ("tests/test_it.py" in tampered) == (not intact or mine.read_text() != "true\n")


def _act(path: Path, what: str) -> None:
    try:
        if what == "remove":
            path.unlink()
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if what == "write":
            path.write_text("changed\n")
        else:
            path.symlink_to("pkg")
    except OSError:
        # The path is not one that this step can be done to.
        return
