from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chimera.config import process_environment
from chimera.workspace.git_program import GitError, GitProgram, find_git


@pytest.mark.parametrize("way", ["run", "list_paths"])
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["-c", "core.bare=false"],
        ["--git-dir=x", "-c", "core.excludesFile=/a b", "-C", "."],
        ["-c", "a.b=c"],
    ],
)
def test_what_failed_is_told_by_its_subcommand(tmp_path: Path, way: str, options: list[str]) -> None:
    git: GitProgram = find_git(process_environment(), outside=tmp_path)
    ways: dict[str, Callable[[list[str]], object]] = {
        "run": lambda words: git.run(words, cwd=tmp_path),
        "list_paths": lambda words: git.list_paths(words, cwd=tmp_path, at_most=9),
    }
    with pytest.raises(GitError, match=r"^git ls-files failed: "):
        ways[way]([*options, "ls-files", "--no-such-option"])
