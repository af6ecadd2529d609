from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from chimera.workspace.repository import Repository, find_repository

Git = Callable[..., str]


@pytest.fixture
def repository(tmp_path: Path, git: Git) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "--quiet")
    (root / "a").write_text("a\n")
    git(root, "add", "a")
    git(root, "commit", "--quiet", "-m", "first")
    return root


def test_no_repository_is_none(tmp_path: Path) -> None:
    assert find_repository(tmp_path) is None
    assert find_repository(tmp_path / "missing") is None


def test_a_repository_without_commits_has_a_branch_and_no_start_commit(tmp_path: Path, git: Git) -> None:
    git(tmp_path, "init", "--quiet")

    assert find_repository(tmp_path) == Repository(root=tmp_path.resolve(), start_commit=None, branch="main")


def test_a_subfolder_is_led_to_the_root(repository: Path, git: Git) -> None:
    (repository / "b" / "c").mkdir(parents=True)

    found = find_repository(repository / "b" / "c")

    assert found == Repository(
        root=repository.resolve(), start_commit=git(repository, "rev-parse", "HEAD").strip(), branch="main"
    )


def test_packed_references_are_read(repository: Path, git: Git) -> None:
    git(repository, "pack-refs", "--all")

    found = find_repository(repository)

    assert found is not None
    assert found.start_commit == git(repository, "rev-parse", "HEAD").strip()


def test_a_branch_of_which_nothing_is_packed_has_no_commit(repository: Path, git: Git) -> None:
    git(repository, "pack-refs", "--all")
    git(repository, "checkout", "--quiet", "--orphan", "mai")

    found = find_repository(repository)

    assert found == Repository(root=repository.resolve(), start_commit=None, branch="mai")


def test_a_head_that_names_a_file_elsewhere_reads_nothing_of_it(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a" * 40)
    (repository / ".git" / "HEAD").write_text("ref: ../../secret\n")

    found = find_repository(repository)

    assert found is not None
    assert found.start_commit is None


def test_a_detached_head_has_a_commit_and_no_branch(repository: Path, git: Git) -> None:
    git(repository, "checkout", "--quiet", "--detach")

    found = find_repository(repository)

    assert found is not None
    assert found.branch is None
    assert found.start_commit == git(repository, "rev-parse", "HEAD").strip()


def test_a_linked_worktree_is_its_own_root(repository: Path, git: Git, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "tree"))

    found = find_repository(tmp_path / "tree")

    assert found is not None
    assert (found.root, found.branch) == ((tmp_path / "tree").resolve(), "side")
    assert found.start_commit == git(repository, "rev-parse", "HEAD").strip()


def test_a_submodule_is_its_own_root(repository: Path, git: Git, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "--quiet")
    git(outer, "submodule", "--quiet", "add", str(repository), "inner")

    found = find_repository(outer / "inner")

    assert found is not None
    assert found.root == (outer / "inner").resolve()
    assert found.start_commit == git(repository, "rev-parse", "HEAD").strip()


def test_a_bare_repository_has_no_checkout(tmp_path: Path, git: Git) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "bare")

    assert find_repository(tmp_path / "bare") is None


@pytest.mark.parametrize(
    ("file", "content"),
    [
        (".git/HEAD", b""),
        (".git/HEAD", b"\xff\xfe\0junk"),
        (".git/HEAD", b"ref: refs/heads/missing\n"),
        (".git/HEAD", b"ref: refs/heads/.invalid\n"),
        (".git/refs/heads/main", b"not a hash\n"),
    ],
)
def test_a_head_that_leads_nowhere_is_no_start_commit(repository: Path, file: str, content: bytes) -> None:
    (repository / file).write_bytes(content)

    found = find_repository(repository)

    assert found is None or found.start_commit is None
    assert found is None or found.branch != ".invalid"


def test_a_broken_settings_file_of_the_repository_is_no_exception(repository: Path) -> None:
    (repository / ".git" / "config").write_bytes(b"[core\nrubbish = \xff")

    found = find_repository(repository)

    assert found is None or found.root == repository.resolve()


@pytest.mark.parametrize("content", ["gitdir: /nowhere", "rubbish", ""])
def test_a_pointer_to_nowhere_is_no_exception(tmp_path: Path, content: str) -> None:
    (tmp_path / ".git").write_text(content)

    assert find_repository(tmp_path) is None


def test_a_repository_of_another_owner_is_read(repository: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    for folder, _, files in os.walk(repository):
        for path in (folder, *(os.path.join(folder, name) for name in files)):  # noqa: PTH118
            os.chown(path, 65534, 65534)

    found = find_repository(repository)

    assert found is not None
    assert found.start_commit is not None


def test_inherited_git_variables_of_another_repository_change_nothing(
    repository: Path, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "--quiet")
    expected = find_repository(repository)
    for name in ("GIT_DIR", "GIT_COMMON_DIR"):
        monkeypatch.setenv(name, str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))

    assert find_repository(repository) == expected


def test_references_that_are_not_files_are_asked_for(tmp_path: Path, git: Git) -> None:
    try:
        git(tmp_path, "init", "--quiet", "--ref-format=reftable")
    except subprocess.CalledProcessError:
        pytest.skip("this git keeps references in files only")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "first")

    assert find_repository(tmp_path) == Repository(
        root=tmp_path.resolve(), start_commit=git(tmp_path, "rev-parse", "HEAD").strip(), branch="main"
    )


def run_apart(code: str, *, path: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env={"PATH": path, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_without_git_the_repository_is_still_found(repository: Path, git: Git) -> None:
    code = (
        "from pathlib import Path; from chimera.workspace.repository import find_repository;"
        "print(find_repository(Path('.')).start_commit)"
    )

    found = run_apart(code, path="/nonexistent", cwd=repository)

    assert found == git(repository, "rev-parse", "HEAD").strip()


def test_a_git_that_lies_in_the_workspace_is_never_run(repository: Path) -> None:
    marker = repository.parent / "marker"
    (repository / "bin").mkdir()
    for fake in (repository / "git", repository / "bin" / "git"):
        fake.write_text(f"#!/bin/sh\ntouch {marker}\n")
        fake.chmod(0o755)
    code = (
        "from pathlib import Path; from chimera.workspace.repository import find_repository;"
        "print(find_repository(Path('.')) is not None)"
    )

    found = run_apart(code, path=f".:{repository}/bin:/usr/bin:/bin", cwd=repository)

    assert found == "True"
    assert not marker.exists()
