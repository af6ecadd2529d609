"""Benchmark tasks: finding their folders and reading them. Nothing is run and nothing is written here.

The format is a subset of Harbor's task schema 1.4; what is ours alone lies in `[metadata.chimera]`. See tasks/README.md.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from msgspec import Struct

from chimera.bench.dockerfile import Replay
from chimera.bench.foreign import SCHEMA_VERSIONS, is_for_containers, name_of, replayed
from chimera.bench.task_file import Table
from chimera.errors import ConfigError

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._-]*")
_NEED = re.compile(r"(?P<program>[A-Za-z0-9][A-Za-z0-9._+-]*?)(?:>=(?P<version>\d+(?:\.\d+)*))?")
# The verifier's is the default of the task schema; for agents the schema has none of use to us.
_VERIFIER_TIMEOUT_S = 600.0
_AGENT_TIMEOUT_S = 600.0
_NOISE = {"__pycache__"}
_OWN_KEYS = (
    *("needs", "window", "max_steps", "min_compactions", "protected", "invariants", "seed", "seeds", "tags"),
    *("rules", "canary", "must_fail_canary", "expected_in_sight"),
)


class Artifact(Struct, frozen=True, kw_only=True):
    """A part of the agent's tree that is graded."""

    path: PurePosixPath
    """File or folder relative to the working directory; `.` for all of it."""
    exclude: tuple[str, ...]
    """Patterns in gitignore syntax, relative to `path`."""


class Need(Struct, frozen=True, kw_only=True):
    """A program that the task cannot do without."""

    program: str
    version: tuple[int, ...] = ()
    """The lowest that will do. Only `python` has one."""


class BenchTask(Struct, frozen=True, kw_only=True):
    """One task of a benchmark, checked."""

    folder: Path
    """Absolute."""
    name: str
    """`org/name`."""
    suite: str
    """Name of the folder that the task lies in."""
    digest: str
    """`sha256:...` over every file of the folder."""
    instruction: str
    artifacts: tuple[Artifact, ...]
    needs: tuple[Need, ...]
    protected: tuple[str, ...]
    """Patterns in gitignore syntax: paths that are graded as they were, whatever the agent made of them."""
    rules: tuple[str, ...]
    """Sentences of the instruction that must be in every request."""
    window: int | None
    """Tokens; the context window that the task is meant for."""
    max_steps: int | None
    min_compactions: int
    """Compactions without which nobody gets through in `window`."""
    seed: int | None
    """Of the generator that wrote the task, if one did."""
    tags: tuple[str, ...]
    """Category, difficulty and own tags: what tasks can be chosen by."""
    canary: str | None
    """A text that every hidden file holds, so that a copy of them in training data is recognised."""
    expected_in_sight: bool
    """The values that the tests expect can be found in the workspace: the task is to carry them elsewhere."""
    layers: tuple[tuple[Path, PurePosixPath], ...]
    """Files and folders that make the start tree, and where in it they go; later ones over earlier ones."""
    folders: tuple[PurePosixPath, ...]
    """Empty folders of the start tree."""
    workdir: PurePosixPath
    """Where the task's own words and scripts expect the tree."""
    foreign: bool
    """Written for containers: its scripts name `/app`, `/tests` and `/logs`, which only a namespace can give them."""
    lacks: tuple[str, ...]
    """What it needs and this runner has not, for people; it cannot be run here."""
    must_fail_canary: bool
    """The grader reports on a test that must fail, and its exit code must agree with the reward."""
    agent_timeout_s: float
    verifier_timeout_s: float
    verifier_env: Mapping[str, str]
    solution_env: Mapping[str, str]

    @property
    def short_name(self) -> str:
        """The name without its organisation: unique in a benchmark, and a name for a folder."""
        return self.name.partition("/")[2]

    @property
    def workspace(self) -> Path:
        """The tree the agent starts from, of a task that was written for this runner."""
        return self.folder / "environment" / "workspace"

    def original(self, path: str) -> Path:
        """The file of the task that lies at this path of the start tree."""
        for source, target in reversed(self.layers):
            if source.is_dir() and PurePosixPath(path).is_relative_to(target):
                found = source / PurePosixPath(path).relative_to(target)
                if found.is_symlink() or found.exists():
                    return found
            elif PurePosixPath(path) == target:
                return source
        raise FileNotFoundError(path)

    @property
    def has_prior_context(self) -> bool:
        """An agent is to go on from a conversation that comes with the task."""
        return (self.folder / "trajectory.json").is_file()

    @property
    def tests(self) -> Path:
        """The hidden tests."""
        return self.folder / "tests"

    @property
    def solution(self) -> Path:
        """A solution that must be graded 1."""
        return self.folder / "solution"


_WHOLE = (Artifact(path=PurePosixPath(), exclude=()),)


def discover(path: Path) -> tuple[BenchTask, ...]:
    """The tasks at a path, sorted by suite and folder: a task, a suite of tasks, or a folder of suites.

    Raises:
        ConfigError: there is none, one cannot be read, or two have the same name.
    """
    tasks: dict[str, BenchTask] = {}
    for folder in task_folders(path):
        task = load_task(folder)
        if other := tasks.get(task.short_name):
            raise ConfigError(
                f"{folder / 'task.toml'}: task.name is {task.name!r}, and {other.name!r} in {str(other.folder)!r} "
                "ends the same; rename one"
            )
        tasks[task.short_name] = task
    return tuple(tasks.values())


def task_folders(path: Path) -> list[Path]:
    """The folders of the tasks at a path, sorted, unread.

    Raises:
        ConfigError: there is none, or one only looks like a task.
    """
    if not path.is_dir():
        raise ConfigError(
            f"{str(path)!r} is not a folder; give a task, a suite of tasks or a folder of suites "
            "(chimera bench list shows those here)"
        )
    folders = [path] if (path / "task.toml").exists() else sorted(_task_folders(path))
    if not folders:
        raise ConfigError(f"there is no task in {str(path)!r}: no task.toml in it, one or two folders down")
    return folders


def _task_folders(path: Path) -> Iterator[Path]:
    for pattern in ("*", "*/*"):
        for folder in path.glob(pattern):
            if (folder / "task.toml").exists():
                yield folder
            elif (folder / "instruction.md").exists():
                raise ConfigError(f"{folder}: has an instruction.md but no task.toml")


def load_task(folder: Path) -> BenchTask:
    """The task in a folder.

    Raises:
        ConfigError: a file or key is missing, wrong, or asks for what this runner cannot do. It names both.
    """
    folder = folder.resolve()
    root = Table.of_file(folder / "task.toml")
    workspace = folder / "environment" / "workspace"
    foreign = not workspace.exists() and is_for_containers(root, folder)
    if foreign:
        image, verifier_env = replayed(root, folder)
        name = name_of(root, folder)
    else:
        _check(root)
        image, verifier_env = Replay(layers=[(workspace, PurePosixPath())]), {}
        name = root.table("task").text("name")
        for needed in ("environment/workspace", "tests/test.sh"):
            if not (folder / needed).exists():
                raise ConfigError(
                    f"{folder}: {needed} is missing; this runner builds no images, it starts from that"
                )
    own = root.table("metadata").table("chimera")
    own.check_keys(_OWN_KEYS)
    if not _NAME.fullmatch(name):
        raise root.table("task").fault("name", f"is {name!r}; it must be ORG/NAME in lower case")
    return BenchTask(
        folder=folder,
        name=name,
        suite=folder.parent.name,
        digest=_digest(folder),
        instruction="" if image.lacks and foreign else _instruction(folder / "instruction.md"),
        artifacts=_artifacts(root, image.workdir) if not foreign else _WHOLE,
        layers=tuple(image.layers),
        folders=tuple(image.folders),
        workdir=image.workdir,
        foreign=foreign,
        lacks=tuple(dict.fromkeys(image.lacks)),
        needs=tuple(_need(own, text) for text in own.texts("needs")),
        protected=own.texts("protected"),
        rules=own.texts("rules"),
        window=own.whole("window"),
        max_steps=own.whole("max_steps"),
        min_compactions=own.whole("min_compactions") or 0,
        seed=own.whole("seed"),
        tags=_tags(root.table("metadata"), own, foreign=foreign),
        canary=own.text("canary", "") or None,
        expected_in_sight=own.flag("expected_in_sight"),
        must_fail_canary=own.flag("must_fail_canary"),
        agent_timeout_s=root.table("agent").seconds("timeout_sec", _AGENT_TIMEOUT_S),
        verifier_timeout_s=root.table("verifier").seconds("timeout_sec", _VERIFIER_TIMEOUT_S),
        verifier_env={**verifier_env, **root.table("verifier").variables("env")},
        solution_env={**image.variables, **root.table("solution").variables("env")},
    )


def _check(root: Table) -> None:
    """Keys and values that every task must have the same."""
    root.check_keys(
        ("schema_version", "artifacts", "task", "metadata", "agent", "verifier", "environment", "solution"),
        unsupported=("steps", "multi_step_reward_strategy"),
    )
    root.one_of("schema_version", (SCHEMA_VERSIONS[-1],), "")
    root.table("task").check_keys(("name", "description", "authors", "keywords"))
    root.table("agent").check_keys(("timeout_sec", "network_mode"), unsupported=("user",))
    root.table("solution").check_keys(("env",))
    verifier = root.table("verifier")
    verifier.check_keys(
        ("timeout_sec", "env", "environment_mode", "network_mode"),
        unsupported=("collect", "environment", "user"),
    )
    environment = root.table("environment")
    environment.check_keys(
        ("build_timeout_sec", "cpus", "memory_mb", "storage_mb", "network_mode", "workdir"),
        unsupported=(
            *("allowed_hosts", "docker_image", "env", "gpu_types", "gpus", "healthcheck", "mcp_servers"),
            *("os", "skills_dir", "tpu"),
        ),
    )
    for table in (root.table("agent"), verifier, environment):
        table.one_of("network_mode", ("no-network",), "no-network")


def _artifacts(root: Table, workdir: PurePosixPath) -> tuple[Artifact, ...]:
    listed = root.tables("artifacts", text_key="source")
    workdir = PurePosixPath(root.table("environment").text("workdir", str(workdir)))
    if listed is None:
        return _WHOLE
    artifacts = []
    for entry in listed:
        entry.check_keys(("source", "exclude"), unsupported=("destination", "service"))
        source = PurePosixPath(entry.text("source"))
        if not source.is_relative_to(workdir) or ".." in source.parts:
            raise entry.fault("source", f"is {str(source)!r}; it must lie in the workdir {str(workdir)!r}")
        artifacts.append(Artifact(path=source.relative_to(workdir), exclude=entry.texts("exclude")))
    return tuple(artifacts)


def _tags(metadata: Table, own: Table, *, foreign: bool) -> tuple[str, ...]:
    # The format leaves this table to whoever writes the task.
    named = [
        metadata.text(key, "-") for key in ("category", "difficulty") if not foreign or metadata.is_text(key)
    ]
    return tuple(dict.fromkeys(tag for tag in [*named, *own.texts("tags")] if tag != "-"))


def _need(own: Table, text: str) -> Need:
    found = _NEED.fullmatch(text)
    if found is None or (found["version"] and found["program"] != "python"):
        raise own.fault("needs", f"holds {text!r}; write the name of a program, or python>=3.11")
    version = tuple(int(part) for part in (found["version"] or "").split(".") if part)
    return Need(program=found["program"], version=version)


def _instruction(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise ConfigError(f"{path}: cannot be read: {fault}") from fault
    if not text.strip():
        raise ConfigError(f"{path}: is empty")
    return text


def _digest(folder: Path) -> str:
    """A hash of names, executable bits and contents; what Python leaves behind does not count."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if (path.is_dir() and not path.is_symlink()) or _NOISE.intersection(path.relative_to(folder).parts):
            continue
        content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
        executable = not path.is_symlink() and path.stat().st_mode & 0o100
        entry = (os.fsencode(path.relative_to(folder)), b"x" if executable else b"-", content)
        for part in entry:
            digest.update(len(part).to_bytes(8, "big") + part)
    return f"sha256:{digest.hexdigest()}"
