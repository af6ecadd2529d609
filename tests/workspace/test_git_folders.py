from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from chimera.workspace.git_folders import (
    CheckoutWatch,
    belongs_to,
    enclosing_checkout,
    folders_of,
    git_folders,
    looks_like_git,
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


def test_a_pointer_is_read_as_git_reads_it(repository: Path, git: Git) -> None:
    other = repository.parent / "other"
    for name in (" b", "b ", "b"):
        git(repository, "clone", "--quiet", "--bare", ".", str(other / name))
    for text, name in (("gitdir:  b\n", " b"), ("gitdir: b \r\n\n", "b "), (f"gitdir: b\0{'x' * 9999}", "b")):
        (other / ".git").write_text(text, newline="")

        found = git_folders(other)

        assert found is not None
        assert (
            str(found.own) == git(other, "rev-parse", "--absolute-git-dir").strip("\n") == str(other / name)
        )


def test_the_watch_finds_nested_checkouts_and_bare_repositories_and_follows_no_link(
    repository: Path, git: Git
) -> None:
    for place in ("a/inner", "b"):
        (repository / place / ".git").mkdir(parents=True)
    (repository / "a" / "loop").symlink_to(repository)
    git(repository, "init", "--quiet", "--bare", "a/bare")
    watch = CheckoutWatch(root=repository, limit=1000)

    found = {str(path.relative_to(repository)) for path in watch.look()}

    assert found == {".git", "a/inner/.git", "b/.git", "a/bare"}
    assert watch.complete


@pytest.mark.parametrize("age_s", [0, 10])
def test_the_watch_notices_what_comes_goes_and_moves(repository: Path, age_s: int) -> None:
    watch = CheckoutWatch(root=repository, limit=1000)
    (repository / "a" / "b" / "c").mkdir(parents=True)
    watch.look()
    steps = (
        ((repository / "a" / "b" / "c" / ".git").mkdir, {"a/b/c/.git"}),
        (lambda: (repository / "a" / "b").rename(repository / "a" / "d"), {"a/d/c/.git"}),
        (lambda: (repository / "a" / "b" / "e" / ".git").mkdir(parents=True), {"a/d/c/.git", "a/b/e/.git"}),
        ((repository / "a" / "d" / "c" / ".git").rmdir, {"a/b/e/.git"}),
    )
    for change, expected in steps:
        # Whoever sets times back hides nothing: the time of the change of a folder itself cannot be set.
        change()
        for folder in (repository, *(p for p in repository.rglob("*") if p.is_dir())):
            os.utime(folder, (age_s, age_s))
        assert {str(p.relative_to(repository)) for p in watch.look()} == expected | {".git"}


def test_the_watch_stops_at_its_limit_and_says_so(repository: Path) -> None:
    (repository / "a" / "b" / ".git").mkdir(parents=True)

    watch = CheckoutWatch(root=repository, limit=2)

    assert watch.look() == [repository / ".git"]
    assert not watch.complete


def test_what_git_would_take_for_its_own_is_known_by_its_content(repository: Path) -> None:
    assert looks_like_git(repository / ".git")
    assert not looks_like_git(repository)
    half = repository / "half"
    (half / "refs").mkdir(parents=True)
    (half / "HEAD").touch()
    assert not looks_like_git(half)
    assert looks_like_git(half, adding="objects")
    assert looks_like_git(half, adding="commondir")


@pytest.mark.parametrize("shape", ["common folder elsewhere", "link that leads nowhere yet"])
def test_the_watch_knows_every_form_of_a_git_folder_and_one_that_is_completed_elsewhere(
    tmp_path: Path, shape: str
) -> None:
    folder = tmp_path / "e"
    (folder / "refs").mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    if shape == "common folder elsewhere":
        (folder / "commondir").write_text("../d\n")
    else:
        (folder / "objects").symlink_to("../o")
    watch = CheckoutWatch(root=tmp_path, limit=100, clock=lambda: time.time_ns() + 10**10)
    watch.look()
    (tmp_path / "d").mkdir()
    (tmp_path / "o").mkdir()

    assert folder in watch.look()
    assert looks_like_git(folder)
    found = folders_of(folder)
    assert found is not None
    assert found.common == (tmp_path / "d" if shape == "common folder elsewhere" else folder)
