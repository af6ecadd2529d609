"""Task folders that were written for runners with containers: replayed where that can be done, else what they lack.

No image is built. A Dockerfile that only copies files, sets variables and installs what is here already is carried out by
copying; whatever it says beyond that is named as lacking, and the task is skipped rather than failed.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePosixPath

from chimera.bench.task_file import Table

_HARMLESS = {
    "FROM",
    "LABEL",
    "EXPOSE",
    "CMD",
    "ENTRYPOINT",
    "MAINTAINER",
    "SHELL",
    "STOPSIGNAL",
    "HEALTHCHECK",
    "ARG",
}
_FETCHES = re.compile(
    r"\b(curl|wget|pip3? install|uv (?:pip|add|sync)|uvx|apt-get|apk add|npm (?:i|install|ci))\b"
)
_DONE = re.compile(
    r"(?:apt-get (?:-\S+ )*(?:update|clean)|rm -rf /var/lib/apt/lists/\*?|apt-get autoremove\b.*|true)\s*"
)
_PACKAGE = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?(?P<rest>.*)")
_SYSTEM = {"/usr", "/usr/local", "/etc", "/bin", "/sbin", "/lib", "/dev", "/proc", "/sys", "/var"}
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
    ("environment", "allowed_hosts"): "a list of hosts that may be reached",
    ("verifier", "collect"): "collecting from other services",
    ("verifier", "environment"): "an environment for the verifier alone",
}


@dataclass(slots=True, kw_only=True)
class Replay:
    """What a Dockerfile comes to without building an image."""

    workdir: PurePosixPath = field(default_factory=lambda: PurePosixPath("/app"))
    layers: list[tuple[Path, PurePosixPath]] = field(default_factory=list)
    """Files and folders of the task, and where they go in the working directory; later ones over earlier ones."""
    variables: dict[str, str] = field(default_factory=dict)
    lacks: list[str] = field(default_factory=list)


def replay(dockerfile: Path) -> Replay:
    """Carry out a Dockerfile on paper."""
    found = Replay()
    copies: list[tuple[Path, PurePosixPath]] = []
    for number, instruction, rest in _instructions(dockerfile.read_text(encoding="utf-8", errors="replace")):
        if instruction in {"COPY", "ADD"}:
            copies += _copied(rest, dockerfile.parent, found, number)
        elif instruction not in _HARMLESS:
            _carry_out(found, number, instruction, rest)
    if str(found.workdir) == "/" or str(found.workdir.parent) in _SYSTEM:
        found.lacks.append(f"the working directory {found.workdir}, which cannot be had beside a system")
    for source, target in copies:
        if target.is_relative_to(found.workdir):
            found.layers.append((source, target.relative_to(found.workdir)))
        else:
            found.lacks.append(f"files outside the working directory {found.workdir}: {target}")
    return found


def _carry_out(found: Replay, number: int, instruction: str, rest: str) -> None:
    match instruction:
        case "WORKDIR":
            found.workdir = found.workdir / rest
        case "ENV":
            found.variables |= _variables(rest)
        case "RUN":
            found.lacks += [lack for command in _commands(rest) if (lack := _lack(command, number))]
        case "USER":
            if rest not in {"root", "0"}:
                found.lacks.append(f"Dockerfile line {number}: a user of its own ({rest})")
        case _:
            found.lacks.append(f"Dockerfile line {number}: {instruction}, which is not carried out here")


def feature_lacks(root: Table, folder: Path) -> Iterator[str]:
    """What a task asks for in its settings and files that this runner has not."""
    for (table, key), words in _FEATURES.items():
        if (root.table(table) if table else root).has(key):
            yield f"{words} ({table + '.' if table else ''}{key})"
    for table in ("agent", "verifier", "environment"):
        mode = root.table(table).text("network_mode", "no-network")
        if mode != "no-network":
            yield f"a network ({table}.network_mode is {mode!r})"
    if any((folder / "environment").glob("*compose*.y*ml")):
        yield "several containers (a compose file)"
    for path in sorted((folder / "tests").rglob("*.sh")):
        if found := _FETCHES.search(path.read_text(encoding="utf-8", errors="replace")):
            yield f"a network for its grader ({path.relative_to(folder)} runs {found[1]!r})"


def _instructions(text: str) -> Iterator[tuple[int, str, str]]:
    joined, begun = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        begun = begun or number
        joined += line.strip()
        if joined.endswith("\\"):
            joined = joined[:-1].rstrip() + " "
            continue
        instruction, _, rest = joined.partition(" ")
        yield begun, instruction.upper(), rest.strip()
        joined, begun = "", 0


def _variables(rest: str) -> Mapping[str, str]:
    words = _words(rest)
    if words and "=" not in words[0]:
        return {words[0]: " ".join(words[1:])}
    return dict(word.partition("=")[::2] for word in words)


def _copied(rest: str, context: Path, found: Replay, number: int) -> list[tuple[Path, PurePosixPath]]:
    words = [word for word in _words(rest) if not word.startswith(("--chown", "--chmod"))]
    if any(word.startswith("--") or "://" in word for word in words) or len(words) < 2:
        found.lacks.append(f"Dockerfile line {number}: a copy from elsewhere ({rest})")
        return []
    *sources, target = words
    copied = []
    for pattern in sources:
        inner = pattern.removeprefix("./").strip("/")
        matched = [context] if inner in {"", "."} else sorted(context.glob(inner)) or [context / inner]
        for source in matched:
            if not source.exists() or not source.resolve().is_relative_to(context.resolve()):
                found.lacks.append(f"Dockerfile line {number}: {pattern} is not there")
                continue
            into = found.workdir / target
            # A file goes under its name into what is written as a folder; a folder's content always goes into it.
            if source.is_file() and (target.endswith(("/", ".")) or len(sources) > 1):
                into /= source.name
            copied.append((source, PurePosixPath(*(part for part in into.parts if part != "."))))
    return copied


def _commands(rest: str) -> list[str]:
    return [part.strip() for part in re.split(r"&&|;", rest) if part.strip()]


def _lack(command: str, number: int) -> str | None:
    """What a RUN asks for and is not here already."""
    words = _words(command)
    if _DONE.fullmatch(command) or words[:1] in (["mkdir"], ["echo"]):
        return None
    if words[:2] in (["pip", "install"], ["pip3", "install"]):
        missing = [word for word in words[2:] if not word.startswith("-") and not _is_installed(word)]
        return f"Python packages: {', '.join(missing)}" if missing else None
    if words[:1] == ["apt-get"] and "install" in words:
        wanted = [word for word in words[words.index("install") + 1 :] if not word.startswith("-")]
        missing = [word for word in wanted if shutil.which(word) is None]
        return f"apt packages: {', '.join(missing)}" if missing else None
    return f"Dockerfile line {number}: RUN {command}"


def _is_installed(requirement: str) -> bool:
    found = _PACKAGE.fullmatch(requirement)
    if found is None:
        return False
    try:
        here = version(found["name"])
    except PackageNotFoundError:
        return False
    return not found["rest"] or found["rest"] == f"=={here}" or found["rest"].startswith(">=")


def _words(text: str) -> Sequence[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
