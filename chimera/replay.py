"""Feed a recorded run through the context manager at another window, without a model.

The model's replies and the results of its calls are taken as recorded; what changes is the window, and with it every
cap, compaction and stop. So a replay shows what the policy would have done, not what the model would have.
"""

from __future__ import annotations

import shutil
from itertools import pairwise
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from chimera import prompts
from chimera.core.context import Context
from chimera.core.context_budget import (
    DEFAULT_BUDGET_FRACTION,
    DEFAULT_KEEP_TURNS,
    DEFAULT_TRIGGER_FRACTION,
    UNKNOWN_WINDOW,
    ContextBudget,
)
from chimera.core.messages import Usage
from chimera.core.model import Window
from chimera.core.outputs import ToolOutput
from chimera.core.recording import Past, RecordedStep, recall
from chimera.core.replies import read_reply
from chimera.core.state import RunState
from chimera.core.tokens import Calibration, TokenCounter
from chimera.record.events import Event
from chimera.record.run_directory import RunFiles
from chimera.recording import Recording, read_recording
from chimera.tools.known_files import KnownFiles
from chimera.workspace.paths import Workspace

__all__ = ["Recording", "Replay", "read_recording", "recorded_budget", "replay"]


class Replay(Struct, frozen=True, kw_only=True):
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
    compacted_from: tuple[int, ...]
    """What those would have taken otherwise."""


def recorded_budget(recording: Recording) -> ContextBudget:
    """The budget that the run itself began with."""
    options = recording.options
    window = Window(tokens=recording.window or UNKNOWN_WINDOW, source="recorded")
    factor = recording.calibration
    return ContextBudget(
        window=window,
        fraction=options.get("budget_fraction") or DEFAULT_BUDGET_FRACTION,
        trigger_fraction=options.get("trigger") or DEFAULT_TRIGGER_FRACTION,
        keep_turns=options.get("keep_turns") or DEFAULT_KEEP_TURNS,
        mode=options.get("compaction", "note"),
        calibration=Calibration() if factor is None else Calibration(factor, known=True),
    )


def replay(recording: Recording, budget: ContextBudget, counter: TokenCounter) -> Replay:
    """Play a recording under a budget.

    A file being edited is put back as it is in the workspace now, or as missing where there is no such workspace.
    In the mode `summary` the factual note stands alone, as where a summary cannot be used.
    """
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
        self.compacted_from: list[int] = []
        self.cacheable = 0
        self.floor_sent = 0

    def play(self) -> Replay:
        recall(self.context, self.state, Past(steps=(), first_message=self.recording.first_message))
        for step in self.recording.steps:
            if self.state.stop is None:
                self.state.stop = self.context.fit(self.state)
            if self.state.stop is not None:
                break
            self._send(step)
            recall(self.context, self.state, Past(steps=(self._nudged(step),)))
        gaps = [after - before for before, after in pairwise(self.compacted_at)]
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
            compacted_from=tuple(self.compacted_from),
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

    def _nudged(self, step: RecordedStep) -> RecordedStep:
        """The step with the nudge that the loop added to its last result, which is no part of the recorded output."""
        reply = read_reply(step.completion)
        outputs = [output for output in step.outputs if output is not None]
        if not outputs or len(outputs) < len(step.outputs):
            return step
        verdict = self.state.progress.judge(
            (call.name, text, output.text, output.ok)
            for call, text, output in zip(reply.message.tool_calls, reply.arguments, outputs, strict=True)
        )
        if verdict != "nudge":
            return step
        nudged: ToolOutput = replace(outputs[-1], text=outputs[-1].text + prompts.NUDGE)
        return replace(step, outputs=(*outputs[:-1], nudged))

    def _estimate(self) -> int:
        return self.state.floor.total + self.state.history.tokens

    def _listen(self, event: Event) -> None:
        if event.type == "prompt":
            self.curve.append(event.fields["calibrated"])
        elif event.type == "compaction" and event.fields["changed"]:
            self.compacted_at.append(len(self.curve))
            self.compacted_from.append(event.fields["before"])
