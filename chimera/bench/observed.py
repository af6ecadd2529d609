"""A model whose requests are looked at on the way: are they legal, do they fit, do they still hold the task?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from chimera import prompts
from chimera.bench.measures import Invariants, Measures, RunMeter
from chimera.core.messages import Message
from chimera.core.model import Completion, Model, OnText, Request, Window
from chimera.core.tokens import REQUEST_OVERHEAD, TokenCounter
from chimera.errors import ContextOverflowError, ModelError
from chimera.record.events import Event

Log = Callable[[Mapping[str, Any]], None]
_NAME_DIGITS = 16


class ObservedModel(Struct, kw_only=True):
    """Passes requests on to another model, checks them and adds them up. For one run; sizes are our counter's."""

    inner: Model
    counter: TokenCounter
    task: str
    rules: tuple[str, ...] = ()
    limit: int | None = None
    """The window. None: unknown, then nothing is too large."""
    log: Log | None = None
    """Told of each request; texts only by their hash."""
    sent: int = 0
    """All requests added up."""
    peak: int = 0
    cacheable: int = 0
    prefix_breaks: int = 0
    requests: int = 0
    illegal: int = 0
    over_window: int = 0
    task_missing: int = 0
    rules_missing: int = 0
    _refused: int | None = None
    """Size of the smallest request that the provider refused for its size."""
    _before: tuple[Message, ...] = ()
    _sizes: dict[Message, int] = field(default_factory=dict)
    _tools: int = -1

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def window(self) -> Window | None:
        return self.inner.window

    @property
    def invariants(self) -> Invariants:
        """What the requests so far come to."""
        return Invariants(
            requests=self.requests,
            illegal=self.illegal,
            over_window=self.over_window,
            task_missing=self.task_missing,
            rules_missing=self.rules_missing,
        )

    def complete(self, request: Request, on_text: OnText) -> Completion:
        """Look at the request, pass it on, and look at what the provider counted."""
        if request.messages[0].content == prompts.SUMMARY_SYSTEM:
            return self._passed_on(request, on_text, sum(map(self._size, request.messages)), 0, "summary")
        if self._tools < 0:
            self._tools = REQUEST_OVERHEAD + sum(map(self.counter.schema, request.tools))
        sizes = [self._size(message) for message in request.messages]
        size = self._tools + sum(sizes)
        shared = self._prefix(request.messages, sizes)
        self.requests += 1
        self.sent += size
        self.peak = max(self.peak, size)
        self.cacheable += shared
        self.prefix_breaks += request.messages[: len(self._before)] != self._before
        self.illegal += not legal(request.messages)
        opening = request.messages[1].content
        self.task_missing += not opening.startswith(self.task)
        self.rules_missing += not all(rule in opening for rule in self.rules)
        self._before = request.messages
        completion = self._passed_on(request, on_text, size, shared, "step")
        reported = completion.usage.input_tokens if completion.usage is not None else 0
        self.over_window += self._is_too_large(size, reported or size, request.max_tokens)
        return completion

    def _is_too_large(self, size: int, counted: int, max_tokens: int) -> bool:
        again = self._refused is not None and size >= self._refused
        return again or (self.limit is not None and counted + max_tokens > self.limit)

    def _passed_on(
        self, request: Request, on_text: OnText, size: int, shared: int, purpose: str
    ) -> Completion:
        if self.log is None:
            return self._answered(request, on_text, size)
        told: dict[str, Any] = {
            "purpose": purpose,
            "messages": [_name(message) for message in request.messages],
            "tokens": size,
            "prefix_shared": shared,
            "max_tokens": request.max_tokens,
        }
        try:
            completion = self._answered(request, on_text, size)
        except ModelError as fault:
            self.log({**told, "error": type(fault).__name__})
            raise
        usage = asdict(completion.usage) if completion.usage is not None else None
        self.log({**told, "finish_reason": completion.finish_reason, "usage": usage})
        return completion

    def _answered(self, request: Request, on_text: OnText, size: int) -> Completion:
        try:
            return self.inner.complete(request, on_text)
        except ContextOverflowError:
            self.over_window += self._refused is not None and size >= self._refused
            self._refused = min(size, self._refused or size)
            raise

    def _size(self, message: Message) -> int:
        if message not in self._sizes:
            self._sizes[message] = self.counter.message(message)
        return self._sizes[message]

    def _prefix(self, messages: tuple[Message, ...], sizes: list[int]) -> int:
        """Tokens of the leading messages that the request before had as well."""
        if not self._before:
            return 0
        shared = self._tools
        for message, before, size in zip(messages, self._before, sizes, strict=False):
            if message != before:
                break
            shared += size
        return shared


class Observation(Struct, kw_only=True):
    """Watches one run of chimera: its requests by way of its model, all else by its events."""

    task: str
    rules: tuple[str, ...]
    log: Path
    """Where each request leaves a line."""
    meter: RunMeter = field(default_factory=RunMeter)
    model: ObservedModel | None = None

    def watch(self, model: Model) -> Model:
        """The model, observed."""
        self.model = ObservedModel(
            inner=model, counter=TokenCounter(), task=self.task, rules=self.rules, log=self._note
        )
        return self.model

    def __call__(self, event: Event) -> None:
        """Take an event of the run."""
        if event.type == "run_started" and self.model is not None:
            self.model.limit = event.fields["window"]
        self.meter(event)

    def measures(self) -> Measures | None:
        """What the run came to; None for one that sent nothing."""
        if self.model is None or not self.model.requests:
            return None
        return Measures(
            invariants=self.model.invariants,
            rework=self.meter.rework,
            shrinkings=tuple(self.meter.shrinkings),
            vain_compactions=self.meter.vain_compactions,
            summariser_tokens=self.meter.summariser_tokens,
            prompt_last=self.meter.prompt_last,
            cacheable=self.model.cacheable,
            prefix_breaks=self.model.prefix_breaks,
            estimate_error=self.meter.estimate_error,
        )

    def _note(self, request: Mapping[str, Any]) -> None:
        with self.log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(request, separators=(",", ":")) + "\n")


def _name(message: Message) -> str:
    """A short name of a message as sent: the same for the same text in the same role, so that each shows only once."""
    wire = json.dumps(message.wire(), ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(wire.encode()).hexdigest()[:_NAME_DIGITS]


def legal(messages: tuple[Message, ...]) -> bool:
    """Whether each call is answered once, right behind its message and in order, and nothing else is."""
    pending: list[str] = []
    for message in messages:
        if message.role == "tool":
            if not pending or pending.pop(0) != message.tool_call_id:
                return False
        elif pending:
            return False
        else:
            pending = [call.id for call in message.tool_calls]
    return not pending
