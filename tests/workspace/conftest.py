from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from chimera.config import process_environment

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
