"""A repository that tries to get its content executed or obeyed, and the mark that shows that it did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chimera.config import process_environment

UNCONFINED = ("--mode", "yolo", "--sandbox", "danger-full-access")
HOOKS = (
    "applypatch-msg", "commit-msg", "fsmonitor-watchman", "post-applypatch", "post-checkout", "post-commit",
    "post-index-change", "post-merge", "post-rewrite", "pre-applypatch", "pre-auto-gc", "pre-commit", "pre-push",
    "prepare-commit-msg", "reference-transaction", "sendemail-validate", "update",
)  # fmt: skip
PROGRAMS = (
    "git",
    "bwrap",
    "rg",
    "bash",
    "sh",
    "env",
    "python",
    "python3",
    "true",
    "cat",
    "ulimit",
    "chimera",
)


class Repository:
    """A committed repository in `root` and everything that chimera keeps beside it, in `home`."""

    def __init__(self, folder: Path) -> None:
        self.root, self.home, self.mark = folder / "repository", folder / "home", folder / "executed"
        self.root.mkdir(parents=True)
        self.home.mkdir()
        self.environment = {
            name: value
            for name, value in process_environment().items()
            if not name.startswith(("CHIMERA_", "GIT_", "PYTHON", "LITELLM"))
            and not name.endswith("_API_KEY")
        }
        self.environment |= {
            "CHIMERA_STATE_DIR": str(self.home / "state"),
            "CHIMERA_CONFIG_DIR": str(self.home / "config"),
            "HOME": str(self.home),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.put("calc.py", "def add(a, b):\n    return a - b\n")
        self.put("notes.txt", "one\n")
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "start")

    @property
    def executed(self) -> list[str]:
        """What left its mark."""
        return sorted(set(self.mark.read_text().split())) if self.mark.exists() else []

    def git(self, *arguments: str) -> None:
        subprocess.run(
            ["git", *arguments], cwd=self.root, env=self.environment, check=True, capture_output=True
        )

    def put(self, name: str, content: str, *, runs: bool = False) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(0o755 if runs else 0o644)
        return path

    def trap(self, name: str) -> str:
        """A shell command that leaves a mark."""
        return f"echo {name} >>'{self.mark}'"

    def python_trap(self, name: str) -> str:
        return f"open({str(self.mark)!r}, 'a').write('{name} ')\n"

    def chimera(
        self, *arguments: str, program: Sequence[str] = (sys.executable, "-m", "chimera"), **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*program, *arguments],
            cwd=self.root,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=110,
        )

    def script(self, *replies: Mapping[str, Any]) -> str:
        """A model that says this."""
        path = self.home / "script.jsonl"
        path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
        return f"scripted:{path}"

    def record(self) -> str:
        """Everything that all runs have written down, as text."""
        files = (path for path in (self.home / "state" / "runs").rglob("*") if path.is_file())
        return "".join(path.read_text(errors="replace") for path in files)


WORK = (
    {"call": "read_file", "arguments": {"path": "calc.py"}},
    {"call": "search", "arguments": {"pattern": "return"}},
    {"call": "search", "arguments": {"glob": "*.txt"}},
    {"call": "edit_file", "arguments": {"path": "calc.py", "edits": [{"old": "a - b", "new": "a + b"}]}},
    {"call": "shell", "arguments": {"command": "echo two >>notes.txt"}},
    {"call": "update_plan", "arguments": {"tasks": [{"title": "work", "status": "doing"}]}},
    {"text": "done"},
)
"""Every tool once, with a change by each that can make one."""


def hostile_git(repository: Repository) -> None:
    """Everything in git's settings that makes it run a program."""
    trap = repository.trap
    for name, value in {
        "core.fsmonitor": trap("fsmonitor"),
        "core.hooksPath": str(repository.root / "hooks"),
        "core.pager": trap("pager"),
        "core.editor": trap("editor"),
        "core.sshCommand": trap("sshCommand"),
        "core.askPass": str(repository.root / "hooks" / "pre-commit"),
        "core.gitProxy": trap("gitProxy"),
        "core.alternateRefsCommand": trap("alternateRefs"),
        "core.attributesFile": str(repository.root / "more-attributes"),
        "sequence.editor": trap("sequenceEditor"),
        "diff.external": trap("diffExternal"),
        "diff.mine.textconv": trap("textconv"),
        "diff.mine.command": trap("diffCommand"),
        "merge.mine.driver": trap("mergeDriver"),
        "filter.mine.clean": f"{trap('clean')}; cat",
        "filter.mine.smudge": f"{trap('smudge')}; cat",
        "filter.proc.process": trap("process"),
        "filter.proc.required": "false",
        "gpg.program": str(repository.root / "hooks" / "pre-commit"),
        "commit.gpgSign": "true",
        "credential.helper": f"!{trap('credential')}",
        "interactive.diffFilter": trap("diffFilter"),
        "pager.diff": trap("pagerDiff"),
        "pager.log": trap("pagerLog"),
        "alias.status": f"!{trap('alias')}",
        "alias.diff": f"!{trap('alias')}",
        "alias.ls-files": f"!{trap('alias')}",
        "uploadpack.packObjectsHook": trap("packObjects"),
        "include.path": str(repository.root / "more-settings"),
    }.items():
        repository.git("config", name, value)
    repository.put("more-settings", f'[core]\n\tfsmonitor = "{trap("included")}"\n')
    attributes = (
        "*.py filter=mine diff=mine merge=mine\n*.txt filter=proc diff=mine text=auto eol=crlf ident\n"
    )
    repository.put(".gitattributes", attributes)
    repository.put("more-attributes", attributes)
    (repository.root / ".git" / "info").mkdir(exist_ok=True)
    (repository.root / ".git" / "info" / "attributes").write_text(attributes)
    for hook in HOOKS:
        for folder in ("hooks", ".git/hooks"):
            repository.put(f"{folder}/{hook}", f"#!/bin/sh\n{trap(hook)}\n", runs=True)
    # A bare repository inside, whose settings git would obey in its folder.
    bare = repository.root / "vendored"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True, env=repository.environment)
    with (bare / "config").open("a") as file:
        file.write(f'[core]\n\tfsmonitor = "{trap("bare")}"\n')
    (bare / "inside.txt").write_text("inside\n")
    os.utime(repository.root / "calc.py", (1, 1))
