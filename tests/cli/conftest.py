"""A repository, scripts for the model, and the command line in this process or in one of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from chimera.cli.entry import run_command_line
from chimera.config import process_environment
from tests.cli.command import Chimera, Ended, Script


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(process_environment()):
        if name.startswith("CHIMERA_") or name.endswith("_API_KEY") or name in {"NO_COLOR", "FORCE_COLOR"}:
            monkeypatch.delenv(name)
    monkeypatch.setenv("CHIMERA_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("CHIMERA_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git repository with one commit; the current directory."""
    root = tmp_path / "repository"
    root.mkdir()
    (root / "calc.py").write_text("def add(a, b):\n    return a - b\n", encoding="utf-8")
    author = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    for arguments in (["init", "-q"], ["add", "-A"], [*author, "commit", "-qm", "start"]):
        subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Writes a script and returns the model name that plays it."""

    def write(replies: Sequence[dict[str, Any]]) -> str:
        path = tmp_path / "script.jsonl"
        path.write_text("\n".join(map(json.dumps, replies)), encoding="utf-8")
        return f"scripted:{path}"

    return write


@pytest.fixture
def chimera(capsys: pytest.CaptureFixture[str]) -> Chimera:
    """The command line in this process."""

    def run(*arguments: str) -> Ended:
        capsys.readouterr()
        code = run_command_line(arguments)
        captured = capsys.readouterr()
        return Ended(code=code, out=captured.out, err=captured.err)

    return run


@pytest.fixture
def process() -> Chimera:
    """The command line in a process of its own, on pipes."""

    def run(*arguments: str, stdin: bytes = b"", environment: dict[str, str] | None = None) -> Ended:
        done = subprocess.run(
            [sys.executable, "-m", "chimera", *arguments],
            input=stdin,
            capture_output=True,
            check=False,
            timeout=60,
            env={**process_environment(), **(environment or {})},
        )
        return Ended(code=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())

    return run
