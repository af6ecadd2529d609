"""Feed a recorded run through the context manager at another window, without a model.

The model's replies and the results of its calls are taken as recorded; what changes is the window, and with it every
cap, compaction and stop. So a replay shows what the policy would have done, not what the model would have.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from chimera.core.context import Context
from chimera.core.context_budget import ContextBudget
from chimera.core.ledger import fact_of
from chimera.core.messages import Message, ToolCall, Usage, assistant
from chimera.core.model import Completion
from chimera.core.outputs import ToolOutput
from chimera.core.plan import Plan, Task
from chimera.core.replies import read_reply
from chimera.core.state import RunState
from chimera.core.tokens import TokenCounter
from chimera.errors import RecordError
from chimera.record.events import Event
from chimera.record.run_directory import RunFiles, read_events
from chimera.tools.known_files import KnownFiles
from chimera.workspace.paths import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStep:
    """One completion and all that answered it."""

    completion: Completion
    outputs: tuple[ToolOutput, ...] = ()
    """One per call, in order; fewer where the run broke off."""
    answer: str | None = None
    """The user message that the loop added in place of results."""
    ratio: float | None = None
    """Prompt tokens that the provider reported over our estimate at the time; None where it reported none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A run as it can be played again."""

    run_id: str
    system: str
    tools: tuple[dict[str, Any], ...]
    task: str
    workspace: Path
    steps: tuple[RecordedStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What the context manager did with a recording. Sizes in tokens, as calibrated at the time."""

    run_id: str
    window: int
    mode: str
    steps: int
    """Requests that could be sent."""
    stop: str | None
    """None: the recording ran to its end; else the part that was in the way."""
    compactions: int
    gap: float | None
    """Median number of steps between two compactions; None below two."""
    peak: int
    sent: int
    """All requests added up."""
    cacheable: float
    """Share of `sent` that is a prefix of the request before it, and so can come from a prompt cache."""
    floor_share: float
    """Share of `sent` that is system message and tool schemas."""
    archive_bytes: int
    curve: tuple[int, ...]
    """Size of each request."""
    compacted_at: tuple[int, ...]
    """Indexes into the curve: requests that were compacted before they were sent."""


def read_recording(path: Path) -> Recording:
    """The run in a run directory.

    Raises:
        RecordError: unreadable, or it lacks what a replay needs.
    """
    events = list(read_events(path))
    start = next((event for event in events if event["type"] == "run_started"), None)
    if start is None or not {"system", "tools", "task"} <= start.keys():
        raise RecordError(f"the record of {path.name} has no beginning that can be replayed")
    return Recording(
        run_id=path.name,
        system=start["system"],
        tools=tuple(start["tools"]),
        task=start["task"],
        workspace=Path(start.get("workspace", ".")),
        steps=tuple(_steps(events, path)),
    )


def replay(recording: Recording, budget: ContextBudget, counter: TokenCounter) -> Replay:
    """Play a recording under a budget."""
    files = RunFiles.temporary()
    try:
        return _Player(recording, budget, counter, files).play()
    finally:
        shutil.rmtree(files.path, ignore_errors=True)


class _Player:
    """One replay in progress."""

    def __init__(
        self, recording: Recording, budget: ContextBudget, counter: TokenCounter, files: RunFiles
    ) -> None:
        root = recording.workspace if recording.workspace.is_dir() else files.path
        self.recording = recording
        self.files = files
        self.context = Context(
            counter=counter,
            schemas=recording.tools,
            workspace=Workspace.open(root, run_dir=files.path),
            known=KnownFiles(),
            files=files,
            emit=self._listen,
        )
        self.state: RunState = self.context.begin(recording.system, recording.task, budget, 0.0)
        self.curve: list[int] = []
        self.compacted_at: list[int] = []
        self.cacheable = 0
        self.floor_sent = 0

    def play(self) -> Replay:
        for step in self.recording.steps:
            if self.state.stop is None:
                self.state.stop = self.context.fit(self.state)
            if self.state.stop is not None:
                break
            self._send(step)
            self._answer(step)
        gaps = [
            after - before for before, after in zip(self.compacted_at, self.compacted_at[1:], strict=False)
        ]
        sent = max(1, self.state.prompt_tokens_sent)
        return Replay(
            run_id=self.recording.run_id,
            window=self.state.budget.window.tokens,
            mode=self.state.budget.mode,
            steps=len(self.curve),
            stop=self.state.stop.detail if self.state.stop else None,
            compactions=self.state.compactions,
            gap=median(gaps) if gaps else None,
            peak=self.state.peak_prompt_tokens,
            sent=self.state.prompt_tokens_sent,
            cacheable=self.cacheable / sent,
            floor_share=self.floor_sent / sent,
            archive_bytes=sum(file.stat().st_size for file in self.files.archive.iterdir()),
            curve=tuple(self.curve),
            compacted_at=tuple(self.compacted_at),
        )

    def _send(self, step: RecordedStep) -> None:
        size = self.state.budget.calibration.size
        compacted = bool(self.compacted_at) and self.compacted_at[-1] == len(self.curve)
        fixed = self.state.floor.total
        prefix = (
            size(fixed + self.state.history.task_tokens) if compacted else (self.curve or [size(fixed)])[-1]
        )
        self.state.steps += 1
        self.context.request(self.state)
        self.cacheable += min(prefix, self.curve[-1]) if len(self.curve) > 1 else 0
        self.floor_sent += size(fixed)
        reported = None if step.ratio is None else round(step.ratio * self._estimate())
        usage = Usage(input_tokens=reported) if reported else None
        self.context.observe(self.state, step.completion.message, usage)

    def _answer(self, step: RecordedStep) -> None:
        reply = read_reply(step.completion)
        for output in step.outputs:
            for fact in output.facts:
                self.state.ledger.add(fact)
            if output.plan is not None:
                self.state.plan = output.plan
        if step.answer is not None:
            self.context.answer_back(self.state, reply.message, step.answer)
        elif reply.message.tool_calls and len(step.outputs) == len(reply.message.tool_calls):
            self.context.admit(self.state, reply.message, step.outputs)

    def _estimate(self) -> int:
        return self.state.floor.total + self.state.history.tokens

    def _listen(self, event: Event) -> None:
        if event.type == "prompt":
            self.curve.append(event.fields["calibrated"])
        elif event.type == "compaction" and event.fields["changed"]:
            self.compacted_at.append(len(self.curve))


def _steps(events: list[dict[str, Any]], path: Path) -> Iterator[RecordedStep]:
    """Completions with their results. Verification outputs are part of the user message that follows them."""
    estimate = 0
    step: RecordedStep | None = None
    for event in events:
        match event["type"]:
            case "prompt":
                estimate = event["estimated"]
            case "completion" if event.get("purpose") is None:
                if step is not None:
                    yield step
                step = RecordedStep(completion=_completion(event), ratio=_ratio(event["usage"], estimate))
            case "plan" if step is not None and step.outputs:
                plan = Plan(text=event["text"], tasks=tuple(Task(**task) for task in event["tasks"]))
                step = replace(step, outputs=(*step.outputs[:-1], replace(step.outputs[-1], plan=plan)))
            case "tool_finished" if step is not None and event["name"] != "verify":
                step = replace(step, outputs=(*step.outputs, _output(event, path)))
            case "message" if step is not None:
                step = replace(step, answer=event["content"])
            case _:
                pass
    if step is not None:
        yield step


def _completion(event: Mapping[str, Any]) -> Completion:
    wire = dict(event["message"])
    calls = [
        ToolCall(id=call["id"], name=call["function"]["name"], arguments=call["function"]["arguments"])
        for call in wire.pop("tool_calls", [])
    ]
    content, extra = wire.pop("content", None) or "", {k: v for k, v in wire.items() if k != "role"}
    message: Message = assistant(content, *calls, extra=extra)
    return Completion(message=message, finish_reason=event["finish_reason"])


def _ratio(usage: Mapping[str, Any], estimate: int) -> float | None:
    if usage.get("estimated") or not usage.get("input_tokens") or not estimate:
        return None
    return float(usage["input_tokens"]) / estimate


def _output(event: Mapping[str, Any], path: Path) -> ToolOutput:
    text = event.get("output")
    if text is None:
        try:
            name = str(event["output_file"]).rpartition("/")[2]
            text = (path / "outputs" / name).read_text(encoding="utf-8", errors="replace")
        except OSError as fault:
            raise RecordError(f"an output of {path.name} is missing: {fault}") from fault
    return ToolOutput(
        text=text,
        digest=event["digest"],
        ok=event["ok"],
        exit_code=event["exit_code"],
        size=event["bytes"],
        facts=tuple(fact_of(fact) for fact in event.get("facts", [])),
    )
