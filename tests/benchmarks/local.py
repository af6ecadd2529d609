"""Small models on this machine: one-line bugs, mended or not, with calls as JSON actions and natively.

    python -m tests.benchmarks.local --model local:PATH.gguf --attempts 10

Each attempt is a `chimera run` of its own in a fresh repository with a failing test. Solved means: the test passes
and nobody touched it. The server is started once, for all attempts, so that loading is not counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chimera.config import process_environment, state_dir
from chimera.models.choose import LOCAL_OPTIONS
from chimera.models.llama_server import find_llama_server, start_llama_server
from chimera.models.local_models import LOCAL, LocalModels

CASES: Mapping[str, tuple[str, str]] = {
    "off by one": (
        'def total(n):\n    """The sum of the whole numbers from 1 to n, n included."""\n    return sum(range(1, n))\n',
        "self.assertEqual(calc.total(4), 10)\n        self.assertEqual(calc.total(1), 1)",
    ),
    "sign": (
        'def subtract(a, b):\n    """a minus b."""\n    return a + b\n',
        "self.assertEqual(calc.subtract(7, 5), 2)\n        self.assertEqual(calc.subtract(5, 7), -2)",
    ),
    "default": (
        'def collect(item, seen=[]):\n    """What was seen, and the item."""\n    seen.append(item)\n    return seen\n',
        "self.assertEqual(calc.collect(1), [1])\n        self.assertEqual(calc.collect(2), [2])",
    ),
}
TEST = "import unittest\n\nimport calc\n\n\nclass CalcTest(unittest.TestCase):\n    def test_it(self):\n        {}\n"
TASK = (
    "The test in test_calc.py fails because of a bug in calc.py. Fix calc.py; do not change the test. "
    "The test is run with: python3 -m unittest -q"
)
LIMIT_S = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """How one run ended."""

    solved: bool
    seconds: float
    result: Mapping[str, Any]


def attempt(case: str, options: Sequence[str]) -> Attempt:
    """One run in a fresh repository."""
    source, checks = CASES[case]
    test = TEST.format(checks)
    with tempfile.TemporaryDirectory(prefix="chimera-local-") as folder:
        root = Path(folder, "repository")
        root.mkdir()
        (root / "calc.py").write_text(source)
        (root / "test_calc.py").write_text(test)
        author = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        for arguments in (["init", "-q"], ["add", "-A"], [*author, "commit", "-qm", "start"]):
            subprocess.run(["git", *arguments], cwd=root, check=True)
        command = [sys.executable, "-m", "chimera", "run", TASK, "--output-format", "json", "--mode", "auto"]
        limits = ["--max-steps", "15", "--max-seconds", str(LIMIT_S)]
        began = time.monotonic()
        done = subprocess.run(
            [*command, *limits, *options],
            cwd=root,
            env={**process_environment(), "CHIMERA_STATE_DIR": str(Path(folder, "state"))},
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.monotonic() - began
        passes = subprocess.run(
            [sys.executable, "-B", "-m", "unittest", "-q"], cwd=root, capture_output=True, check=False
        )
        solved = passes.returncode == 0 and (root / "test_calc.py").read_text() == test
    return Attempt(solved=solved, seconds=seconds, result=json.loads(done.stdout))


def row(case: str, protocol: str, attempts: Sequence[Attempt]) -> str:
    """One line of the table."""
    ends: dict[str, int] = {}
    for one in attempts:
        ends[one.result["stop_reason"]] = ends.get(one.result["stop_reason"], 0) + 1
    usage = [one.result["usage"] or {} for one in attempts]
    sent = sum(each.get("input_tokens", 0) for each in usage)
    cached = sum(each.get("cached_input_tokens", 0) for each in usage)
    steps = statistics.median(one.result["steps"] or 0 for one in attempts)
    seconds = statistics.median(one.seconds for one in attempts)
    written = statistics.median(each.get("output_tokens", 0) for each in usage)
    solved = sum(one.solved for one in attempts)
    return (
        f"| {case} | {protocol} | {solved}/{len(attempts)} | {seconds:.0f} | {steps:g} | {sent // len(attempts):,} "
        f"| {written:g} | {cached / sent if sent else 0:.0%} | {', '.join(f'{n} {end}' for end, n in ends.items())} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="local:NAME or local:PATH.gguf")
    parser.add_argument("--attempts", type=int, default=10)
    parser.add_argument("--window", type=int, default=8_192)
    parser.add_argument("--protocol", action="append", choices=("json", "native", "auto"))
    parser.add_argument("--case", action="append", choices=tuple(CASES))
    parser.add_argument("--option", action="append", default=[], help="A further option of chimera run")
    given = parser.parse_args()
    environment = process_environment()
    server = start_llama_server(
        find_llama_server(environment, outside=Path("/nonexistent")),
        LocalModels(state_dir()).find(given.model.removeprefix(LOCAL)),
        window=given.window,
        log=Path(tempfile.gettempdir(), "chimera-local.log"),
        environment=environment,
    )
    print(
        "| bug | protocol | solved | s, median | steps, median | prompt tokens | written, median | cached | ends |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    try:
        for case in given.case or ("off by one", "sign"):
            for protocol in given.protocol or ("json", "native"):
                options = ["--model", f"openai/{server.name}", "--api-base", server.api_base]
                options += ["--tool-protocol", protocol, *given.option]
                options += [f"--model-option={name}={value}" for name, value in LOCAL_OPTIONS.items()]
                attempts = [attempt(case, options) for _ in range(given.attempts)]
                print(row(case, protocol, attempts), flush=True)
    finally:
        server.close()


if __name__ == "__main__":
    main()
