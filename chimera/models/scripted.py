"""A model that plays a script: for tests, the demo, the docs and dry runs. It never claims to be anything else."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from chimera.core.messages import ToolCall, Usage, assistant
from chimera.core.model import Completion, FinishReason, OnText, Request, Window
from chimera.core.protocol import action_text, answer_text
from chimera.errors import ContextOverflowError, ModelAuthError, ModelError, ToolsRefusedError

ErrorKind = Literal["overflow", "tools", "auth", "throttle", "server"]


class ScriptedCall(Struct, frozen=True):
    """One tool call of a reply."""

    name: str
    arguments: Mapping[str, Any] | str
    """A str is passed on as it is, to script broken JSON."""
    id: str | None = None
    """None: an id that is unique over the run."""


class ScriptedError(Struct, frozen=True):
    """An error in place of a reply."""

    kind: ErrorKind
    message: str = ""
    limit: int | None = None
    """Only of an overflow: the window in tokens that the refusal names."""
    retry_after_s: float | None = None
    """Only of throttle and server."""


class Reply(Struct, frozen=True, kw_only=True):
    """One entry of a script."""

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    finish_reason: FinishReason | None = None
    """None: "tool_calls" with calls, else "stop"."""
    usage: Usage | None = None
    """None: the scripted provider reports none."""
    delay_s: float = 0.0
    error: ScriptedError | None = None
    when: str | None = None
    """Play the entry only if the prompt contains this text; arguments of calls and tool schemas belong to it."""
    unless: str | None = None
    """Play the entry only if the prompt does not contain this text."""
    extra: Mapping[str, Any] | None = None
    """Reasoning fields of the message."""

    def holds(self, prompt: str) -> bool:
        """Whether the conditions of the entry hold for a prompt."""
        return (self.when is None or self.when in prompt) and (
            self.unless is None or self.unless not in prompt
        )

    def given(self, *, when: str | None = None, unless: str | None = None) -> Reply:
        """The same reply under a condition."""
        return replace(self, when=when, unless=unless)


Script: TypeAlias = Callable[[Request, int], Reply]
"""From a request and its number, counted from 0, to the reply."""


def text(content: str) -> Reply:
    """A reply of text."""
    return Reply(text=content)


def call(name: str, **arguments: Any) -> Reply:
    """A reply with one tool call."""
    return Reply(calls=(ScriptedCall(name, arguments),))


def calls(*replies: Reply) -> Reply:
    """One reply that holds the text and the calls of several, in order."""
    return Reply(
        text="".join(reply.text for reply in replies),
        calls=tuple(c for reply in replies for c in reply.calls),
    )


def error(
    kind: ErrorKind, message: str = "", *, limit: int | None = None, retry_after_s: float | None = None
) -> Reply:
    """A provider fault in place of a reply."""
    return Reply(error=ScriptedError(kind, message, limit, retry_after_s))


class ScriptedModel:
    """Plays replies in order. An entry whose condition does not hold is skipped for good.

    So `call("search").given(when="PORT=8123")` followed by `text("forgotten")` shows whether a fact is still in
    the prompt. Past the end every request fails.

    Args:
        replies: the entries, or a function from the request and its number to a reply.
        window: tokens of one request; None: unknown.
        name: shown in the record.
        sleep: how a reply's delay is spent.
    """

    def __init__(
        self,
        replies: Iterable[Reply] | Script,
        window: int | None = None,
        name: str = "scripted",
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._script = replies if callable(replies) else None
        self._rest = iter(() if callable(replies) else tuple(replies))
        self._window = None if window is None else Window(tokens=window, source="script")
        self._name = name
        self._sleep = sleep
        self._asked = 0
        self._ids = 0
        self.requests: list[Request] = []
        """Every request received, for assertions."""

    @property
    def name(self) -> str:
        return self._name

    @property
    def window(self) -> Window | None:
        return self._window

    def complete(self, request: Request, on_text: OnText) -> Completion:
        """Play the next reply.

        Raises:
            ModelError: the script says so, or it has no reply left.
        """
        self.requests.append(request)
        request.meanwhile()
        reply = self._next(request)
        self._asked += 1
        if reply.delay_s:
            self._sleep(reply.delay_s)
        if reply.error is not None:
            raise _raised(reply.error)
        written, calls = reply.text, tuple(map(self._call, reply.calls))
        if request.reply_schema is not None and not reply.finish_reason:
            # Held to a schema, it writes its calls and answers as a real model would have to.
            written = "\n".join(action_text(written, call) for call in calls) or answer_text(written)
            calls = ()
        if written:
            on_text(written)
        message = assistant(written, *calls, extra=reply.extra)
        reason = reply.finish_reason or ("tool_calls" if calls else "stop")
        return Completion(message=message, finish_reason=reason, usage=reply.usage)

    def _next(self, request: Request) -> Reply:
        if self._script is not None:
            return self._script(request, self._asked)
        prompt = prompt_text(request)
        for reply in self._rest:
            if reply.holds(prompt):
                return reply
        raise ModelError(f"the script has no reply left for request {self._asked + 1} of {self._name!r}")

    def _call(self, call: ScriptedCall) -> ToolCall:
        self._ids += 1
        arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(dict(call.arguments))
        return ToolCall(id=call.id or f"call_{self._ids}", name=call.name, arguments=arguments)


def prompt_text(request: Request) -> str:
    """Everything of a request that conditions look at: contents, call names and arguments, tool schemas.

    Arguments are there as sent and, where they parse, with their strings decoded as well, so that a text with
    quotes or line ends is found in either.
    """
    parts = []
    for message in request.messages:
        parts.append(message.content)
        for made in message.tool_calls:
            parts += [made.name, made.arguments, *_strings(made.arguments)]
    parts += [json.dumps(tool, ensure_ascii=False) for tool in request.tools]
    return "\n".join(parts)


def _strings(arguments: str) -> list[str]:
    try:
        values = [json.loads(arguments)]
    except ValueError:
        return []
    found = []
    while values:
        value = values.pop()
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            values += value.values()
        elif isinstance(value, list):
            values += value
    return found


def _raised(error: ScriptedError) -> ModelError:
    message = error.message or f"scripted {error.kind} error"
    match error.kind:
        case "overflow":
            return ContextOverflowError(message, limit=error.limit)
        case "tools":
            return ToolsRefusedError(message)
        case "auth":
            return ModelAuthError(message)
        case "throttle" | "server":
            return ModelError(message, retryable=True, retry_after_s=error.retry_after_s)
