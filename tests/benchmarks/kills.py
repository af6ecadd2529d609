"""Kill a run with signal 9 at named points and at random moments, resume it, and count what was lost or done twice.

    .venv/bin/python -m tests.benchmarks.kills --random 100

Each run appends numbers to a file by shell commands and tells every event as it is recorded. Lost is an event that was
told and is not in the record afterwards; repeated is a number that stands in the file twice.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from chimera.api import resume
from chimera.record.run_directory import find_run, read_events, run_paths
from chimera.testing import ScriptedModel, call, text

POINTS = (
    "run_started 1", "checkpoint 1", "prompt 1", "completion 1", "tool_started 1", "tool_finished 1",
    "plan 1", "prompt 4", "completion 5", "tool_started 6", "tool_finished 7", "compaction 1",
)  # fmt: skip
WINDOW = 6_000
PROGRAM = """
import sys
from pathlib import Path
import chimera
from chimera.testing import ScriptedModel, call, text
plan = call("update_plan", tasks=[{"title": "count", "status": "doing"}])
script = [plan, *(call("shell", command=f"echo {n} >> log.txt; seq {n}000 {n}400") for n in range(1, 40)), text("done")]
chimera.run("count", workspace=sys.argv[1], state=Path(sys.argv[2]), model=ScriptedModel(script, window=6_000),
            mode="yolo", sandbox="danger-full-access", emit=lambda event: print(event.type, flush=True))
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one kill did."""

    where: str
    lost: int
    repeated: int
    finished: bool


def kill_at(where: str, delay_s: float | None = None) -> Outcome:
    """Start a run, kill it at a point or after a delay, resume it and look."""
    with tempfile.TemporaryDirectory() as name:
        root, state = Path(name, "repo"), Path(name, "state")
        root.mkdir()
        subprocess.run(["git", "init", "-q", str(root)], check=True)
        told = _killed(root, state, where, delay_s)
        if not run_paths(state):
            return Outcome(where, lost=len(told), repeated=0, finished=not told)
        events = list(read_events(find_run(state, None)))
        recorded = [event["type"] for event in events]
        lost = sum(max(0, told.count(kind) - recorded.count(kind)) for kind in set(told) - {"text"})
        again = call("shell", command="echo 100 >> log.txt")
        model = ScriptedModel([again, text("done")], window=WINDOW)
        result = resume(message="go on", workspace=root, state=state, model=model) if recorded else None
        log = root / "log.txt"
        numbers = log.read_text().split() if log.exists() else []
        done = sum(event["type"] == "tool_finished" and event["name"] == "shell" for event in events)
        lost += max(0, done - len([n for n in numbers if n != "100"]))
        repeated = len(numbers) - len(set(numbers))
        finished = result is None or result.stop_reason == "answered"
        return Outcome(where, lost=lost, repeated=repeated, finished=finished)


def _killed(root: Path, state: Path, where: str, delay_s: float | None) -> list[str]:
    """The events that a run told before it was killed."""
    program = [sys.executable, "-c", PROGRAM, str(root), str(state)]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    told: list[str] = []
    if delay_s is not None:
        time.sleep(delay_s)
        process.send_signal(signal.SIGKILL)
    kind, _, number = where.partition(" ")
    for line in process.stdout:
        told.append(line.strip())
        if delay_s is None and told.count(kind) >= int(number):
            process.send_signal(signal.SIGKILL)
            break
    process.wait()
    process.stdout.close()
    return told


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--random", type=int, default=100, help="kills at random moments")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--longest", type=float, default=4.0, help="seconds until the latest kill")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    outcomes = [kill_at(point) for point in POINTS]
    moments = [draw.uniform(0.1, options.longest) for _ in range(options.random)]
    outcomes += [kill_at(f"random, after {moment:.2f} s", moment) for moment in moments]
    for outcome in outcomes:
        if outcome.lost or outcome.repeated or not outcome.finished:
            print(outcome)
    lost, repeated = sum(o.lost for o in outcomes), sum(o.repeated for o in outcomes)
    finished = sum(o.finished for o in outcomes)
    print(f"{len(outcomes)} kills ({len(POINTS)} at named points): {lost} acknowledged records lost, "
          f"{repeated} effects repeated, {finished} resumed to an answer")  # fmt: skip
    return 1 if lost or repeated or finished < len(outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
