"""chimera in a container of somebody else's harness; here a folder stands for the container, and its shell is real."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from chimera.bench.in_container import InContainer, usage_of
from chimera.config import process_environment
from chimera.errors import ConfigError

SCRIPT = """\
window: 32000
replies:
  - calls: [{name: shell, arguments: {command: "echo 4 >answer.txt"}}]
  - text: done
"""


@dataclass
class Ended:
    stdout: str | None
    stderr: str | None
    return_code: int


@dataclass
class Folder:
    """A container as far as the protocol goes: absolute paths are those of this machine."""

    workdir: Path

    async def exec(self, command: str, *, env: dict[str, str] | None = None) -> Ended:
        given = {**process_environment(), **(env or {})}
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.workdir, env=given, capture_output=True, text=True, check=False
        )
        return Ended(done.stdout, done.stderr, done.returncode)

    async def upload_file(self, source_path: Path, target_path: str) -> None:
        Path(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source_path, target_path)

    async def upload_dir(self, source_dir: Path, target_dir: str) -> None:
        shutil.copytree(source_dir, target_dir, ignore=shutil.ignore_patterns("__pycache__"))

    async def download_dir(self, source_dir: str, target_dir: Path) -> None:
        shutil.copytree(source_dir, target_dir)


@pytest.fixture
def container(tmp_path: Path) -> Folder:
    workdir = tmp_path / "app"
    workdir.mkdir()
    return Folder(workdir)


def test_a_task_is_done_there_and_its_record_is_fetched(container: Folder, tmp_path: Path) -> None:
    home, logs = tmp_path / "home", tmp_path / "logs"
    logs.mkdir()
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT)
    python = home / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    run = InContainer(model=f"scripted:{script}", options={"max-steps": "5"}, home=str(home))
    result = asyncio.run(run.run(container, "Write 4 to answer.txt.", logs))
    assert (container.workdir / "answer.txt").read_text() == "4\n"
    assert (result["stop_reason"], result["steps"]) == ("answered", 2)
    sent, cached, written, _ = usage_of(result)
    assert (sent or 0) > 1_000
    assert (cached, written) == (0, result["usage"]["output_tokens"])
    told = json.loads((logs / "trajectory.json").read_text())
    assert told["agent"]["name"] == "chimera"
    assert [step["source"] for step in told["steps"]] == ["system", "user", "agent", "agent"]
    assert told["steps"][1]["message"] == "Write 4 to answer.txt."


def test_what_went_wrong_there_is_told(container: Folder, tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    with pytest.raises(ConfigError, match="could not be installed in the container"):
        asyncio.run(InContainer(model="openai/some", python="false", home=home).install(container))
    assert (tmp_path / "home" / "source" / "chimera" / "__init__.py").is_file()
    with pytest.raises(ConfigError, match=r"gave no result in the container \(exit code 127\)"):
        asyncio.run(InContainer(model="openai/some", home=home).run(container, "do it", tmp_path))


@pytest.mark.skipif(importlib.util.find_spec("harbor") is not None, reason="harbor is installed")
def test_the_agent_class_names_what_it_needs() -> None:
    with pytest.raises(ImportError, match="is for Harbor: pip install harbor"):
        importlib.import_module("chimera.bench.harbor_agent")


def test_harbor_makes_the_agent_and_knows_its_name(tmp_path: Path) -> None:
    pytest.importorskip("harbor")
    made = importlib.import_module("chimera.bench.harbor_agent").HarborAgent(
        logs_dir=tmp_path, model_name="openai/some", window=32_000
    )
    assert (made.name(), made.model_name) == ("chimera", "openai/some")
