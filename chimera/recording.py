"""Reads a run's record back: what was asked, with which options, and step by step what happened."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from chimera.attribution import Mark, ends_in_a_call, read_marks
from chimera.core.ledger import CommandRun, Verification, fact_of
from chimera.core.messages import ToolCall, assistant
from chimera.core.model import Completion
from chimera.core.outputs import ToolOutput
from chimera.core.plan import Plan, Task
from chimera.core.recording import RecordedStep
from chimera.core.replies import read_reply
from chimera.errors import RecordError
from chimera.record.damage import damage_text
from chimera.record.run_directory import EVENTS, read_record
from chimera.workspace.output_buffer import HEAD_BYTES, TAIL_BYTES
from chimera.workspace.terminal_text import plain_text

WAY_OUT = "`chimera show {0}` shows what can still be read; chimera run starts the task anew"


class Recording(Struct, frozen=True, kw_only=True):
    """A run as it can be taken up or played again."""

    run_id: str
    system: str
    tools: tuple[dict[str, Any], ...]
    task: str
    model: str
    workspace: Path
    options: Mapping[str, Any]
    """The settings that the run began with; secrets are masked."""
    window: int | None
    calibration: float | None
    """The factor that the run began with; None where nothing was known of the model."""
    start_commit: str | None
    marks: tuple[Mark, ...]
    """Its snapshots, the one from before the first step first; none where there is nothing to go back to."""
    interrupted: bool
    """It ended in a call that may have changed something, or after it, but before the snapshot that follows."""
    git_entries: Mapping[str, int] | None
    """The user's own repositories when its last part began, by their place in the workspace, with their inodes."""
    first_message: str
    """What the user added before there was any completion."""
    steps: tuple[RecordedStep, ...]

    @property
    def lost(self) -> ToolCall | None:
        """The call that had begun when the run was interrupted, and of which not even what it printed is recorded."""
        for step in self.steps[-1:]:
            calls = read_reply(step.completion).message.tool_calls
            for call, begun, output, printed in zip(
                calls, step.started, step.outputs, step.printed, strict=True
            ):
                if begun and output is None and printed is None:
                    return call
        return None


def read_recording(path: Path) -> Recording:
    """The run in a run directory.

    Raises:
        RecordError: unreadable, or without what it takes to go on from it.
    """
    record = read_record(path)
    events = list(record.events)
    damage = damage_text(path / EVENTS, record.damage)
    start = next((event for event in events if event["type"] == "run_started"), None)
    if start is None:
        lack = f"the record of run {path.name} has no beginning"
        killed = "the run was killed before it began, so there is nothing to go on from; chimera run starts it anew"
        raise RecordError(f"{lack}. {damage}" if damage else f"{lack}: {killed}")
    try:
        return _recording(path, events, start)
    except KeyError as fault:
        lack = f"the record of run {path.name} cannot be gone on from: {fault.args[0]!r} is missing in it"
        raise RecordError(f"{lack}. {damage}" if damage else lack) from fault
    except (AttributeError, TypeError, ValueError) as fault:
        lack = f"the record of run {path.name} holds an event that cannot be understood ({fault})"
        raise RecordError(f"{lack}. {damage or WAY_OUT.format(path.name)}") from fault


def _recording(path: Path, events: list[dict[str, Any]], start: Mapping[str, Any]) -> Recording:
    reader = _Reader(path)
    reader.read(events)
    try:
        marks = read_marks(events)
    except RecordError:
        marks = []
    return Recording(
        run_id=path.name,
        system=start["system"],
        tools=tuple(tool for tool in start["tools"] if tool["function"]["name"]),
        task=start["task"],
        model=start["model"],
        workspace=Path(start["workspace"]),
        options=start.get("options", {}),
        window=start.get("window"),
        calibration=start.get("calibration"),
        start_commit=start.get("start_commit"),
        marks=tuple(marks),
        interrupted=ends_in_a_call(events),
        git_entries=_git_entries(events),
        first_message=reader.first_message,
        steps=tuple(reader.steps),
    )


def _git_entries(events: Iterable[Mapping[str, Any]]) -> dict[str, int] | None:
    start = [event for event in events if event["type"] == "run_started"][-1]
    if "git_entries" not in start:
        return None
    names = start["git_entries"]
    inodes = start.get("git_inodes", ())
    return dict(zip(names, inodes if len(inodes) == len(names) else [0] * len(names), strict=True))


class _Reader:
    """Collects steps from events."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.steps: list[RecordedStep] = []
        self.first_message = ""
        self._estimate = 0
        self._plan: Plan | None = None
        """Of the call whose result comes next: the plan is recorded before the result says that it holds."""

    def read(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Take in all events, in order."""
        for event in events:
            match event["type"]:
                case "prompt":
                    self._estimate = event["estimated"]
                case "completion" if event.get("purpose") is None:
                    self.steps.append(self._step(event))
                case "message":
                    self._message(event)
                case "tool_started" | "tool_finished" | "tool_interrupted" | "plan" if self.steps:
                    self._tool_event(event)
                case _:
                    pass

    def _step(self, event: Mapping[str, Any]) -> RecordedStep:
        completion = _completion(event)
        count = len(read_reply(completion).message.tool_calls)
        return RecordedStep(
            completion=completion,
            outputs=(None,) * count,
            started=(False,) * count,
            printed=(None,) * count,
            ratio=_ratio(event["usage"], self._estimate),
        )

    def _message(self, event: Mapping[str, Any]) -> None:
        text = event["content"]
        by_user = event.get("source") == "user"
        if not self.steps:
            self.first_message = text
        elif by_user:
            self.steps[-1] = replace(self.steps[-1], follow_up=text)
        else:
            self.steps[-1] = replace(self.steps[-1], answer=text)

    def _tool_event(self, event: Mapping[str, Any]) -> None:
        step = self.steps[-1]
        if event["type"] == "plan":
            self._plan = Plan(text=event["text"], tasks=tuple(Task(**task) for task in event["tasks"]))
        elif event["name"] == "verify" and event["id"].startswith("verify_"):
            if event["type"] == "tool_finished":
                self.steps[-1] = replace(step, verification=_verification(event))
        else:
            ids = [call.id for call in read_reply(step.completion).message.tool_calls]
            index = ids.index(event["id"])
            if event["type"] == "tool_started":
                self.steps[-1] = replace(step, started=_put(step.started, index, True))
            elif event["type"] == "tool_interrupted":
                self.steps[-1] = replace(step, printed=_put(step.printed, index, _printed(event, self.path)))
            else:
                output = replace(_output(event, self.path), plan=self._plan)
                self._plan = None
                self.steps[-1] = replace(step, outputs=_put(step.outputs, index, output))


def _put(values: tuple[Any, ...], index: int, value: Any) -> tuple[Any, ...]:
    return (*values[:index], value, *values[index + 1 :])


def _completion(event: Mapping[str, Any]) -> Completion:
    wire = dict(event["message"])
    calls = [
        ToolCall(id=call["id"], name=call["function"]["name"], arguments=call["function"]["arguments"])
        for call in wire.pop("tool_calls", [])
    ]
    content = wire.pop("content", None) or ""
    extra = {name: value for name, value in wire.items() if name != "role"}
    return Completion(message=assistant(content, *calls, extra=extra), finish_reason=event["finish_reason"])


def _ratio(usage: Mapping[str, Any], estimate: int) -> float | None:
    if usage.get("estimated") or not usage.get("input_tokens") or not estimate:
        return None
    return float(usage["input_tokens"]) / estimate


def _verification(event: Mapping[str, Any]) -> Verification | None:
    for fact in map(fact_of, event.get("facts", [])):
        if isinstance(fact, CommandRun):
            return Verification(command=fact.command, passed=event["ok"], error=fact.error)
    return None


def _output(event: Mapping[str, Any], path: Path) -> ToolOutput:
    text, kept = event.get("output"), event.get("output_file")
    if text is None:
        try:
            text = _kept_text(path / "outputs" / str(kept).rpartition("/")[2])
        except OSError as fault:
            raise RecordError(f"an output of {path.name} is missing: {fault}") from fault
    return ToolOutput(
        text=text,
        digest=event["digest"],
        ok=event["ok"],
        exit_code=event["exit_code"],
        size=event["bytes"],
        kept=kept,
        facts=tuple(map(fact_of, event.get("facts", []))),
    )


def _printed(event: Mapping[str, Any], path: Path) -> ToolOutput | None:
    """What a call had printed that was interrupted; None where the file is not there any more."""
    name = event["output_file"]
    try:
        text = _kept_text(path / "outputs" / name.rpartition("/")[2])
    except OSError:
        return None
    return ToolOutput(text=text, digest=event["name"], ok=False, size=event["bytes"], kept=name)


def _kept_text(file: Path) -> str:
    """A kept output as the model was given it: whole, or head and tail of what was too long for memory."""
    size = file.stat().st_size
    if size <= HEAD_BYTES + TAIL_BYTES:
        return file.read_text(encoding="utf-8", errors="replace")
    with file.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
        stream.seek(-TAIL_BYTES, os.SEEK_END)
        tail = stream.read()
    gap = f"\n[... {size - len(head) - len(tail):,} bytes left out here ...]\n"
    return plain_text(head) + gap + plain_text(tail)
