from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chimera.workspace.git_folders import (
    CheckoutScan,
    belongs_to,
    enclosing_checkout,
    git_folders,
)

Git = Callable[..., str]


@pytest.fixture
def repository(tmp_path: Path, git: Git) -> Path:
    root = tmp_path.resolve() / "repository"
    root.mkdir()
    git(root, "init", "--quiet")
    git(root, "commit", "--quiet", "--allow-empty", "-m", "first")
    return root


def test_an_ordinary_repository_has_one_folder(repository: Path) -> None:
    found = git_folders(repository)

    assert found is not None
    assert found.own == found.common == repository / ".git"


def test_a_worktree_has_a_folder_of_its_own_that_names_it(repository: Path, git: Git) -> None:
    tree = repository.parent / "tree"
    git(repository, "worktree", "add", "--quiet", "--detach", str(tree))

    found = git_folders(tree)

    assert found is not None
    assert (found.own, found.common) == (repository / ".git" / "worktrees" / "tree", repository / ".git")
    assert belongs_to(found, tree)
    assert not belongs_to(found, repository)


def test_a_submodule_has_a_folder_that_names_it(repository: Path, git: Git) -> None:
    outer = repository.parent / "outer"
    outer.mkdir()
    git(outer, "init", "--quiet")
    git(outer, "submodule", "--quiet", "add", str(repository), "inner")

    found = git_folders(outer / "inner")

    assert found is not None
    assert found.own == found.common == outer / ".git" / "modules" / "inner"
    assert belongs_to(found, outer / "inner")
    assert not belongs_to(found, outer)


@pytest.mark.parametrize(
    "content",
    [b"", b"rubbish", b"gitdir: /nowhere", b"gitdir: .git", b"gitdir: a\0b", b"gitdir: \xff", b"gitdir:"],
)
def test_a_pointer_to_nowhere_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".git").write_bytes(content)

    assert git_folders(tmp_path) is None


def test_a_loop_is_none(tmp_path: Path) -> None:
    (tmp_path / ".git").symlink_to(".git")

    assert git_folders(tmp_path) is None


def test_the_nearest_repository_above_is_found(repository: Path) -> None:
    (repository / "a" / "b").mkdir(parents=True)

    assert enclosing_checkout(repository / "a" / "b") == repository
    assert enclosing_checkout(repository) == repository


def test_the_scan_finds_nested_checkouts_and_follows_no_link(repository: Path) -> None:
    for place in ("a/inner", "b"):
        (repository / place / ".git").mkdir(parents=True)
    (repository / "a" / "loop").symlink_to(repository)

    scan = CheckoutScan(root=repository, limit=100)

    assert set(scan) == {repository, repository / "a" / "inner", repository / "b"}
    assert scan.complete


def test_the_scan_stops_at_its_limit_and_says_so(repository: Path) -> None:
    (repository / "a" / "b" / ".git").mkdir(parents=True)

    scan = CheckoutScan(root=repository, limit=2)

    assert list(scan) == [repository]
    assert not scan.complete
