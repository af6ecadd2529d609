"""One run of a contestant against a model that thinks no time: when its requests came, and what it cost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from chimera.config import process_environment
from chimera.core.tokens import TokenCounter
from tests.benchmarks.contestants import Contestant
from tests.benchmarks.instant_provider import Exchange, InstantProvider
from tests.benchmarks.process_readings import Reading, read_session

SPANS = ((1, 20), (41, 50), (91, 100), (191, 200))
"""Steps, first and last, whose times are given."""
_MARKS = frozenset(edge for first, last in SPANS for edge in (first, last + 1))
_TASK = "Do what is to be done, with the shell."
_TIMEOUT_S = 600.0
_FILE = "output.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the model asks for."""

    steps: int
    output_bytes: int
    """Of each command."""
    files: int
    """In the repository, for a confined contestant."""

    def commands(self) -> Iterator[str]:
        """One a step, each different: an agent may refuse to repeat itself."""
        for number in range(1, self.steps + 1):
            yield f"cat {_FILE} # {number}" if self.output_bytes else f"true {number}"


@dataclass(frozen=True, kw_only=True)
class SpeedRun:
    """What one run came to."""

    exchanges: tuple[Exchange, ...]
    readings: Mapping[int, Reading]
    """By the number of the request that had just arrived."""
    started: float
    cpu_s: float
    """Of the whole run and all that it waited for, its commands included."""

    @property
    def first_request_s(self) -> float:
        """From the start of the process until its first request had arrived."""
        return self.exchanges[0].arrived - self.started

    @property
    def first_request_cpu_s(self) -> float:
        return self.readings[1].cpu_s

    @property
    def peak_rss_mb(self) -> float:
        return max(reading.peak_rss_mb for reading in self.readings.values())

    def step_s(self, span: tuple[int, int]) -> float | None:
        """Median time from an answer to the next request; None for steps that did not happen."""
        first, last = span
        if len(self.exchanges) <= last:
            return None
        inside = self.exchanges[first - 1 : last + 1]
        return median(after.arrived - before.answered for before, after in pairwise(inside))

    def step_cpu_s(self, span: tuple[int, int]) -> float | None:
        """Mean time on a processor of a step, that of its command not included."""
        first, last = span
        if not {first, last + 1} <= self.readings.keys():
            return None
        return (self.readings[last + 1].cpu_s - self.readings[first].cpu_s) / (last + 1 - first)

    @cached_property
    def floor_tokens(self) -> int:
        """What the first request holds, in cl100k tokens."""
        first, counter = json.loads(self.exchanges[0].body), TokenCounter()
        texts = "\n".join(_texts([first.get("instructions"), _messages(first)]))
        return counter.text(texts) + sum(map(counter.schema, first["tools"]))

    @cached_property
    def rewrites(self) -> int:
        """How often what had been sent was not sent again as it was, so that a prompt cache lost it."""
        sent = [_messages(json.loads(exchange.body)) for exchange in self.exchanges]
        return sum(after[: len(before)] != before for before, after in pairwise(sent))


def run_once(contestant: Contestant, load: Load, caches: Path) -> SpeedRun:
    """Run a contestant in a new repository, at home where it was at home before.

    Args:
        contestant: who.
        load: what is asked of it.
        caches: a folder for the homes of the contestants and for compiled modules, the same for all runs.

    Raises:
        SystemExit: it made no request, or did not get to the end.
    """
    with tempfile.TemporaryDirectory(prefix="speed-") as folder:
        home, workspace = caches / contestant.name, Path(folder, "work")
        home.mkdir(exist_ok=True)
        _make_repository(workspace, load, files=load.files if contestant.confined else 0)
        readings: dict[int, Reading] = {}
        process: list[subprocess.Popen[bytes]] = []

        def read(number: int) -> None:
            if number in _MARKS:
                readings[number] = read_session(process[0].pid)

        with InstantProvider(load.commands(), last=contestant.last, on_request=read) as provider:
            start = contestant.start(provider.url, home, workspace, _TASK)
            with Path(folder, "printed").open("wb") as printed:
                started = time.perf_counter()
                process.append(
                    subprocess.Popen(
                        start.arguments,
                        cwd=workspace,
                        env={**_environment(home, caches), **start.environment},
                        stdin=subprocess.DEVNULL,
                        stdout=printed,
                        stderr=printed,
                        start_new_session=True,
                    )
                )
                cpu_s = _waited_for(process[0])
            if len(provider.exchanges) <= load.steps:
                told = Path(folder, "printed").read_text(encoding="utf-8", errors="replace")[-3000:]
                raise SystemExit(
                    f"{contestant.name}: {len(provider.exchanges)} requests instead of {load.steps + 1}:\n{told}"
                )
            return SpeedRun(
                exchanges=tuple(provider.exchanges), readings=readings, started=started, cpu_s=cpu_s
            )


def _waited_for(process: subprocess.Popen[bytes]) -> float:
    """Time on a processor of the process and of all it waited for."""
    guard = threading.Timer(_TIMEOUT_S, os.killpg, (process.pid, signal.SIGKILL))
    guard.start()
    _, status, used = os.wait4(process.pid, 0)
    guard.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


def _environment(home: Path, caches: Path) -> dict[str, str]:
    ours = process_environment()
    kept = {name: ours[name] for name in ("PATH", "LANG", "LC_ALL", "TMPDIR") if name in ours}
    return {
        **kept,
        "HOME": str(home),
        "OPENAI_API_KEY": "a-key-of-usual-length",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "PYTHONPYCACHEPREFIX": str(caches / "modules"),
    }


def _make_repository(place: Path, load: Load, *, files: int) -> None:
    for number in range(files):
        path = place / str(number // 100) / f"{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"value = {number}\n" * 20, encoding="utf-8")
    place.mkdir(exist_ok=True)
    line = "The quick brown fox jumps over the lazy dog.\n"
    (place / _FILE).write_text(
        (line * (load.output_bytes // len(line) + 1))[: load.output_bytes], encoding="utf-8"
    )
    (place / "README.md").write_text("A place to work in.\n", encoding="utf-8")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for arguments in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-q", "-m", "start"]):
        subprocess.run(["git", *arguments], cwd=place, check=True)


def _messages(body: Mapping[str, Any]) -> list[Any]:
    messages: list[Any] = body.get("messages") or body.get("input") or []
    return messages


def _texts(value: Any) -> Iterator[str]:
    """All text below the keys that hold some."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key in ("content", "text"):
            yield from _texts(value.get(key))
