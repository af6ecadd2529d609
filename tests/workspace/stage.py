"""A place that a user owns, where confined commands are run as that user and their victims are looked at from outside."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec
import pytest

User = Literal["root", "nobody"]
Backend = Literal["bwrap", "landlock"]
CANARY = "canary-5f2a90c7"
_REPOSITORY = Path(__file__).parents[2]
# For a Python of the system, where the one that runs the tests is not the user's to run.
_PACKAGES = Path(msgspec.__file__).parents[1]
_NOBODY = 65534
_PROLOGUE = """
import os, subprocess, sys, time
from pathlib import Path
from chimera.config import process_environment
from chimera.workspace.environment import child_environment
from chimera.workspace.process import CommandRunner
from chimera.workspace.sandbox import open_sandbox
root, backend = Path(sys.argv[1]), sys.argv[2]
environment = process_environment()
sandbox = open_sandbox("workspace-write", root, allow_net=False, allow_git_write=False, required=True,
                       environment=environment, backends=(backend,))
runner = CommandRunner(root, sandbox, child_environment(environment), Path(sys.argv[3]), grace_s=0.3)
def sh(command):
    print(runner.run(command, 60).output.decode(errors="replace"), flush=True)
"""


class Stage:
    """A workspace with a neighbourhood: `outside`, `home`. All belongs to the user."""

    def __init__(self, folder: Path, user: User, backend: Backend) -> None:
        self.folder, self.user, self.backend = folder, user, backend
        self.workspace, self.outside, self.home = (folder / name for name in ("workspace", "outside", "home"))
        self.spool = folder / "spool"
        for place in (self.workspace, self.outside, self.home, self.spool):
            place.mkdir()
        (self.outside / "f").write_text("outside\n")
        (self.home / ".profile").write_text("home\n")
        self.give()

    def give(self) -> None:
        """Make everything here the user's."""
        if os.geteuid() == 0 and self.user == "nobody":
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, _NOBODY, _NOBODY, follow_symlinks=False)

    def command(self, argv: Sequence[str]) -> list[str]:
        """The command that runs `argv` as the user."""
        if os.geteuid() == 0 and self.user == "nobody":
            return ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", *argv]
        return [*argv]

    def start(self, program: str, **settings: object) -> subprocess.Popen[str]:
        """Start Python lines that may call `sh(command)` for a confined command and print."""
        argv = [self._python(), "-c", _PROLOGUE + program, str(self.workspace), self.backend, str(self.spool)]
        return subprocess.Popen(
            self.command(argv),
            cwd=self.workspace,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )

    def play(self, program: str) -> str:
        """Run such lines to their end, and what is left running; returns what they printed."""
        with self.start(program + "\nrunner.close()\n") as process:
            output, _ = process.communicate(timeout=100)
        assert process.returncode == 0, output
        return output

    def run(self, *commands: str) -> str:
        """Run confined commands one after the other; returns what they printed."""
        return self.play("".join(f"sh({command!r})\n" for command in commands))

    def environment(self) -> dict[str, str]:
        """Of the process that runs chimera: with a key in it."""
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "TMPDIR": str(self.spool),
            "PYTHONPATH": os.pathsep.join(map(str, (_REPOSITORY, _PACKAGES))),
            "PYTHONDONTWRITEBYTECODE": "1",
            "SECRET_API_KEY": CANARY,
        }

    def tree(self, *folders: Path) -> dict[str, tuple[int, int, bytes | None]]:
        """Mode, time and content of all files in the folders; by default all that is not the workspace."""
        found = {}
        for folder in folders or (self.outside, self.home):
            for path in (folder, *folder.rglob("*")) if folder.is_dir() else ():
                state = path.lstat()
                content = path.read_bytes() if path.is_file() else None
                found[str(path)] = (state.st_mode, state.st_mtime_ns, content)
        return found

    def _python(self) -> str:
        # The program itself is started again: setpriv may reach what its user then may not.
        trial = (
            "import os, subprocess, sys; assert sys.version_info >= (3, 11); import chimera.workspace.sandbox\n"
            "subprocess.run([os.path.realpath(sys.executable), '-c', ''], check=True)"
        )
        for name in (sys.executable, "/usr/local/bin/python3", "/usr/bin/python3"):
            argv = self.command([name, "-c", trial])
            if not subprocess.run(argv, env=self.environment(), capture_output=True, check=False).returncode:
                return name
        pytest.skip(f"{self.user} can run no Python here that can import chimera")


@contextmanager
def open_stage(user: User, backend: Backend) -> Iterator[Stage]:
    """A stage that goes at the end. Skips where one cannot act as the user."""
    if user == "root" and os.geteuid() != 0:
        pytest.skip("only root can act as root")
    if user == "nobody" and os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    # pytest's own folders are closed to other users.
    folder = Path(tempfile.mkdtemp(prefix="chimera-stage-")).resolve()
    folder.chmod(0o755)
    try:
        yield Stage(folder, user, backend)
    finally:
        shutil.rmtree(folder)


def processes_named(words: str) -> list[int]:
    """The processes of this machine with these words on their command line."""
    listed = subprocess.run(["ps", "-eo", "pid,stat,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()[1:]]
    return [int(pid) for pid, state, args in rows if words in args and not state.startswith("Z")]
