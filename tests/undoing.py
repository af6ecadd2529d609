"""A workspace whose every byte and mode is watched, and a scripted run in it."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chimera
from chimera.api import resume as resume_run
from chimera.core.model import Request
from chimera.record.run_directory import find_run
from chimera.testing import Reply, ScriptedModel, call, text
from chimera.undo import Outcome, redo, undo

Picture = dict[bytes, tuple[int, bytes]]


class Workspace:
    """A git repository, a state directory beside it, and what is done in them."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "repo"
        self.root.mkdir(parents=True)
        self.state = folder / "state"
        self.home = folder / "home"
        self.home.mkdir()
        self.git("init", "-q")

    def git(self, *arguments: str) -> str:
        """Git as the user runs it."""
        who = {
            f"GIT_{role}_{what}": "t@example.org"
            for role in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        environment = {"PATH": os.defpath, "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1", **who}
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, env=environment, check=True, capture_output=True
        )
        return os.fsdecode(done.stdout)

    def write(self, name: str | bytes, content: bytes | str, mode: int = 0o644) -> Path:
        """A file of the user's."""
        path = self.root / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(mode)
        return path

    def picture(self) -> Picture:
        """Everything in the workspace, git's own files included: mode, and content or target."""
        found: Picture = {}
        for folder, folders, files in os.walk(os.fsencode(self.root)):
            for name in (*folders, *files):
                path = Path(os.fsdecode(folder), os.fsdecode(name)).relative_to(self.root)
                if (state := self.state_of(path)) is not None:
                    found[os.fsencode(path)] = state
        return found

    def state_of(self, name: str | Path) -> tuple[int, bytes] | None:
        """Mode, and content or target, of a path; None for nothing."""
        path = self.root / name
        try:
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                return mode, os.fsencode(path.readlink())
            return mode, path.read_bytes() if stat.S_ISREG(mode) else b""
        except FileNotFoundError:
            return None

    def run(
        self, *script: Reply | Callable[[], Reply], resume: bool = False, **options: Any
    ) -> chimera.RunResult:
        """A run that plays the script. A function in it is called while the model is thinking, as a user works then."""

        def reply(_: Request, number: int) -> Reply:
            if number >= len(script):
                return text("done")
            item = script[number]
            return item if isinstance(item, Reply) else item()

        settings: dict[str, Any] = {
            "state": self.state,
            "workspace": self.root,
            "model": ScriptedModel(reply, window=32_000),
            "mode": "yolo",
            "sandbox": "danger-full-access",
            **options,
        }
        result = resume_run(None, "go on", **settings) if resume else chimera.run("do it", **settings)
        assert result.stop_reason in {"answered", "max_steps", "interrupted"}, result
        return result

    @property
    def record(self) -> Path:
        return find_run(self.state, None)

    def undo(self, **options: Any) -> Outcome:
        """Undo of the last run."""
        return undo(self.state, self.record, **options)

    def redo(self, **options: Any) -> Outcome:
        """Redo of the last run."""
        return redo(self.state, self.record, **options)


def shell(command: str) -> Reply:
    """A command of the model."""
    return call("shell", command=command)


def named(name: bytes) -> str:
    """Any name as a word of bash."""
    return "$'./" + "".join(f"\\x{byte:02x}" for byte in name) + "'"
