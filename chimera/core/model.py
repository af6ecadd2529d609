"""What a model must offer. The core knows this protocol and no vendor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from chimera.core.messages import Message, Usage

FinishReason = Literal["stop", "tool_calls", "length", "content_filter"]


class Request(Struct, frozen=True, kw_only=True):
    """One request to a model, exactly as it is meant to be sent."""

    messages: tuple[Message, ...]
    """Legal for a strict provider: each tool call is answered once, directly after its message, in call order."""
    tools: tuple[dict[str, Any], ...] = ()
    """Tool schemas in the OpenAI form, `{"type": "function", "function": {...}}`."""
    reply_schema: dict[str, Any] | None = None
    """JSON schema to which the server should hold the reply, for a protocol whose calls travel as text."""
    max_tokens: int
    """Bound of the completion in tokens. An adapter may lower it to what the model can write at most."""
    meanwhile: Callable[[], None] = field(default=lambda: None)
    """Work that costs nobody time once the request is on its way: an adapter that can calls it then, others before, any number
    of times."""


class Completion(Struct, frozen=True, kw_only=True):
    """One whole reply. A stream that was cut before its finish reason never becomes one."""

    message: Message
    """Role assistant. The arguments of its calls are as the model wrote them: they may be broken JSON."""
    finish_reason: FinishReason
    usage: Usage | None = None
    """None where the provider reported nothing."""
    fault: str = ""
    """Why the reply is not in the form that was asked for, as the model should read it. Set by a protocol, never by a model."""


class Window(Struct, frozen=True, kw_only=True):
    """How much one request may hold, prompt and completion together."""

    tokens: int
    source: str
    """Where the number is from, for people: "argument", "registry", "server", "unknown", "refusal", ..."""


OnText = Callable[[str], None]


class Model(Protocol):
    """A chat model with tool calls. `name` is what the record shows, `window` is None where nobody knows it."""

    @property
    def name(self) -> str: ...

    @property
    def window(self) -> Window | None: ...

    def complete(self, request: Request, on_text: OnText) -> Completion:
        """Return the reply, passing text to `on_text` as it arrives (for display only).

        Raises:
            ContextOverflowError: the provider refused the request for its size.
            ModelAuthError: the key is missing or refused, or there is no such model.
            ModelError: any other fault that outlasted the retries.
        """
        ...
