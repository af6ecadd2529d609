"""What a sandbox costs a command: median time of `true` by bash, confined and plain, through the runner that tools use.

    python tests/benchmarks/sandbox.py [COMMANDS]

The bar is 40 ms more than plain at the median. Plain and confined commands take turns, so that a busy machine slows both.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from chimera.config import process_environment
from chimera.errors import SandboxUnavailableError
from chimera.workspace.environment import child_environment
from chimera.workspace.process import CommandRunner
from chimera.workspace.sandbox import BACKENDS, Sandbox, open_sandbox

BAR_MS = 40.0
_WARM_UPS = 5
_UNCONFINED = Sandbox(level="danger-full-access", backend="none", missing=())


def main(commands: int) -> int:
    """Print one line per backend. Returns 1 if one is over the bar, or none works."""
    costs = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for backend in BACKENDS:
            try:
                sandbox = open_sandbox(
                    "workspace-write",
                    root,
                    allow_net=False,
                    allow_git_write=False,
                    required=True,
                    environment=process_environment(),
                    backends=(backend,),
                )
            except SandboxUnavailableError as fault:
                print(f"{backend:<9} {fault}")
                continue
            plain, confined = _medians(root, sandbox, commands)
            costs.append(confined - plain)
            print(
                f"{backend:<9} {confined:5.1f} ms a command, plain {plain:.1f} ms: "
                f"{confined / plain:.1f} times, {confined - plain:.1f} ms more (median of {commands})"
            )
    return 0 if costs and max(costs) <= BAR_MS else 1


def _medians(root: Path, sandbox: Sandbox, commands: int) -> tuple[float, float]:
    """Milliseconds of a plain and of a confined command."""
    environment = child_environment(process_environment())
    runners = [CommandRunner(root, box, environment, root) for box in (_UNCONFINED, sandbox)]
    times: list[list[float]] = [[], []]
    for number in range(_WARM_UPS + commands):
        for runner, taken in zip(runners, times, strict=True):
            result = runner.run("true", 60)
            assert result.exit_code == 0, result.output
            if number >= _WARM_UPS:
                taken.append(result.duration_s * 1000)
    for runner in runners:
        runner.close()
    plain, confined = map(statistics.median, times)
    return plain, confined


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 50))
