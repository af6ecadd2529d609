"""chimera inside a container of somebody else's harness: put there, run there, its record fetched from there.

The harness gives commands and files by the protocol below. Nothing here knows which harness it is.
"""

from __future__ import annotations

import importlib.metadata
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field

import chimera
from chimera.bench.export import atif
from chimera.config import process_environment
from chimera.errors import ConfigError, RecordError
from chimera.models.providers import BY_PREFIX
from chimera.recording import read_recording

_HOME = "/opt/chimera"
_TASK = "task.md"


class Done(Protocol):
    """What came of a command."""

    @property
    def stdout(self) -> str | None: ...
    @property
    def stderr(self) -> str | None: ...
    @property
    def return_code(self) -> int: ...


class Container(Protocol):
    """The place where the task is."""

    async def exec(self, command: str, *, env: dict[str, str] | None = None) -> Done: ...
    async def upload_file(self, source_path: Path, target_path: str) -> None: ...
    async def upload_dir(self, source_dir: Path, target_dir: str) -> None: ...
    async def download_dir(self, source_dir: str, target_dir: Path) -> None: ...


class InContainer(Struct, frozen=True, kw_only=True):
    """One run of chimera in a container, its commands unconfined: the container is the sandbox."""

    model: str
    options: Mapping[str, str] = field(default_factory=dict)
    """Of `chimera run`, by name without dashes in front: `{"window": "32000"}`."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment of the run, over what is taken from here: the keys of the model's provider."""
    python: str = "python3"
    """Of the container, 3.11 or newer."""
    home: str = _HOME
    """Where chimera is put."""

    async def install(self, container: Container) -> None:
        """Put this very chimera into the container, and what it needs: for that the container must reach a package index.

        Raises:
            ConfigError: it cannot be installed there.
        """
        await container.upload_dir(Path(chimera.__file__).parent, f"{self.home}/source/chimera")
        needed = " ".join(map(shlex.quote, _requirements()))
        venv = shlex.quote(f"{self.home}/venv")
        done = await container.exec(
            f"{self.python} -m venv {venv} && {venv}/bin/pip install --quiet {needed}"
        )
        if done.return_code != 0:
            why = (done.stderr or done.stdout or "").strip()[-500:]
            raise ConfigError(f"chimera could not be installed in the container: {why}")

    async def run(self, container: Container, instruction: str, logs: Path) -> dict[str, Any]:
        """Work on a task there; its record and `trajectory.json` (ATIF) lie in `logs` afterwards.

        Returns:
            The result object of the run.

        Raises:
            ConfigError: chimera gave no result.
        """
        task = logs / _TASK
        task.write_text(instruction, encoding="utf-8")
        await container.upload_file(task, f"{self.home}/{_TASK}")
        done = await container.exec(self._command(), env=self._environment())
        (logs / "stderr.txt").write_text(done.stderr or "", encoding="utf-8")
        try:
            result: dict[str, Any] = json.loads((done.stdout or "").strip().splitlines()[-1])
        except (ValueError, IndexError) as fault:
            why = (done.stderr or done.stdout or "").strip()[-500:]
            raise ConfigError(
                f"chimera gave no result in the container (exit code {done.return_code}): {why}"
            ) from fault
        if result["run_dir"]:
            await container.download_dir(result["run_dir"], logs / "run")
            _write_trajectory(logs, self.model)
        return result

    def _command(self) -> str:
        given = {
            "file": f"{self.home}/{_TASK}",
            "model": self.model,
            "mode": "yolo",
            "sandbox": "danger-full-access",
            "output-format": "json",
            **self.options,
        }
        options = " ".join(f"--{name} {shlex.quote(value)}" for name, value in given.items())
        return f"{shlex.quote(f'{self.home}/venv/bin/python')} -m chimera run {options}"

    def _environment(self) -> dict[str, str]:
        here = process_environment()
        provider = BY_PREFIX.get(self.model.partition("/")[0])
        names = (*provider.keys, *provider.address_variables) if provider else ()
        return {
            **{name: here[name] for name in names if here.get(name)},
            "PYTHONPATH": f"{self.home}/source",
            "CHIMERA_STATE_DIR": f"{self.home}/state",
            **self.variables,
        }


def usage_of(result: Mapping[str, Any]) -> tuple[int | None, int | None, int | None, float | None]:
    """Input tokens with the cached ones, cached ones, output tokens and US dollars of a result; None where unknown."""
    usage = result["usage"]
    if usage is None:
        return None, None, None, None
    return usage["input_tokens"], usage["cached_input_tokens"], usage["output_tokens"], usage["cost_usd"]


def _requirements() -> Sequence[str]:
    """What chimera needs, without its extras."""
    return [need for need in importlib.metadata.requires("chimera") or () if "extra ==" not in need]


def _write_trajectory(logs: Path, model: str) -> None:
    try:
        recording = read_recording(logs / "run")
    except RecordError:
        return
    told = atif(recording, agent="chimera", version=chimera.__version__, model=model)
    (logs / "trajectory.json").write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
