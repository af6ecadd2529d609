"""Recorded runs, read back from their events. A record may be of a run that died, or be damaged: nothing is required."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from chimera.cli.cells import escaped
from chimera.errors import RecordError

if TYPE_CHECKING:
    from chimera.cli.terminal import Terminal

Fields = Mapping[str, Any]
NO_BEGINNING = (
    "the record of run {} has no beginning: the run was killed before it began, so it asked no model and changed nothing; "
    "chimera run starts it anew"
)
_MOST_DAMAGE = 5
# Events that belong to the step whose request follows them.
_AHEAD = frozenset({"run_started", "message", "compaction"})


class RecordedStep(Struct, frozen=True, kw_only=True):
    """A step with what it asked for and what came of it."""

    number: int
    prompt: Fields
    """The `prompt` event; empty where it is missing."""
    completion: Fields | None
    """None where no reply came."""
    resumed: bool
    """The run was taken up again before this step."""
    messages: tuple[str, ...]
    """What the user added before this step."""
    told: tuple[str, ...]
    """What the loop told the model before this step: a nudge, a failed check."""
    compactions: tuple[Fields, ...]
    """Before this step's request was sent."""
    calls: tuple[Fields, ...]
    """`tool_finished` events, and `tool_started` ones that have none."""


class RecordedRun(Struct, frozen=True, kw_only=True):
    """One run directory."""

    path: Path
    events: tuple[Fields, ...]
    running: bool
    """Its process still holds the workspace."""
    damage: tuple[str, ...] = ()
    """What of the record cannot be read."""

    @classmethod
    def read(cls, state_dir: Path, path: Path) -> RecordedRun:
        """The run in a directory.

        Raises:
            RecordError: there is no readable record.
        """
        from chimera.record.run_directory import read_record

        record = read_record(path)
        running = path.name in _holders(state_dir)
        return cls(path=path, events=record.events, running=running, damage=record.damage)

    def fault(self, message: str) -> RecordError:
        """The error that something cannot be done with this run, with what is wrong with its record and the way out."""
        from chimera.record.damage import damage_text
        from chimera.record.run_directory import EVENTS

        if not self.started and not self.damage:
            message = NO_BEGINNING.format(self.path.name)
        return RecordError(". ".join(filter(None, (message, damage_text(self.path / EVENTS, self.damage)))))

    @property
    def started(self) -> Fields:
        return next((e for e in self.events if e["type"] == "run_started"), {})

    @property
    def result(self) -> Fields | None:
        """The `run_finished` event of the newest part; None where that died or goes on."""
        last = next((e for e in reversed(self.events) if e["type"] in {"run_started", "run_finished"}), None)
        return last if last is not None and last["type"] == "run_finished" else None

    @property
    def state(self) -> str:
        """How it ended: a stop reason, `running`, or `died`."""
        if self.result is not None:
            return str(self.result.get("stop_reason"))
        return "running" if self.running else "died"

    @property
    def step_count(self) -> int:
        if self.result is not None:
            return int(self.result.get("steps") or 0)
        return sum(e["type"] == "completion" for e in self.events)

    @property
    def task(self) -> str:
        return str(self.started.get("task", ""))

    @property
    def time(self) -> str:
        """When it began, UTC."""
        return str(self.events[0].get("time", "")) if self.events else ""

    @property
    def verification(self) -> Fields | None:
        """The `tool_finished` event of the last check; None where there was none."""
        checks = (
            e for e in reversed(self.events) if e["type"] == "tool_finished" and e.get("name") == "verify"
        )
        return next(checks, None)

    def steps(self) -> Iterator[RecordedStep]:
        """The steps in order."""
        span: list[Fields] = []
        ahead: list[Fields] = []
        for event in self.events:
            if event["type"] in _AHEAD:
                ahead.append(event)
            elif event["type"] == "prompt":
                if span:
                    yield _step(span)
                span, ahead = [*ahead, event], []
            elif span:
                span.append(event)
        if span:
            yield _step([*span, *ahead])


def run_here(state_dir: Path, name: str | None) -> Path:
    """The directory of the run that is meant; without a name the last one of the workspace around the current directory.

    Raises:
        RecordError: there is none, or more than one.
    """
    from chimera.record.run_directory import find_run, last_run_in

    return last_run_in(state_dir, Path.cwd()) if name is None else find_run(state_dir, name)


def show_damage(terminal: Terminal, run: RecordedRun) -> None:
    """Say what of a record could not be read, and that the rest was."""
    if not run.damage:
        return
    terminal.block(
        f"notice: {run.path.name}/events.jsonl is damaged; what cannot be read is left out:", hang="  "
    )
    for text in run.damage[:_MOST_DAMAGE]:
        terminal.block(escaped(text), indent="  ", hang="  ")
    if len(run.damage) > _MOST_DAMAGE:
        terminal.line(f"  and {len(run.damage) - _MOST_DAMAGE} more")


def _step(span: list[Fields]) -> RecordedStep:
    prompt: Fields = next((e for e in span if e["type"] == "prompt"), {})
    said = [e for e in span if e["type"] == "message"]
    finished = [e for e in span if e["type"] == "tool_finished"]
    ended = {e.get("id") for e in finished}
    printed = {e.get("id"): e.get("output_file") for e in span if e["type"] == "tool_interrupted"}
    cut_short = [
        {**e, "printed": printed.get(e.get("id"))}
        for e in span
        if e["type"] == "tool_started" and e.get("id") not in ended
    ]
    return RecordedStep(
        number=int(prompt.get("step", 0)),
        prompt=prompt,
        completion=next((e for e in span if e["type"] == "completion"), None),
        resumed=any(e["type"] == "run_started" and e.get("resumed") for e in span),
        messages=tuple(str(e.get("content")) for e in said if e.get("source") == "user"),
        told=tuple(str(e.get("content")) for e in said if e.get("source") != "user"),
        compactions=tuple(e for e in span if e["type"] == "compaction"),
        calls=(*finished, *cut_short),
    )


def _holders(state_dir: Path) -> set[str]:
    """The runs whose processes hold a workspace now."""
    locks = state_dir / "locks"
    found = set()
    for path in locks.iterdir() if locks.is_dir() else ():
        try:
            holder = json.loads(path.read_bytes())
            os.kill(int(holder["pid"]), 0)
            found.add(str(holder["run"]))
        except PermissionError:
            continue
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found
