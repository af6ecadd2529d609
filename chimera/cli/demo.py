"""`chimera demo`: a complete run in a scratch repository, with a scripted model and everything else real."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from chimera.cli.output import Output
from chimera.cli.terminal import Terminal
from chimera.config import process_environment
from chimera.errors import SandboxUnavailableError, WorkspaceError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from chimera.workspace.sandbox import Sandbox

TASK = "The tests fail. Find out why and fix it."
WINDOW = 7_000
"""Small, so that reading a handful of files needs a compaction."""
_CONFINED = ("--mode", "auto")
_UNCONFINED = ("--mode", "yolo", "--sandbox", "danger-full-access")
_NO_SANDBOX = "No sandbox works here (chimera wants bubblewrap), so the demo's commands run unconfined, as its options say."
_PROBE_TIMEOUT_S = 30


def demo(ctx: typer.Context) -> int:
    """Watch a complete run in seconds, in a scratch repository, without any key: the model is scripted."""
    output: Output = ctx.obj
    scratch = Path(tempfile.mkdtemp(prefix="chimera-demo-")).resolve()
    repository = scratch / "shop"
    _copy(resources.files("chimera.cli") / "demo_files" / "shop", repository)
    _make_repository(repository)
    sandbox = _sandbox(repository)
    python = _python(sandbox, repository)
    script = (resources.files("chimera.cli") / "demo_files" / "script.yaml").read_text(encoding="utf-8")
    (scratch / "model.yaml").write_text(script.replace("{python}", python), encoding="utf-8")
    how = _CONFINED if sandbox else _UNCONFINED
    arguments = ["run", TASK, "--model", "scripted:../model.yaml", "--window", str(WINDOW), *how]
    output.text(f"cd {shlex.quote(str(repository))} && {_program()} {_quoted(arguments)}")
    page = Terminal(output.stdout, output.environment)
    page.block(_about(confined=sandbox is not None) + "\n")
    os.chdir(repository)
    root = ctx.find_root().command
    with root.make_context("chimera", arguments, obj=output) as context:
        code: int = root.invoke(context)
    page.line("")
    for line in _closing(repository).split("\n"):
        if line.startswith(" "):
            page.long_line(line)  # a command, unbroken, as one may copy it
        else:
            page.block(line)
    return code


def _about(*, confined: bool) -> str:
    about = (
        "That line is what runs now. Loop, tools, tests, edit and compaction are real; the model is not: it plays back "
        "a script, so what it says proves nothing about any model."
    )
    return about if confined else f"{about}\n{_NO_SANDBOX}"


def _closing(repository: Path) -> str:
    return f"""\
Now with a real model, in a repository of your own:
  export ANTHROPIC_API_KEY=...   (or the key of another provider)
  chimera run "what to do"
or with a local server and no key:
  chimera run "what to do" --model ollama_chat/NAME
  chimera run "what to do" --model openai/NAME --api-base http://HOST:PORT/v1
The scratch repository stays: {repository}"""


def _copy(source: Traversable, target: Path) -> None:
    """Copy packaged files; they carry `.txt`, so that nothing takes them for modules of this package."""
    target.mkdir()
    for entry in source.iterdir():
        if entry.is_dir():
            _copy(entry, target / entry.name)
        else:
            name = entry.name.removesuffix(".txt")
            content = entry.read_bytes()
            (target / (".gitignore" if name == "gitignore" else name)).write_bytes(content)


def _make_repository(root: Path) -> None:
    """A git repository with one commit; nothing that the user configured for git takes part."""
    from chimera.workspace.git_program import find_git

    git = find_git(process_environment(), outside=root)
    author = ("-c", "user.name=chimera demo", "-c", "user.email=demo@localhost")
    git.run(["init", "--quiet", "--template=", "--initial-branch=main"], cwd=root)
    git.run(["add", "--all"], cwd=root)
    git.run([*author, "commit", "--quiet", "--message", "A small shop, with a mistake in it"], cwd=root)


def _sandbox(root: Path) -> Sandbox | None:
    """The sandbox that a run in mode auto has here; None where none works."""
    from chimera.workspace.sandbox import open_sandbox

    try:
        return open_sandbox(
            "workspace-write",
            root,
            allow_net=False,
            allow_git_write=False,
            required=True,
            environment=process_environment(),
        )
    except SandboxUnavailableError:
        return None


def _python(sandbox: Sandbox | None, root: Path) -> str:
    """A Python for the tests, by a name that works where commands run."""
    from chimera.workspace.environment import child_environment
    from chimera.workspace.programs import find_program
    from chimera.workspace.sandbox import Sandbox

    environment = child_environment(process_environment())
    sandbox = sandbox or Sandbox(level="danger-full-access", backend="none", missing=())
    for name in ("python3", "python", sys.executable):
        # A name is what a person would type. It will not do where it means a program that a repository supplies.
        first = shutil.which(name, path=environment["PATH"])
        trusted = find_program(name, environment["PATH"], outside=root)
        if name != sys.executable and not (first and trusted and Path(first).samefile(trusted)):
            continue
        trial = [name, "-c", "import unittest"]
        try:
            with sandbox.confine(trial) as confined:
                done = subprocess.run(
                    confined.arguments,
                    cwd=root,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=_PROBE_TIMEOUT_S,
                    check=False,
                    pass_fds=confined.descriptors,
                )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return shlex.quote(name)
    raise WorkspaceError("the demo needs a Python that commands can run, and found none")


def _program() -> str:
    """How the user calls chimera: by name where that works, else as this process was called."""
    if shutil.which("chimera"):
        return "chimera"
    called = Path(sys.argv[0])
    if called.name == "chimera" and called.is_file():
        return shlex.quote(str(called.absolute()))
    return f"{shlex.quote(sys.executable)} -m chimera"


def _quoted(arguments: list[str]) -> str:
    return " ".join(f'"{word}"' if word == TASK else shlex.quote(word) for word in arguments)
