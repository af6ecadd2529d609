"""How much memory and time a command with huge output takes, through the whole `shell` tool.

    python -m tests.benchmarks.output_memory --megabytes 300

A fresh process each, since the peak of a process never falls. Returns 1 if one grew by more than the limit.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from chimera.tools.base import ToolSet
from chimera.tools.shell import shell_tool
from chimera.workspace.environment import child_environment
from chimera.workspace.process import CommandRunner
from chimera.workspace.sandbox import Sandbox

LIMIT_MB = 100
COMMANDS = {
    "lines": "yes | head -c {size}",
    "one line": "head -c {size} /dev/zero | tr '\\0' x",
    "numbers": "seq 1 {size} | head -c {size}",
    "progress": "yes $(printf '50%%\\r') | tr '\\n' '\\r' | head -c {size}",
    "random bytes": "head -c {size} /dev/urandom",
}


def main() -> int:
    """Run every command in a process of its own and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--only", choices=COMMANDS, help="run this one in the present process")
    options = parser.parse_args()
    if options.only:
        print(json.dumps(_measure(options.only, options.megabytes * 1_000_000)))
        return 0
    worst = 0.0
    for name in COMMANDS:
        program = [sys.executable, "-m", "tests.benchmarks.output_memory", "--only", name]
        done = subprocess.run(
            [*program, "--megabytes", str(options.megabytes)], check=True, capture_output=True, text=True
        )
        taken = json.loads(done.stdout)
        worst = max(worst, taken["grown_mb"])
        print(
            f"{name}: {options.megabytes} MB, peak grew by {taken['grown_mb']:.1f} MB, {taken['seconds']:.1f} s, ",
            end="",
        )
        print(f"result {taken['characters']:,} characters, kept {taken['kept_mb']:.1f} MB on disk")
    return int(worst > LIMIT_MB)


def _measure(name: str, size: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        unconfined = Sandbox(level="danger-full-access", backend="none", missing=())
        environment = child_environment({"PATH": "/usr/local/bin:/usr/bin:/bin"})
        runner = CommandRunner(Path(folder), unconfined, environment, Path(folder))
        tools = ToolSet([shell_tool(runner)])
        tools.run("shell", json.dumps({"command": "true"}))
        before, began = _peak_mb(), time.perf_counter()
        output = tools.run("shell", json.dumps({"command": COMMANDS[name].format(size=size)}))
        taken = {
            "grown_mb": _peak_mb() - before,
            "seconds": time.perf_counter() - began,
            "characters": len(output.text),
            "kept_mb": output.spool.stat().st_size / 1e6 if output.spool else 0.0,
        }
        runner.close()
    return taken


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
