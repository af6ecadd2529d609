"""The row of a trial: what `results.jsonl` holds, one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import PurePath
from typing import Any, Literal, TypeVar, get_args

from msgspec import Struct, field, to_builtins

from chimera import __version__
from chimera.bench.isolation import Isolation, Network
from chimera.bench.measures import Invariants, Measures, Rework, Shrinking
from chimera.core.messages import Usage
from chimera.core.state import RunResult

SCHEMA = 1
T = TypeVar("T")

Status = Literal[
    "graded",
    "agent_error",
    "verifier_error",
    "provider_error",
    "infra_error",
    "skipped",
    "interrupted",
]
"""`graded`: the hidden tests decided. `agent_error`: the agent itself broke; counts as not passed. The others say
nothing about the agent's skill and stay out of every rate: `verifier_error` no grade to trust, `provider_error` the
model could not be had, `infra_error` the sandbox, the disk or the memory failed, `skipped` the machine lacks something."""
SCORED: frozenset[Status] = frozenset({"graded", "agent_error"})
RETRIED: frozenset[Status] = frozenset({"provider_error", "infra_error"})
"""A trial that ends so is worth another try."""
Phase = Literal["setup", "agent", "verify"]


class TrialError(Struct, frozen=True, kw_only=True):
    """What went wrong, and when."""

    phase: Phase
    kind: str
    message: str


class Tokens(Struct, frozen=True, kw_only=True):
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


class ContextUse(Struct, frozen=True, kw_only=True):
    """How the context window was used. Sizes in tokens."""

    window: int
    floor: int
    prompt_peak: int
    prompt_sum: int
    compactions: int
    prompt_last: int | None = None
    cacheable: int | None = None
    """Of `prompt_sum`, as far as our counter goes: what was a prefix of the request before."""
    prefix_breaks: int | None = None
    """Requests that did not begin with the whole request before."""
    vain_compactions: int | None = None
    """Attempts that could not help."""
    min_gap: int | None = None
    """Fewest steps between two compactions; None with fewer than two."""
    shrinkings: tuple[Shrinking, ...] = ()
    """Each compaction in turn."""
    estimate_error: float | None = None
    """The largest difference between our count of a prompt and the provider's, over the provider's."""

    @classmethod
    def of(cls, result: RunResult, measures: Measures | None = None) -> ContextUse | None:
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
            **(_measured(measures) if measures is not None else {}),
        )

    @classmethod
    def of_fields(cls, values: Mapping[str, Any]) -> ContextUse:
        """The value behind its fields."""
        shrinkings = tuple(_of_its_kinds(Shrinking(**one)) for one in values.get("shrinkings", ()))
        return cls(**{**values, "shrinkings": shrinkings})


def _measured(measures: Measures) -> dict[str, Any]:
    steps = [one.step for one in measures.shrinkings]
    return {
        "prompt_last": measures.prompt_last,
        "cacheable": measures.cacheable,
        "prefix_breaks": measures.prefix_breaks,
        "vain_compactions": measures.vain_compactions,
        "min_gap": min((later - step for step, later in pairwise(steps)), default=None),
        "shrinkings": measures.shrinkings,
        "estimate_error": measures.estimate_error,
    }


class Row(Struct, frozen=True, kw_only=True):
    """One trial. None means unknown or not applicable, never zero."""

    trial: str
    """Unique in its job: task, arm, attempt. Its folder in `trials/` has this name."""
    task: str
    task_digest: str
    suite: str
    attempt: int
    """Counted from 1."""
    agent: str
    model: str | None
    isolation: Isolation
    status: Status
    seed: int | None = None
    """Of the generator that wrote the task."""
    arm: str = ""
    """What distinguishes these settings from others in the same job; the agent's name where there is one."""
    version: str = __version__
    """Of chimera, which runs the trial whoever the agent is."""
    network: Network = "none"
    """What the agent's commands could reach."""
    comparable: bool = True
    """Limits were those of the task."""
    started: str = ""
    """When the trial was begun, in UTC, ISO 8601."""
    tries: int = 1
    """How often the trial was begun, until the provider and the machine held."""
    reward: float | None = None
    passed: bool = False
    """The reward is 1."""
    stop_reason: str | None = None
    """Why the agent stopped, whatever it achieved."""
    tampered: tuple[str, ...] = ()
    error: TrialError | None = None
    claimed_done: bool | None = None
    """The agent said that it had finished; None for one that says nothing."""
    files_changed: int | None = None
    lines_added: int | None = None
    lines_removed: int | None = None
    steps: int | None = None
    tokens: Tokens | None = None
    summariser_tokens: int | None = None
    """The part of `tokens` that summaries took."""
    cost_usd: float | None = None
    context: ContextUse | None = None
    invariants: Invariants | None = None
    rework: Rework | None = None
    seconds: Mapping[Phase, float] = field(default_factory=dict)
    """Per phase that was begun."""
    run_dir: str | None = None
    """Where the run is recorded; only chimera has one."""

    def fields(self) -> dict[str, Any]:
        """The row as JSON values."""
        return {"schema": SCHEMA, **to_builtins(self)}

    @classmethod
    def of_fields(cls, values: Mapping[str, Any]) -> Row:
        """The row that `fields` gave.

        Raises:
            TypeError, KeyError, ValueError: it is none.
        """
        known = {name: value for name, value in values.items() if name != "schema"}
        for name, kind in _PARTS.items():
            known[name] = None if known.get(name) is None else _of_its_kinds(kind(**known[name]))
        row = _of_its_kinds(cls(**{**known, "tampered": tuple(known["tampered"])}))
        for name, choices in _CHOICES.items():
            if getattr(row, name) not in choices:
                raise ValueError(f"{name} is {getattr(row, name)!r}")
        if PurePath(row.trial).name != row.trial:
            raise ValueError(f"trial is {row.trial!r}, which is no name for a folder")
        return row


_CHOICES = {"status": get_args(Status), "isolation": get_args(Isolation), "network": get_args(Network)}
_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "int": int,
    "float": (int, float),
    "str": str,
    "bool": bool,
    "Mapping": Mapping,
    "tuple": tuple,
}
"""By the name of a field's type."""


def _of_its_kinds(made: T) -> T:
    """The value, if its fields hold what their types say: files come from others as well.

    Raises:
        TypeError: one does not.
    """
    for field_name, annotation in type(made).__annotations__.items():
        kind, _, rest = annotation.partition(" |")
        name, _, inner = kind.partition("[")
        value = getattr(made, field_name)
        if name not in _KINDS or (value is None and rest):
            continue
        right = isinstance(value, _KINDS[name]) and isinstance(value, bool) == (name == "bool")
        if right and inner == "str, ...]":
            right = all(isinstance(one, str) for one in value)
        if right and inner.endswith("float]"):
            right = all(isinstance(one, int | float) for one in value.values())
        if not right:
            raise TypeError(f"{field_name} is {value!r}")
    return made


_PARTS: Mapping[str, Callable[..., Any]] = {
    "error": TrialError,
    "tokens": Tokens,
    "context": lambda **values: ContextUse.of_fields(values),
    "invariants": Invariants,
    "rework": Rework,
}
"""What a field of a row that is no plain value is made with."""
