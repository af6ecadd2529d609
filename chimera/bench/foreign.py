"""Task folders that were written for runners with containers: what they ask for that this runner has not.

A task that lacks something is skipped rather than failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from chimera.bench.dockerfile import Replay, replay, verifier_replay
from chimera.bench.task_file import Table

_FETCHES = re.compile(
    r"\b(curl|wget|pip3? install|uv (?:pip|add|sync)|uvx|apt-get|apk add|npm (?:i|install|ci))\b"
)
_OF_THE_HOST = re.compile(r"\$\{\w+")
SCHEMA_VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4")
"""Of the task format, the last one ours."""
# Of the task format; each says in words what this runner has not.
_FEATURES = {
    ("", "steps"): "several steps",
    ("", "multi_step_reward_strategy"): "several steps",
    ("environment", "docker_image"): "a prebuilt image",
    ("environment", "mcp_servers"): "MCP servers of the task",
    ("environment", "healthcheck"): "a service with a health check",
    ("environment", "gpus"): "GPUs",
    ("environment", "tpu"): "TPUs",
    ("environment", "os"): "an operating system of its own",
    ("environment", "skills_dir"): "skills of the task",
    ("environment", "allow_internet"): "a network",
    ("environment", "allowed_hosts"): "a list of hosts that may be reached",
    ("verifier", "collect"): "collecting from other services",
    ("verifier", "environment"): "an environment for the verifier alone",
}


def is_for_containers(root: Table, folder: Path) -> bool:
    """Whether a folder without a workspace is a task all the same: one that starts from an image."""
    environment = folder / "environment"
    return (
        (environment / "Dockerfile").is_file()
        or root.table("environment").has("docker_image")
        or any(environment.glob("*compose*.y*ml"))
    )


def replayed(root: Table, folder: Path) -> tuple[Replay, dict[str, str]]:
    """What a task written for containers comes to here, with all that it lacks, and the variables of its grader."""
    root.one_of("schema_version", SCHEMA_VERSIONS, root.text("version", SCHEMA_VERSIONS[-1]))
    environment = root.table("environment")
    dockerfile = folder / "environment" / "Dockerfile"
    workdir = environment.text("workdir", "") or None
    image = replay(dockerfile, workdir=workdir) if dockerfile.is_file() else Replay()
    image.variables |= environment.variables("env")
    image.lacks += [*_lacking_settings(root), *_lacking_files(root, folder)]
    verifier_env = dict(image.variables)
    if (grader := folder / "tests" / "Dockerfile").is_file() and _is_separate(root):
        verifier = verifier_replay(grader)
        image.lacks += verifier.lacks
        verifier_env = verifier.variables
    return image, verifier_env


def _is_separate(root: Table) -> bool:
    return root.table("verifier").text("environment_mode", "shared") == "separate"


def name_of(root: Table, folder: Path) -> str:
    """As it calls itself, else as its folder; made a name that fits here."""
    organisation, _, name = root.table("task").text("name", folder.name).lower().rpartition("/")
    return "/".join(
        re.sub(r"[^a-z0-9._-]+", "-", part).lstrip("._-") or "unnamed"
        for part in (organisation or "foreign", name)
    )


def _lacking_settings(root: Table) -> Iterator[str]:
    """What a task asks for in its settings that this runner has not."""
    for (table, key), words in _FEATURES.items():
        if (root.table(table) if table else root).has(key):
            yield f"{words} ({table + '.' if table else ''}{key})"
    for table in ("agent", "verifier", "environment"):
        mode = root.table(table).text("network_mode", "no-network")
        if mode != "no-network":
            yield f"a network ({table}.network_mode is {mode!r})"
        user = root.table(table).text("user", "root")
        if user != "root":
            yield f"a user of its own ({table}.user is {user!r})"
    for table in ("environment", "verifier", "solution"):
        for name, value in root.table(table).variables("env").items():
            if _OF_THE_HOST.search(value):
                yield f"a variable of the machine ({table}.env.{name} is {value!r})"


def _lacking_files(root: Table, folder: Path) -> Iterator[str]:
    """What its files ask for, and those that are missing."""
    if any((folder / "environment").glob("*compose*.y*ml")):
        yield "several containers (a compose file)"
    for path in sorted((folder / "tests").rglob("*.sh")):
        if found := _FETCHES.search(path.read_text(encoding="utf-8", errors="replace")):
            yield f"a network for its grader ({path.relative_to(folder)} runs {found[1]!r})"
    if not root.has("steps"):
        for needed in ("instruction.md", "tests/test.sh"):
            if not (folder / needed).is_file():
                yield f"its own {needed}, which is missing"
