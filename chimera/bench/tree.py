"""The two trees of a trial: the one the agent works in, and the pristine one that is graded."""

from __future__ import annotations

import errno
import filecmp
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from chimera.bench.task import BenchTask
from chimera.config import process_environment
from chimera.errors import WorkspaceError
from chimera.workspace.git_program import GitProgram, find_git

# Left behind by running anything in Python: never graded, and no attempt on the grader.
_NOISE = "__pycache__"
_START = {
    "GIT_AUTHOR_NAME": "bench",
    "GIT_AUTHOR_EMAIL": "bench@example.invalid",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "bench",
    "GIT_COMMITTER_EMAIL": "bench@example.invalid",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}

Matches = Callable[[str], bool]


def make_start_tree(task: BenchTask, tree: Path) -> None:
    """Copy the task's workspace to `tree` and commit it: one commit, the same every time, and nothing else in git.

    Raises:
        WorkspaceError: git is missing or fails.
    """
    copy_pristine(task, tree)
    git = find_git(process_environment(), outside=tree)
    git = replace(git, environment={**git.environment, **_START})
    git.run(["init", "--quiet", "--template=", "--initial-branch=main"], cwd=tree)
    git.run(["add", "--all", "--force"], cwd=tree)
    git.run(
        ["-c", "core.logAllRefUpdates=false", "commit", "--quiet", "--allow-empty", "--message=Start"],
        cwd=tree,
    )
    _check_history(git, tree)


def _check_history(git: GitProgram, tree: Path) -> None:
    objects = git.run(["cat-file", "--batch-all-objects", "--batch-check=%(objecttype)"], cwd=tree).split()
    others = git.run(["remote"], cwd=tree) + git.run(["stash", "list"], cwd=tree)
    if objects.count(b"commit") != 1 or others or (tree / ".git" / "logs").exists():
        raise WorkspaceError(f"the start tree {str(tree)!r} has more history than its one commit")


def copy_pristine(task: BenchTask, tree: Path) -> None:
    """Copy the task's files as they are."""
    tree.mkdir()
    for folder in task.folders:
        (tree / folder).mkdir(parents=True, exist_ok=True)
    for source, target in task.layers:
        if source.is_dir():
            shutil.copytree(
                source,
                tree / target,
                symlinks=True,
                ignore=shutil.ignore_patterns(_NOISE),
                dirs_exist_ok=True,
            )
        else:
            (tree / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, tree / target, follow_symlinks=False)


def make_graded_tree(task: BenchTask, worked: Path, graded: Path) -> tuple[str, ...]:
    """Build the tree to grade: the declared artifacts of `worked`, everything else as the task has it.

    Returns:
        What was tampered with, sorted: protected paths that differ from the task's own, and links that lead out of
        the tree. None of it is in the graded tree.
    """
    copy_pristine(task, graded)
    carried, protected = _carried(task), _matcher(task.protected)
    mine, theirs = set(_files(graded)), set(_files(worked))
    tampered = {path for path in mine | theirs if protected(path) and _differs(worked / path, graded / path)}
    from_agent = {path for path in mine | theirs if carried(path) and not protected(path)}
    for path in mine & from_agent:
        (graded / path).unlink()
    for path in theirs & from_agent:
        if _leads_out(worked / path, worked):
            tampered.add(path)
        else:
            with _passing_over():
                _place(worked / path, graded / path, within=graded)
    # Last, because what the agent left may lie where a folder of ours has to be.
    for path in mine - from_agent:
        _place(task.original(path), graded / path, within=graded)
    _remove_emptied(graded, worked)
    return tuple(sorted(tampered))


def copy_files(tree: Path, target: Path) -> None:
    """Copy every file and link that can be read, for people to look at."""
    target.mkdir(parents=True)
    for path in _files(tree):
        with _passing_over():
            _place(tree / path, target / path, within=target)


def _carried(task: BenchTask) -> Matches:
    """Whether a path is part of the artifacts."""
    parts = [("" if a.path.name == "" else f"{a.path}", _matcher(a.exclude)) for a in task.artifacts]

    def carried(path: str) -> bool:
        for start, excluded in parts:
            if start in {"", path}:
                inner = path
            elif path.startswith(f"{start}/"):
                inner = path.removeprefix(f"{start}/")
            else:
                continue
            if not excluded(inner):
                return True
        return False

    return carried


def _matcher(patterns: Iterable[str]) -> Matches:
    import pathspec

    spec = pathspec.GitIgnoreSpec.from_lines(patterns)
    return lambda path: bool(spec.match_file(path))


def _files(tree: Path) -> Iterator[str]:
    """Files and links below a folder, relative, with `/`. Other kinds (sockets, pipes) are passed over."""
    for folder, names, files in os.walk(tree):
        names[:] = [name for name in names if name != _NOISE]
        here = Path(folder)
        for name in [*names, *files]:
            path = here / name
            with _passing_over():
                if path.is_symlink() or (name in files and path.is_file()):
                    yield path.relative_to(tree).as_posix()


@contextmanager
def _passing_over() -> Iterator[None]:
    """A file that cannot be read, or has a path that is too long for the system, is none."""
    try:
        yield
    except OSError as fault:
        if fault.errno not in {errno.EACCES, errno.EPERM, errno.ENAMETOOLONG}:
            raise


def _differs(one: Path, other: Path) -> bool:
    """Whether two paths are not the same file: kind, content or executable bit."""
    if one.is_symlink() or other.is_symlink():
        return not (one.is_symlink() and other.is_symlink() and one.readlink() == other.readlink())
    if not (one.is_file() and other.is_file()):
        return True
    if (one.stat().st_mode ^ other.stat().st_mode) & 0o100:
        return True
    try:
        return not filecmp.cmp(one, other, shallow=False)
    except PermissionError:
        return True


def _leads_out(path: Path, tree: Path) -> bool:
    """Whether a path is a link to something outside the tree, which would be another file where it is graded."""
    if not path.is_symlink():
        return False
    # realpath, because a link that leads round in circles is no error to it.
    end = Path(os.path.realpath(path))
    return path.readlink().is_absolute() or not end.is_relative_to(os.path.realpath(tree))


def _place(source: Path, target: Path, *, within: Path) -> None:
    """Copy a file or link, in the way of whatever else is there."""
    for folder in reversed(target.relative_to(within).parents[:-1]):
        if (within / folder).is_symlink() or not (within / folder).is_dir():
            _remove(within / folder)
            (within / folder).mkdir()
    _remove(target)
    shutil.copy2(source, target, follow_symlinks=False)


def _remove_emptied(graded: Path, worked: Path) -> None:
    """Folders that the agent removed go as well, once nothing of ours is in them."""
    for folder, _, _ in os.walk(graded, topdown=False):
        there = worked / Path(folder).relative_to(graded)
        if not any(Path(folder).iterdir()) and (there.is_symlink() or not there.is_dir()):
            Path(folder).rmdir()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
