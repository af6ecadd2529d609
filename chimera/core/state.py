"""All that changes during a run, why it ended, and the result it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from chimera.core.context_budget import ContextBudget, floor_fields
from chimera.core.history import History
from chimera.core.ledger import Ledger
from chimera.core.messages import Message, Usage
from chimera.core.outputs import ToolOutput
from chimera.core.plan import Plan
from chimera.core.progress import Progress
from chimera.core.protocol import NATIVE, ToolProtocol
from chimera.core.tokens import Calibration, Floor

SCHEMA_VERSION = 1


class StopReason(StrEnum):
    """Why a run ended. `exit_code` is what the command line returns for it."""

    ANSWERED = "answered"
    INTERNAL_ERROR = "internal_error"
    USAGE_ERROR = "usage_error"
    CANNOT_SHRINK = "cannot_shrink"
    MAX_STEPS = "max_steps"
    COST_LIMIT = "cost_limit"
    TIME_LIMIT = "time_limit"
    NO_PROGRESS = "no_progress"
    CONTEXT_OVERFLOW = "context_overflow"
    BAD_COMPLETION = "bad_completion"
    MODEL_ERROR = "model_error"
    AUTH_ERROR = "auth_error"
    VERIFY_FAILED = "verify_failed"
    SANDBOX_UNAVAILABLE = "sandbox_unavailable"
    WORKSPACE_LOCKED = "workspace_locked"
    STATE_UNWRITABLE = "state_unwritable"
    INTERRUPTED = "interrupted"

    @property
    def exit_code(self) -> int:
        """0 for an answer, 130 for an interruption (143 if it was not by SIGINT), else the place in this list."""
        return 130 if self is StopReason.INTERRUPTED else list(StopReason).index(self)


class Stop(Struct, frozen=True):
    """An end, expected or not."""

    reason: StopReason
    detail: str | None = None
    """For `cannot_shrink` the part in the way; for `interrupted` the signal."""
    message: str = ""
    """For people: what happened and what to do next. Empty for an answer."""

    @property
    def exit_code(self) -> int:
        return 143 if self.detail in {"SIGTERM", "SIGHUP"} else self.reason.exit_code


class Limits(Struct, frozen=True, kw_only=True):
    """What a run may use up. None: no limit."""

    max_steps: int = 50
    """Never raised by the loop, for any reason."""
    max_cost: float | None = None
    """US dollars. With an unknown price it cannot be enforced and the run stops."""
    max_seconds: float | None = None

    def reached(self, state: RunState, now: float) -> Stop | None:
        """Whether to stop before the next model call. `now` is of the clock that set `state.started`."""
        if state.steps >= self.max_steps:
            return Stop(
                StopReason.MAX_STEPS, message=f"The limit of {self.max_steps} steps is reached (--max-steps)."
            )
        if self.max_seconds is not None and now - state.started >= self.max_seconds:
            return Stop(
                StopReason.TIME_LIMIT,
                message=f"The limit of {self.max_seconds:g} s is reached (--max-seconds).",
            )
        if self.max_cost is None:
            return None
        if state.usage.cost_usd is None:
            message = "A cost limit is set, but the price of this model is unknown. Run without --max-cost."
            return Stop(StopReason.COST_LIMIT, message=message)
        if state.usage.cost_usd >= self.max_cost:
            message = f"The limit of {self.max_cost:g} USD is reached (--max-cost)."
            return Stop(StopReason.COST_LIMIT, message=message)
        return None


class TightCompactions(Struct):
    """Compactions that landed between target and trigger, in a row."""

    count: int = 0
    step: int = 0
    news: int = -1

    def note(self, *, tight: bool, step: int, news: int) -> bool:
        """Record one compaction; True when three tight ones with at most one step between brought nothing new."""
        follows = step - self.step <= 2 and news == self.news
        self.count = (self.count + 1 if follows else 1) if tight else 0
        self.step, self.news = step, news
        return self.count >= 3


class RunState(Struct, kw_only=True):
    """The one mutable object of a run."""

    history: History
    floor: Floor
    budget: ContextBudget
    started: float
    counted: bool = True
    """False while the task stands in the history with a bound of its size instead of its size."""
    protocol: ToolProtocol = NATIVE
    """How calls travel from now on."""
    plan: Plan = field(default_factory=Plan)
    ledger: Ledger = field(default_factory=Ledger)
    progress: Progress = field(default_factory=Progress)
    usage: Usage = field(default_factory=Usage)
    steps: int = 0
    """Model calls that returned or failed; repetitions after a refusal or a fault are part of their step."""
    calls: int = 0
    """Made since the run began or was taken up again: a model that has made one can make more in this protocol."""
    bad_completions: int = 0
    """In a row."""
    failed_verifications: int = 0
    compactions: int = 0
    history_rewrites: int = 0
    """Compactions, and results cut again after a refusal: what a prompt cache cannot keep."""
    accepted_tokens: int = 0
    """What the largest prompt that the provider took surely held, as it counts."""
    tight: TightCompactions = field(default_factory=TightCompactions)
    peak_prompt_tokens: int = 0
    prompt_tokens_sent: int = 0
    uncompacted_tokens: int = 0
    """Estimate of the request if nothing had ever been taken out."""
    warnings: list[str] = field(default_factory=list)
    follow_up: str = ""
    """The newest message of the user in a run that was taken up again; pinned like the task."""
    unanswered: Message | None = None
    """The model's last answer while it is no part of a turn yet."""
    newest_outputs: tuple[ToolOutput, ...] = ()
    """What the calls of the newest turn came to, whole: cut again where the window turns out smaller."""
    answer: str | None = None
    stop: Stop | None = None


class ContextSummary(Struct, frozen=True, kw_only=True):
    """How the window was spent. Sizes in tokens."""

    window: int
    window_source: str
    budget: int
    trigger: int
    floor: Mapping[str, Any]
    """`{"total", "system", "tools": {name: size}}`, as counted before the first call."""
    peak_prompt_tokens: int
    """Largest request, calibrated."""
    prompt_tokens_sent: int
    """All requests added up, calibrated."""
    compactions: int
    history_rewrites: int
    """Times an already sent message changed or went: what a prompt cache cannot keep."""
    calibration: float
    """Provider's count over our estimate, as last corrected."""


class FileSummary(Struct, frozen=True, kw_only=True):
    """A file that the run changed, against the snapshot from its start."""

    path: str
    added: int
    removed: int


class RunResult(Struct, frozen=True, kw_only=True):
    """What a run came to. Fields of a run that never began are None."""

    stop_reason: StopReason
    stop_detail: str | None
    exit_code: int
    message: str
    """For people: what happened and what to do next; empty for an answer."""
    answer: str | None
    """None unless the model answered (and the verification passed)."""
    run_id: str | None = None
    steps: int = 0
    model: str | None = None
    usage: Usage | None = None
    context: ContextSummary | None = None
    plan: Plan = field(default_factory=Plan)
    files_changed: tuple[FileSummary, ...] = ()
    warnings: tuple[str, ...] = ()
    run_dir: str | None = None
    calibration: Calibration | None = None
    """What the provider's counts taught; None for a run that never began. Not part of the JSON object."""

    @classmethod
    def of(cls, state: RunState, *, model: str) -> RunResult:
        """The result of a run that began; whoever keeps the record adds files, run id and directory."""
        stop = state.stop or Stop(StopReason.INTERNAL_ERROR, message="The run ended without a reason.")
        return cls(
            stop_reason=stop.reason,
            stop_detail=stop.detail,
            exit_code=stop.exit_code,
            message=stop.message,
            answer=state.answer if stop.reason is StopReason.ANSWERED else None,
            steps=state.steps,
            model=model,
            usage=state.usage,
            context=ContextSummary(
                window=state.budget.window.tokens,
                window_source=state.budget.window.source,
                budget=state.budget.budget,
                trigger=state.budget.trigger,
                floor=floor_fields(state.floor),
                peak_prompt_tokens=state.peak_prompt_tokens,
                prompt_tokens_sent=state.prompt_tokens_sent,
                compactions=state.compactions,
                history_rewrites=state.history_rewrites,
                calibration=round(state.budget.calibration.factor, 4),
            ),
            calibration=state.budget.calibration,
            plan=state.plan,
            warnings=tuple(state.warnings),
        )

    @classmethod
    def of_stop(cls, stop: Stop, **known: Any) -> RunResult:
        """The result of a run that never began."""
        return cls(
            stop_reason=stop.reason,
            stop_detail=stop.detail,
            exit_code=stop.exit_code,
            message=stop.message,
            answer=None,
            **known,
        )

    def fields(self) -> dict[str, Any]:
        """The result as the JSON object of `--output-format json`, in the order of the documentation."""
        failed = self.stop_reason is not StopReason.ANSWERED
        began = self.context is not None or self.run_id is not None
        return {
            "schema_version": SCHEMA_VERSION,
            "run_id": self.run_id,
            "stop_reason": str(self.stop_reason),
            "stop_detail": self.stop_detail,
            "exit_code": self.exit_code,
            "answer": self.answer,
            "steps": self.steps if began else None,
            "model": self.model,
            "usage": asdict(self.usage) if self.usage else None,
            "context": asdict(self.context) if self.context else None,
            "plan": [asdict(task) for task in self.plan.tasks] if began else None,
            "files_changed": [asdict(file) for file in self.files_changed] if began else None,
            "warnings": list(self.warnings),
            "run_dir": self.run_dir,
            "error": {"type": str(self.stop_reason), "message": self.message} if failed else None,
        }
