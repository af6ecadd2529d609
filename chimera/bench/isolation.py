"""How far the commands of a trial are kept apart from the machine, and the environment they get."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, assert_never

from chimera.bench.task import BenchTask, Need
from chimera.config import process_environment
from chimera.errors import SandboxUnavailableError
from chimera.workspace.git_folders import enclosing_checkout, git_folders
from chimera.workspace.process import CommandRunner
from chimera.workspace.programs import DEFAULT_PATH
from chimera.workspace.sandbox import Sandbox, open_sandbox

Isolation = Literal["namespace", "copy"]
"""`namespace`: commands run in a sandbox without network, hidden tests out of sight. `copy`: a private folder, which
holds no determined agent back."""


def available_isolation(wanted: Isolation | None = None) -> Isolation:
    """The level this machine gives, found out by trying; or the wanted one, if it can be had.

    Raises:
        SandboxUnavailableError: `namespace` is wanted and cannot be had.
    """
    if wanted == "copy":
        return "copy"
    with private_folder("probe") as folder:
        try:
            open_namespace(folder)
        except SandboxUnavailableError:
            if wanted == "namespace":
                raise
            return "copy"
    return "namespace"


def open_namespace(root: Path) -> Sandbox:
    """A sandbox in which only `root` can be written and nothing can be reached. Landlock will not do: it hides nothing.

    Raises:
        SandboxUnavailableError: none works here.
    """
    return open_sandbox(
        "workspace-write",
        root,
        allow_net=False,
        allow_git_write=False,
        required=True,
        environment=process_environment(),
        backends=("bwrap",),
    )


def open_isolation(isolation: Isolation, root: Path) -> Sandbox:
    """What wraps the commands of a trial whose files lie in `root`."""
    match isolation:
        case "namespace":
            return open_namespace(root)
        case "copy":
            return Sandbox(level="danger-full-access", backend="none", missing=())
        case _:
            assert_never(isolation)


@contextmanager
def private_folder(purpose: str) -> Iterator[Path]:
    """A new folder of our own that goes at the end, whatever is in it. A real path."""
    folder = Path(tempfile.mkdtemp(prefix=f"chimera-{purpose}-")).resolve()
    try:
        yield folder
    finally:
        _remove_tree(folder)


def _remove_tree(folder: Path) -> None:
    # Folders that were made read-only stop their owner as well, unless it is root.
    for path, names, _ in os.walk(folder):
        for name in names:
            inner = Path(path, name)
            if not inner.is_symlink():
                inner.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def command_runner(sandbox: Sandbox, root: Path, environment: Mapping[str, str]) -> Iterator[CommandRunner]:
    """Runs commands in `root` and ends at the close whatever they left running. Spool files go with it."""
    with private_folder("spool") as spool:
        runner = CommandRunner(root=root, sandbox=sandbox, environment=environment, spool_dir=spool)
        try:
            yield runner
        finally:
            runner.close()


def search_path() -> str:
    """PATH of graders and solutions: the interpreter that runs chimera, then the system."""
    return os.pathsep.join([str(Path(sys.executable).parent), DEFAULT_PATH])


def clean_environment(home: Path, **variables: str) -> dict[str, str]:
    """A whole environment, built from nothing, that gives the same results everywhere. Makes `home`."""
    home.mkdir(exist_ok=True)
    return {
        "PATH": search_path(),
        "HOME": str(home),
        "TMPDIR": str(home),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        **variables,
    }


def unmet_need(task: BenchTask) -> str | None:
    """What the task needs and this machine has not, for people; None if it can run."""
    for need in task.needs:
        if fault := _unmet(need):
            return fault
    return None


def _unmet(need: Need) -> str | None:
    if need.program == "python":
        wanted = ".".join(map(str, need.version))
        if sys.version_info[: len(need.version)] < need.version:
            return f"needs Python {wanted}, and chimera runs on {sys.version.split()[0]}"
        return None if shutil.which("python3", path=search_path()) else "needs python3, which is not on PATH"
    found = shutil.which(need.program, path=search_path())
    return None if found else f"needs {need.program}, which is not on {search_path()}"


def hidden_folders(tasks: Iterable[BenchTask], output: Path) -> tuple[Path, ...]:
    """What no agent may see: the tasks with their tests and solutions, their git history, the results so far."""
    folders = [output]
    for task in tasks:
        folders.append(task.folder)
        checkout = enclosing_checkout(task.folder)
        if checkout is not None and (found := git_folders(checkout)):
            folders += [found.own, found.common]
    return tuple(dict.fromkeys(folder.resolve() for folder in folders if folder.is_dir()))
