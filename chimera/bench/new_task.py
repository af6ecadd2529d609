"""A task to begin with: in order, and of no use until somebody writes it."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path

from chimera.bench.grading_script import grading_script
from chimera.errors import ConfigError

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._-]*")
_IMAGE = "python:3.12.7-slim-bookworm"

_TOML = """\
schema_version = "1.4"
artifacts = [{{ source = "/app", exclude = [".git", "__pycache__"] }}]

[task]
name = "{name}"

[metadata]
difficulty = "easy"
category = {suite}

[metadata.chimera]
needs = ["python>=3.11"]
max_steps = 25
protected = [
  "conftest.py", "pytest.ini", "sitecustomize.py", "usercustomize.py", "*.pth", "unittest.py", "pytest.py", "reward.txt",
]
must_fail_canary = true
canary = "{canary}"

[agent]
timeout_sec = 600.0

[verifier]
environment_mode = "separate"
timeout_sec = 60.0

[environment]
network_mode = "no-network"
cpus = 1
memory_mb = 1024
workdir = "/app"
"""
_TESTS = '''\
"""Hidden tests of {short}."""
# {canary}

import os
import unittest
from pathlib import Path

APP = Path(os.environ["APP_DIR"])


class Canary(unittest.TestCase):
    """Fails wherever failures are still seen."""

    def test_must_fail(self) -> None:
        self.fail("this is how it should be")


class Outputs(unittest.TestCase):
    def test_the_sum_is_right(self) -> None:
        self.assertEqual((APP / "sum.txt").read_text(encoding="utf-8"), "25\\n")


if __name__ == "__main__":
    unittest.main()
'''
_FILES = {
    "task.toml": _TOML,
    "instruction.md": (
        "`numbers.txt` in the current folder holds one whole number a line. Write their sum to `sum.txt`, in one line that\n"
        "ends with a line feed.\n"
    ),
    "NOTES.md": "# {short}\n\nWhat it tests, and who fails it.\n",
    "environment/Dockerfile": f"FROM {_IMAGE}\nCOPY workspace/ /app\nWORKDIR /app\n",
    "environment/workspace/numbers.txt": "3\n9\n13\n",
    "solution/solve.sh": (
        '#!/bin/bash\n# {canary}\nset -eu\ncd "${{APP_DIR:-/app}}"\n'
        "awk '{{ sum += $1 }} END {{ print sum }}' numbers.txt >sum.txt\n"
    ),
    "tests/Dockerfile": f"# {{canary}}\nFROM {_IMAGE}\nCOPY . /tests\nWORKDIR /app\n",
    "tests/test_outputs.py": _TESTS,
}


def write_task(name: str, suite: Path) -> Path:
    """Write a new task into the folder of a suite and return its own.

    Raises:
        ConfigError: the name is none, there is such a folder already, or it cannot be written.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is no name of a task; write ORG/NAME in lower case")
    short = name.partition("/")[2]
    folder = suite / short
    known = {
        "name": name,
        "short": short,
        "suite": json.dumps(suite.resolve().name or "tasks"),
        "canary": f"{name.partition('/')[0]}-canary {uuid.uuid4()}",
    }
    files = {path: text.format(**known) for path, text in _FILES.items()}
    files["tests/test.sh"] = grading_script(known["canary"])
    try:
        folder.mkdir(parents=True)
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    except FileExistsError as fault:
        raise ConfigError(f"{str(folder)!r} exists already; choose another name") from fault
    except OSError as fault:
        raise ConfigError(f"{str(folder)!r} cannot be written: {fault.strerror}") from fault
    return folder
