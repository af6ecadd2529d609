"""One instance of a generated task, and how it becomes a folder that Harbor and `chimera bench` can read."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from chimera.bench.generators.keep_apart import KEEP_APART
from chimera.bench.grading_script import grading_script
from chimera.bench.trajectory import PastStep, write_trajectory

Suite = Literal["basics", "tools", "context", "long"]

RELEASE_SEEDS = 1000
"""Seeds from here on draw from the template families that are held out: look at them for a release only."""


class Fact(Struct, frozen=True, kw_only=True):
    """Something that is said once or seldom and needed, to the letter, much later."""

    label: str
    """Unique in its instance. Where the fact is said, it stands on a line of its own: `label: value`."""
    value: str

    @property
    def line(self) -> str:
        """The fact as it is said."""
        return f"{self.label}: {self.value}"


class Instance(Struct, frozen=True, kw_only=True):
    """A task made from a seed: what the agent sees, what it does not, and what can be said about its window."""

    name: str
    suite: Suite
    seed: int
    difficulty: Literal["easy", "medium", "hard"]
    instruction: str
    files: Mapping[str, str]
    """The start tree: path -> text."""
    solution: str
    """Text of `solve.sh`."""
    expected: Mapping[str, object]
    """What the hidden tests compare with; lies in `tests/` only."""
    checks: str
    """Text of the hidden `test_outputs.py`; reads `expected.json` beside it."""
    notes: str
    runs_product: bool = False
    """The hidden tests run what the agent wrote, by way of `keep_apart.py` beside them."""
    window: int
    """Tokens; what the task is meant for. Without compaction it takes at least three times as much."""
    min_compactions: int
    """How many compactions it forces in that window at least, whoever solves it."""
    max_steps: int
    protected: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    rules: tuple[str, ...] = ()
    """Sentences of the instruction that must be in every request."""
    extra_tools: int = 0
    """Tools registered beside the usual ones, which the task does not need."""
    past: tuple[PastStep, ...] = ()
    """What was done before, in a run that is taken up again."""

    def write(self, folder: Path) -> None:
        """Write the task folder, in place of whatever is there."""
        if folder.exists():
            shutil.rmtree(folder)
        for path, text in self.folder_files().items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")

    def folder_files(self) -> dict[str, str]:
        """Every file of the task folder: path -> text."""
        files = {
            "task.toml": self._task_toml(),
            "instruction.md": self.instruction,
            "NOTES.md": f"# {self.name}\n\n{self.notes}\nGenerated: `python -m chimera.bench.generators` "
            f"writes this folder (seed {self.seed}) and those of other seeds.\n",
            "environment/Dockerfile": _IMAGE.format(source="workspace/", target="/app"),
            "solution/solve.sh": f'#!/bin/bash\nset -eu\ncd "${{APP_DIR:-/app}}"\n{self.solution}',
            "tests/Dockerfile": _IMAGE.format(source=".", target="/tests"),
            "tests/test.sh": grading_script(),
            "tests/test_outputs.py": f"{_CHECKS_HEAD.format(name=self.name)}{self.checks}{_CHECKS_TAIL}",
            "tests/expected.json": json.dumps(self.expected, indent=1, ensure_ascii=False) + "\n",
        }
        if self.runs_product:
            files["tests/keep_apart.py"] = KEEP_APART
        files |= {f"environment/workspace/{path}": text for path, text in self.files.items()}
        if self.past:
            files["trajectory.json"] = write_trajectory(self.instruction, self.past)
        return files

    def _task_toml(self) -> str:
        protected = ", ".join(json.dumps(path) for path in (*self.protected, *_PROTECTED))
        filled = _TASK_TOML.format(
            name=self.name,
            difficulty=self.difficulty,
            suite=self.suite,
            window=self.window,
            max_steps=self.max_steps,
            min_compactions=self.min_compactions,
            seed=self.seed,
            protected=protected,
            rules=", ".join(json.dumps(rule, ensure_ascii=False) for rule in self.rules),
        )
        for empty in ("min_compactions = 0\n", "rules = []\n"):
            filled = filled.replace(empty, "")
        return filled


def draw(name: str, seed: int) -> random.Random:
    """The source of everything drawn for an instance."""
    return random.Random(f"{name}/{seed}")  # noqa: S311  (repeatable, and nothing depends on its secrecy)


_PROTECTED = ("reward.txt", "conftest.py", "sitecustomize.py", "usercustomize.py", "*.pth")

_IMAGE = "FROM python:3.12.7-slim-bookworm\nCOPY {source} {target}\nWORKDIR /app\n"

_TASK_TOML = """\
schema_version = "1.4"
artifacts = [{{ source = "/app", exclude = [".git", "__pycache__"] }}]

[task]
name = "chimera/{name}"

[metadata]
difficulty = "{difficulty}"
category = "{suite}"

[metadata.chimera]
needs = ["python>=3.11"]
window = {window}
max_steps = {max_steps}
min_compactions = {min_compactions}
seed = {seed}
protected = [{protected}]
rules = [{rules}]
must_fail_canary = true

[agent]
timeout_sec = 900.0

[verifier]
environment_mode = "separate"
timeout_sec = 60.0

[environment]
network_mode = "no-network"
cpus = 1
memory_mb = 1024
workdir = "/app"
"""


_CHECKS_HEAD = '''\
"""Hidden tests of {name}."""

import json
import os
import unittest
from pathlib import Path

APP = Path(os.environ["APP_DIR"])
EXPECTED = json.loads(Path(__file__).with_name("expected.json").read_text(encoding="utf-8"))


def text(path: str) -> str:
    return (APP / path).read_bytes().decode("utf-8")


class Canary(unittest.TestCase):
    """Fails wherever failures are still seen."""

    def test_must_fail(self) -> None:
        self.fail("this is how it should be")


class Outputs(unittest.TestCase):
'''

_CHECKS_TAIL = """

if __name__ == "__main__":
    unittest.main()
"""
