"""The row of a trial: what `results.jsonl` holds, one line each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from chimera.bench.isolation import Isolation
from chimera.core.messages import Usage
from chimera.core.state import RunResult

SCHEMA = 1

Status = Literal["graded", "agent_error", "verifier_error", "provider_error", "skipped", "interrupted"]
"""`graded`: the hidden tests decided. `agent_error`: the agent itself broke; counts as not passed. The others say
nothing about the agent's skill and stay out of every rate."""
SCORED: frozenset[Status] = frozenset({"graded", "agent_error"})
Phase = Literal["setup", "agent", "verify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialError:
    """What went wrong, and when."""

    phase: Phase
    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens of a trial in classes that do not overlap: their sum is all that was processed."""

    in_uncached: int
    cache_read: int
    cache_write: int
    out: int
    """Without reasoning."""
    reasoning: int
    estimated: bool
    """The provider did not count all of them."""

    @classmethod
    def of(cls, usage: Usage) -> Tokens:
        """The classes of a usage, whose parts overlap."""
        return cls(
            in_uncached=max(0, usage.input_tokens - usage.cached_input_tokens - usage.cache_write_tokens),
            cache_read=usage.cached_input_tokens,
            cache_write=usage.cache_write_tokens,
            out=max(0, usage.output_tokens - usage.reasoning_tokens),
            reasoning=usage.reasoning_tokens,
            estimated=usage.estimated,
        )

    @property
    def total(self) -> int:
        """All of them."""
        return self.in_uncached + self.cache_read + self.cache_write + self.out + self.reasoning


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextUse:
    """How the context window was used. Sizes in tokens."""

    window: int
    floor: int
    prompt_peak: int
    prompt_sum: int
    compactions: int

    @classmethod
    def of(cls, result: RunResult) -> ContextUse | None:
        """From a run's result; None for a run that never began."""
        context = result.context
        if context is None:
            return None
        return cls(
            window=context.window,
            floor=context.floor["total"],
            prompt_peak=context.peak_prompt_tokens,
            prompt_sum=context.prompt_tokens_sent,
            compactions=context.compactions,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One trial. None means unknown or not applicable, never zero."""

    trial: str
    """Unique in its job: task, agent, attempt. Its folder in `trials/` has this name."""
    task: str
    task_digest: str
    suite: str
    attempt: int
    """Counted from 1."""
    agent: str
    model: str | None
    isolation: Isolation
    status: Status
    reward: float | None = None
    passed: bool = False
    """The reward is 1."""
    stop_reason: str | None = None
    """Why the agent stopped, whatever it achieved."""
    tampered: tuple[str, ...] = ()
    error: TrialError | None = None
    steps: int | None = None
    tokens: Tokens | None = None
    cost_usd: float | None = None
    context: ContextUse | None = None
    seconds: Mapping[Phase, float] = field(default_factory=dict)
    """Per phase that was begun."""
    run_dir: str | None = None
    """Where the run is recorded; only chimera has one."""

    def fields(self) -> dict[str, Any]:
        """The row as JSON values."""
        return {"schema": SCHEMA, **asdict(self), "tampered": list(self.tampered)}
