"""How long until the first request reaches the provider: chimera by both adapters, and mini-swe-agent if it is given.

The peer imports litellm, too, and is compared with the adapter that does. Runs alternate, so that a busy machine slows
all alike.

    python -m tests.benchmarks.first_request --peer /path/to/mini --rounds 7

Both must be installed alike: an installation without compiled modules takes twice the time (`--chimera` names another
than that of this Python).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from chimera.config import process_environment
from tests.provider import Answer, LoopbackProvider, Seen, ask, say

TASK = "Say done."
DONE = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start: until the first request arrived, and until the end of the process."""

    wall_s: float
    cpu_s: float
    """Of the process, when the request arrived."""
    whole_s: float


def main() -> int:
    """Measure, print a table, and return 1 if the peer was there first by more than the tolerance."""
    options = _options()
    commands: dict[str, Callable[[str, Path], list[str]]] = {
        f"chimera {adapter}": partial(_chimera, options.chimera, adapter) for adapter in ("direct", "litellm")
    }
    if options.peer and Path(options.peer).exists():
        commands["mini-swe-agent"] = partial(_peer, options.peer)
    starts: dict[str, list[Start]] = {name: [] for name in commands}
    for _ in range(options.rounds + 1):
        for name, command in commands.items():
            starts[name].append(_start(command))
    for name, measured in starts.items():
        # The first start of each reads its modules from disk for the first time.
        print(
            name, *(f"{column} {_spread(measured[1:], column)}" for column in ("wall_s", "cpu_s", "whole_s"))
        )
    _ratios(starts, "chimera direct", "chimera litellm")
    if "mini-swe-agent" not in starts:
        print("no peer: give its executable with --peer")
        return 0
    return int(_ratios(starts, "chimera litellm", "mini-swe-agent") > 1 + options.tolerance)


def _ratios(starts: Mapping[str, list[Start]], name: str, other: str) -> float:
    """Print how two compare, and return the ratio of their times by the clock."""
    ratios = {
        column: _median(starts[name], column) / _median(starts[other], column)
        for column in ("wall_s", "cpu_s")
    }
    print(f"{name} / {other}:", *(f"{column} {ratio:.3f}" for column, ratio in ratios.items()))
    return ratios["wall_s"]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    own = Path(sys.executable).with_name("chimera")
    parser.add_argument("--chimera", default=str(own), help="executable of chimera")
    parser.add_argument("--peer", help="executable of mini-swe-agent (mini)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tolerance", type=float, default=0.0)
    return parser.parse_args()


def _chimera(program: str, adapter: str, url: str, folder: Path) -> list[str]:
    server = ["--model", "openai/fake", "--api-base", url, "--adapter", adapter]
    safety = ["--mode", "yolo", "--sandbox", "danger-full-access"]
    return [program, "run", TASK, *server, "--workspace", str(folder), *safety, "-q"]


def _peer(program: str, url: str, folder: Path) -> list[str]:
    settings = ["-c", "mini.yaml", "-c", f"model.model_kwargs.api_base={url}", "-o", str(folder / "out.json")]
    return [program, "-m", "openai/fake", "-t", TASK, "-y", "-l", "0", "--exit-immediately", *settings]


def _environment(home: Path) -> Mapping[str, str]:
    own = {
        "HOME": str(home),
        "OPENAI_API_KEY": "k",
        "CHIMERA_STATE_DIR": str(home / "state"),
        "MSWEA_CONFIGURED": "true",
        "MSWEA_SILENT_STARTUP": "1",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "MSWEA_GLOBAL_CONFIG_DIR": str(home / "peer"),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    return {**process_environment(), **own}


def _start(command: Callable[[str, Path], list[str]]) -> Start:
    arrived: list[tuple[float, float]] = []
    process: list[subprocess.Popen[bytes]] = []

    def answer(seen: Seen, _: int) -> Answer:
        arrived.append((time.perf_counter(), _cpu_s(process[0].pid)))
        offered = {tool["function"]["name"] for tool in seen.body.get("tools", [])}
        return ask("bash", {"command": DONE}) if "bash" in offered else say("done")

    with tempfile.TemporaryDirectory() as name, LoopbackProvider(answer) as provider:
        folder = Path(name, "work")
        folder.mkdir()
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
        arguments = command(provider.url, folder)
        if shutil.which(arguments[0]) is None:
            raise SystemExit(f"{arguments[0]!r} is not there")
        began = time.perf_counter()
        process.append(
            subprocess.Popen(
                arguments,
                cwd=folder,
                env=_environment(Path(name)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
        )
        _, errors = process[0].communicate(timeout=300)
        ended = time.perf_counter()
    if not arrived:
        raise SystemExit(f"no request came from {arguments}: {errors.decode()[-2000:]}")
    return Start(wall_s=arrived[0][0] - began, cpu_s=arrived[0][1], whole_s=ended - began)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()
    return float((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))


def _median(starts: list[Start], column: str) -> float:
    return float(median(getattr(start, column) for start in starts[1:]))


def _spread(starts: list[Start], column: str) -> str:
    values = sorted(getattr(start, column) for start in starts)
    return f"{median(values):.2f} ({values[0]:.2f}..{values[-1]:.2f})"


if __name__ == "__main__":
    sys.exit(main())
