from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from chimera.workspace.clock import surely_past
from chimera.workspace.tree_watch import TreeWatch

HOUR_NS = 3_600_000_000_000


def later() -> int:
    """A clock by which all that was done is long past."""
    return time.time_ns() + HOUR_NS


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    for folder in ("src", "empty", "built/deep", ".git", "nested/.git"):
        (place / folder).mkdir(parents=True)
    for name in ("a.txt", "src/b.py", "built/out.o", "built/deep/x.o", "large.bin"):
        (place / name).write_text("old\n", encoding="utf-8")
    for checkout in (place, place / "nested"):
        (checkout / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
        (checkout / ".git" / "index").write_bytes(b"DIRC")
    (place / "link").symlink_to("a.txt")
    return place


def watched(root: Path, clock: Callable[[], int] = later) -> TreeWatch:
    """As after a snapshot that recorded some files, noted the large one and left out what was built."""
    watch = TreeWatch(root, clock=clock)
    look = watch.look()
    files = {}
    for name in ("a.txt", "src/b.py", "link"):
        status = (root / name).lstat()
        files[os.fsencode(name)] = (status.st_ctime_ns, status.st_ino)
    watch.keep(look, files, [b"large.bin", b"nested/"])
    return watch


def rewrite_unseen(path: Path) -> None:
    """Another content of the same size, and the old time put back."""
    before = path.stat()
    path.write_text("new\n", encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_text("old\n", encoding="utf-8")
    other.replace(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda root: rewrite_unseen(root / "a.txt"),
        lambda root: rewrite_unseen(root / "src/b.py"),
        lambda root: rewrite_unseen(root / "large.bin"),
        lambda root: (root / "a.txt").chmod(0o755),
        lambda root: (root / "src").chmod(0o700),
        lambda root: (root / "src/b.py").unlink(),
        lambda root: replace(root / "src/b.py"),
        lambda root: (root / "src/b.py").rename(root / "c.py"),
        lambda root: (root / "new").touch(),
        lambda root: (root / "empty/new").touch(),
        lambda root: (root / "built/deep/new").touch(),
        lambda root: (root / "empty").rmdir(),
        lambda root: (root / "src/made").mkdir(),
        lambda root: (root / "src/.git").mkdir(),
        lambda root: (root / "link").unlink() or (root / "link").symlink_to("src"),
        lambda root: (root / ".git/index").write_bytes(b"DIRC2"),
        lambda root: (root / "nested/.git/index").unlink(),
        lambda root: (root / ".git").rename(root / "gone"),
        lambda root: os.mkfifo(root / "src/pipe"),
    ],
)
def test_every_change_that_a_snapshot_would_see_is_seen(root: Path, change: Callable[[Path], object]) -> None:
    watch = watched(root)
    assert watch.unchanged()
    change(root)
    assert not watch.unchanged()
    assert not watch.unchanged()


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "a.txt").read_text(encoding="utf-8"),
        lambda root: list((root / "src").iterdir()),
        lambda root: (root / "built/out.o").write_text("ignored anyway", encoding="utf-8"),
        lambda root: (root / ".git/index.lock").touch() or (root / ".git/index.lock").unlink(),
        lambda root: (root / ".git/objects").mkdir(),
    ],
)
def test_what_no_snapshot_would_see_changes_nothing(root: Path, change: Callable[[Path], object]) -> None:
    watch = watched(root)
    change(root)
    assert watch.unchanged()


def test_a_linked_worktree_is_watched_where_its_index_is(root: Path, tmp_path: Path) -> None:
    (root / ".git").rename(tmp_path / "elsewhere")
    (root / ".git").write_text(f"gitdir: {tmp_path / 'elsewhere'}\n", encoding="utf-8")
    watch = watched(root)
    assert watch.unchanged()
    (tmp_path / "elsewhere/index").write_bytes(b"DIRC2")
    assert not watch.unchanged()


def test_what_was_changed_a_moment_ago_is_never_sure(root: Path) -> None:
    stamps = [(root / name).lstat().st_ctime_ns for name in ("a.txt", "src", "link", "built/deep")]
    assert not watched(root, clock=lambda: max(stamps)).unchanged()


def test_what_changes_during_a_snapshot_is_seen_afterwards(root: Path) -> None:
    watch = TreeWatch(root, clock=later)
    look = watch.look()
    status = (root / "a.txt").lstat()
    (root / "src/new").touch()
    watch.keep(look, {b"a.txt": (status.st_ctime_ns, status.st_ino)}, [])
    assert not watch.unchanged()


def test_before_the_first_snapshot_and_after_forgetting_nothing_is_sure(root: Path) -> None:
    assert not TreeWatch(root, clock=later).unchanged()
    watch = watched(root)
    watch.forget()
    assert not watch.unchanged()


@pytest.mark.parametrize(
    ("changed_ns", "now_ns", "past"),
    [
        (5_000_000_001, 5_019_000_000, False),
        (5_000_000_001, 5_021_000_000, True),
        # No digits below the millisecond: the next second may still be this one, and FAT counts every other one.
        (5_000_000_000, 5_999_000_000, False),
        (5_000_000_000, 6_999_000_000, False),
        (5_000_000_000, 7_001_000_000, True),
        (9_000_000_001, 5_000_000_000, False),
    ],
)
def test_a_stamp_is_past_once_the_next_one_is_sure_to_differ(
    changed_ns: int, now_ns: int, past: bool
) -> None:
    assert surely_past(changed_ns, now_ns) is past
