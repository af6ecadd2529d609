from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from chimera.config import process_environment
from chimera.workspace.landlock import landlock_abi
from chimera.workspace.programs import find_program
from chimera.workspace.sandbox import TRUSTED_PATH

Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """Runs git as a user would, with settings of its own and none of this machine."""
    home = tmp_path / "git-home"
    home.mkdir()
    environment = {
        "PATH": process_environment()["PATH"],
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@example.org",
        "GIT_ALLOW_PROTOCOL": "file",
    }

    def run(where: Path, *arguments: str) -> str:
        done = subprocess.run(
            ["git", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", *arguments],
            cwd=where,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    return run


@pytest.fixture
def ordinary_user() -> None:
    """Skips where permissions do not bind: for root."""
    if os.geteuid() == 0:
        pytest.skip("root may read and write everything")


@pytest.fixture
def bubblewrap() -> None:
    """Skips where bubblewrap does not work. In CI nothing is skipped: a boundary that is not tried is none."""
    if (reason := _without_bubblewrap()) and process_environment().get("CI") != "true":
        pytest.skip(reason)


@pytest.fixture
def landlock() -> None:
    """Skips where the kernel offers no Landlock. In CI nothing is skipped."""
    if landlock_abi() == 0 and process_environment().get("CI") != "true":
        pytest.skip("this kernel offers no Landlock")


@functools.cache
def _without_bubblewrap() -> str | None:
    bwrap = find_program("bwrap", TRUSTED_PATH, outside=Path("/nonexistent"))
    if bwrap is None:
        return "bubblewrap is not installed"
    trial = [str(bwrap), "--unshare-all", "--ro-bind", "/", "/", "true"]
    done = subprocess.run(trial, capture_output=True, text=True, check=False)
    return f"bubblewrap does not work here: {done.stderr.strip()}" if done.returncode else None
