"""Kill a job of 20 trials with signal 9 in the middle, several times over, resume it, and count its rows.

    .venv/bin/python -m tests.benchmarks.job_kills --kills 3

Prints how many rows were there at each kill, and at the end how many trials have a row and how many have two. Exits with 1
unless each of the 20 has exactly one and all are graded.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from chimera.config import process_environment

TRIALS = 20
TASK = Path(__file__).parents[2] / "tasks" / "basics" / "hello-file"


def rows_in(output: Path) -> list[str]:
    """The trials of the whole lines that are there, one for each line."""
    path = output / "results.jsonl"
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(line)["trial"] for line in lines]


def kill_after(command: list[str], environment: dict[str, str], output: Path, more: int) -> int | None:
    """Run the job until it has so many more rows, kill it there and return how many it has; None if it ended first."""
    before = len(rows_in(output))
    job = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while len(rows_in(output)) < before + more:
        if job.poll() is not None:
            return None
        time.sleep(0.005)
    os.kill(job.pid, signal.SIGKILL)
    job.wait()
    return len(rows_in(output))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2, help="trials at once")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        output = Path(name, "out")
        environment = {**process_environment(), "CHIMERA_STATE_DIR": str(Path(name, "state"))}
        command = [
            sys.executable,
            "-m",
            "chimera",
            "bench",
            str(TASK),
            "--agent",
            "oracle",
            "-k",
            str(TRIALS),
        ]
        command += ["-j", str(options.jobs), "--isolation", "copy", "--keep", "none", "-o", str(output)]
        for _ in range(options.kills):
            found = kill_after(command, environment, output, draw.randrange(1, TRIALS // options.kills - 1))
            print(f"killed with {found} rows" if found is not None else "ended before the kill")
            if "--resume" not in command:
                command.append("--resume")
        code = subprocess.run(command, env=environment, capture_output=True, check=False).returncode
        rows = rows_in(output)
    twice = len(rows) - len(set(rows))
    print(f"{len(set(rows))} of {TRIALS} trials have a row, {twice} rows are there twice, exit code {code}")
    return 0 if (len(set(rows)), twice, code) == (TRIALS, 0, 0) else 1


if __name__ == "__main__":
    sys.exit(main())
