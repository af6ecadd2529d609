"""Containers for the commands of a trial, by way of the `docker` program."""

from __future__ import annotations

import hashlib
import secrets
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from chimera.config import process_environment
from chimera.errors import SandboxUnavailableError
from chimera.workspace.programs import DEFAULT_PATH, find_program
from chimera.workspace.sandbox import Sandbox

_ENGINE_TIMEOUT_S = 20.0
# The task schema's own default for building an image.
_BUILD_TIMEOUT_S = 600.0
_ELSE = "use --isolation namespace or copy"


def check_engine() -> str:
    """The version of the engine that answers.

    Raises:
        SandboxUnavailableError: there is no `docker`, or no engine behind it.
    """
    return _docker(
        ["version", "--format", "{{.Server.Version}}"],
        timeout_s=_ENGINE_TIMEOUT_S,
        fault=f"docker is installed, but no engine answers; start one, or {_ELSE}",
    )


@contextmanager
def container(image: Path, root: Path, *, network: str, variables: Mapping[str, str]) -> Iterator[Sandbox]:
    """A container that sees `root` at its own path and nothing else of this machine, gone after the block.

    Args:
        image: folder with a Dockerfile.
        root: a real path.
        network: as docker calls it.
        variables: the environment of every command, beside what the image sets.

    Raises:
        SandboxUnavailableError: the image cannot be built or started.
    """
    tag = f"chimera-bench:{hashlib.sha256(str(image).encode()).hexdigest()[:16]}"
    _docker(
        ["build", "--quiet", "--tag", tag, str(image)],
        timeout_s=_BUILD_TIMEOUT_S,
        fault=f"the image of {str(image)!r} cannot be built",
    )
    name = f"chimera-bench-{secrets.token_hex(6)}"
    _docker(
        [
            *("run", "--detach", "--rm", "--init", "--name", name, "--network", network),
            *("--volume", f"{root}:{root}", "--workdir", str(root), "--entrypoint", "sleep", tag, "infinity"),
        ],
        timeout_s=_BUILD_TIMEOUT_S,
        fault=f"the image of {str(image)!r} cannot be started",
    )
    handed = [part for key, value in variables.items() for part in ("--env", f"{key}={value}")]
    # The client finds its engine by these; commands in the container see none of them.
    own = [
        f"{key}={value}"
        for key, value in process_environment().items()
        if key == "HOME" or key.startswith("DOCKER_")
    ]
    try:
        yield Sandbox(
            level="danger-full-access",
            backend="none",
            missing=(),
            # The shell goes where the command would have been started: `exec` knows no current folder of ours.
            prefix=("/usr/bin/env", *own, _program(), "exec", "--interactive", *handed, name),
            inner=("sh", "-c", 'cd "$0" && exec "$@"', str(root / "app")),
        )
    finally:
        subprocess.run([_program(), "rm", "--force", name], capture_output=True, check=False)


def _program() -> str:
    found = find_program("docker", process_environment().get("PATH", DEFAULT_PATH), outside=Path.cwd())
    if found is None:
        raise SandboxUnavailableError(
            f"--isolation docker needs the docker program, which is not on PATH; {_ELSE}"
        )
    return str(found)


def _docker(arguments: Sequence[str], *, timeout_s: float, fault: str) -> str:
    try:
        done = subprocess.run(
            [_program(), *arguments], capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxUnavailableError(f"{fault}: {error}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise SandboxUnavailableError(f"{fault}: {said[-1] if said else f'exit code {done.returncode}'}")
    return done.stdout.strip()
