"""What a snapshot of the workspace costs: the first one, and later ones after a change, at 1,000 and at 10,000 files.

    python -m tests.benchmarks.checkpoint [SNAPSHOTS]

The bar is 200 ms for a later one at 10,000 files, at the median. `git status` of the same tree takes turns with it, so
that a busy machine slows both; the ratio of the two is printed.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from chimera.config import process_environment
from chimera.workspace.checkpoint import ShadowRepository

BAR_MS = 200.0
SIZES = (1_000, 10_000)
_FILES_A_FOLDER = 100
# Files that were changed less than a second before a snapshot are read again by the next one.
_REST_S = 1.1


def main(snapshots: int) -> int:
    """Print one line per size. Returns 1 if the largest is over the bar."""
    later = 0.0
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            first, later, status = _measure(Path(folder), size, snapshots)
        print(
            f"{size:>6,} files: first {first:,.0f} ms, later {later:.0f} ms, git status {status:.0f} ms: "
            f"{later / status:.1f} times (median of {snapshots})"
        )
    return 0 if later <= BAR_MS else 1


def _measure(folder: Path, size: int, snapshots: int) -> tuple[float, float, float]:
    """Milliseconds of the first snapshot, of a later one and of `git status`."""
    root = folder / "tree"
    _make_tree(root, size)
    shadow = ShadowRepository(folder / "state", root)
    time.sleep(_REST_S)
    first = _milliseconds(lambda: shadow.snapshot(run_id="benchmark", with_ignored=True))
    recorded = shadow.snapshot().paths
    later, status = [], []
    for number in range(snapshots):
        (root / "0" / "0.py").write_text(f"{number}\n" * 20)
        later.append(_milliseconds(lambda: shadow.snapshot(run_id="benchmark", also=recorded)))
        status.append(_milliseconds(lambda: _git(root, "status", "--porcelain")))
    return first, statistics.median(later), statistics.median(status)


def _make_tree(root: Path, size: int) -> None:
    for number in range(size):
        folder = root / str(number // _FILES_A_FOLDER)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.py").write_text(f"value = {number}\n" * 20)
    _git(root, "init", "--quiet")
    _git(root, "add", "--all")
    _git(
        root, "-c", "user.name=b", "-c", "user.email=b@example.org", "commit", "--quiet", "--message", "start"
    )


def _git(root: Path, *arguments: str) -> None:
    environment = {"PATH": process_environment()["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *arguments], cwd=root, env=environment, check=True, capture_output=True)


def _milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 15))
