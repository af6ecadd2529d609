"""How far the commands of a trial are kept apart from the machine, and the environment they get."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, assert_never

from msgspec.structs import replace

from chimera.bench.docker import check_engine, container
from chimera.bench.search_path import search_path
from chimera.bench.task import BenchTask, Need
from chimera.config import process_environment
from chimera.errors import ConfigError, SandboxUnavailableError
from chimera.workspace.git_folders import enclosing_checkout, git_folders
from chimera.workspace.process import CommandRunner
from chimera.workspace.sandbox import Sandbox, open_sandbox

Isolation = Literal["docker", "namespace", "copy"]
"""`docker`: commands run in a container of the task's image. `namespace`: commands run in a sandbox, hidden tests out
of sight. `copy`: a private folder, which holds no determined agent back."""
FIXED = {
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}
"""Environment variables without which the same program prints different things on different machines."""
_MINE = "chimera-bench-"
_GENERATORS = Path(__file__).resolve().parent / "generators"
Network = Literal["none", "host"]
"""What the agent's commands can reach. Graders reach nothing where the isolation can see to that."""


def available_isolation(wanted: Isolation | None = None) -> Isolation:
    """The level this machine gives, found out by trying; or the wanted one, if it can be had.

    `docker` is only ever taken when it is asked for: it needs images, and a registry to build them.

    Raises:
        SandboxUnavailableError: the wanted one cannot be had.
    """
    if wanted == "copy":
        return "copy"
    if wanted == "docker":
        check_engine()
        return "docker"
    with private_folder("probe") as folder:
        try:
            open_namespace(folder)
        except SandboxUnavailableError:
            if wanted == "namespace":
                raise
            return "copy"
    return "namespace"


def real_network(isolation: Isolation, wanted: Network | None) -> Network:
    """What the agent's commands can reach: nothing by default, where the isolation can see to that.

    Raises:
        ConfigError: no network is wanted, and nothing here can take it away.
    """
    if isolation != "copy":
        return wanted or "none"
    if wanted == "none":
        raise ConfigError(
            "--network none cannot be kept with isolation copy; leave it out, or use --isolation namespace"
        )
    return "host"


def open_namespace(root: Path, network: Network = "none") -> Sandbox:
    """A sandbox in which only `root` can be written. Landlock will not do: it hides nothing.

    Raises:
        SandboxUnavailableError: none works here.
    """
    return open_sandbox(
        "workspace-write",
        root,
        allow_net=network == "host",
        allow_git_write=False,
        required=True,
        environment=process_environment(),
        backends=("bwrap",),
    )


@contextmanager
def confinement(
    isolation: Isolation,
    root: Path,
    *,
    image: Path,
    network: Network = "none",
    variables: Mapping[str, str],
) -> Iterator[Sandbox]:
    """What wraps the commands of a trial whose files lie in `root`, for the block.

    Args:
        isolation: the level.
        root: all that commands may write. A real path.
        image: folder with the Dockerfile that `docker` builds.
        network: what commands can reach.
        variables: the environment of the commands, of which a container gets all but `PATH`.

    Raises:
        SandboxUnavailableError: it cannot be had.
    """
    match isolation:
        case "namespace":
            yield open_namespace(root, network)
        case "copy":
            yield Sandbox(level="danger-full-access", backend="none", missing=())
        case "docker":
            inside = {key: value for key, value in variables.items() if key != "PATH"}
            with container(image, root, network=network, variables=inside) as sandbox:
                yield sandbox
        case _:
            assert_never(isolation)


@contextmanager
def private_folder(purpose: str) -> Iterator[Path]:
    """A new folder of our own that goes at the end, whatever is in it. A real path."""
    folder = Path(tempfile.mkdtemp(prefix=f"{_MINE}{os.getpid()}-{purpose}-")).resolve()
    try:
        yield folder
    finally:
        _remove_tree(folder)


def remove_folders_of(process: int) -> None:
    """Remove the private folders of a process that has ended without doing so."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_MINE}{process}-*"):
        _remove_tree(folder)


def _remove_tree(folder: Path) -> None:
    # Folders that were made read-only stop their owner as well, unless it is root; some paths are too long for any call.
    for path, _, _ in os.walk(folder):
        with suppress(OSError):
            Path(path).chmod(0o700)
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


def clean_environment(home: Path, **variables: str) -> dict[str, str]:
    """A whole environment, built from nothing, that gives the same results everywhere. Makes `home`."""
    home.mkdir(exist_ok=True)
    return {
        "PATH": search_path(),
        "HOME": str(home),
        "TMPDIR": str(home),
        **FIXED,
        **variables,
    }


def with_places(sandbox: Sandbox, places: Mapping[str, Path]) -> Sandbox:
    """A namespace in which folders lie at other paths as well, such as `/app`, whether the machine has those or not.

    Its root becomes an empty one, with everything of the machine's bound into it, since nothing can be added to a root that
    is read-only.
    """
    prefix = list(sandbox.prefix)
    at = prefix.index("--ro-bind")
    assert prefix[at + 1 : at + 3] == ["/", "/"]
    root = ["--tmpfs", "/"]
    for entry in sorted(Path("/").iterdir()):
        if str(entry) in places or str(entry) in {"/proc", "/dev"}:
            continue
        if entry.is_symlink():
            root += ["--symlink", str(entry.readlink()), str(entry)]
        else:
            root += ["--ro-bind", str(entry), str(entry)]
    if "/proc" not in prefix:
        root += ["--ro-bind", "/proc", "/proc"]
    bound: list[str] = []
    for place, folder in places.items():
        parent = Path(place).parent
        # A folder of the machine is read-only, so nothing can be added to it either.
        bound += ["--tmpfs", str(parent)] if parent != Path("/") and parent.is_dir() else []
        bound += ["--bind", str(folder), place]
    return replace(sandbox, prefix=(*prefix[:at], *root, *prefix[at + 3 :], *bound))


def unmet_need(task: BenchTask, isolation: Isolation | None = None) -> str | None:
    """What the task needs and this machine has not, for people; None if it can run."""
    if task.lacks:
        return f"cannot be run here: it needs {'; '.join(task.lacks)}"
    if task.foreign and isolation == "copy":
        return f"cannot be run here: its scripts name {task.workdir}, which takes --isolation namespace"
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
    """What no agent may see: the tasks with their tests and solutions, their git history, the results so far.

    And what tasks are generated from, since whoever knows the seed can make tests and solution with it.
    """
    folders = [output]
    for folder in (*(task.folder for task in tasks), _GENERATORS):
        folders.append(folder)
        checkout = enclosing_checkout(folder)
        if checkout is not None and (found := git_folders(checkout)):
            folders += [found.own, found.common]
        if checkout is not None and folder == _GENERATORS:
            # Its tests solve tasks, too.
            folders.append(checkout / "tests")
    return tuple(dict.fromkeys(folder.resolve() for folder in folders if folder.is_dir()))
