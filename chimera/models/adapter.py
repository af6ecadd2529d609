"""What the adapters to providers have in common: window, price, bound of a reply, and taking back what a server refuses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from chimera.core.messages import Usage
from chimera.core.model import Completion, OnText, Request, Window
from chimera.errors import ModelError
from chimera.models import registry
from chimera.models.faults import ProviderFault, model_error
from chimera.models.parameters import Parameters
from chimera.models.stream import priced

CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 600.0
"""Longest silence. A local model may read a long prompt for minutes before its first token."""
TOTAL_TIMEOUT_S = 1800.0
"""Longest reply, keep-alive comments included."""
_MOST_CORRECTIONS = 6


class Refusal(Struct, frozen=True, kw_only=True):
    """What came of a request instead of a reply."""

    fault: ProviderFault
    unsupported: bool = False
    """It is surely about parameters, whatever its words."""
    cause: Exception | None = None


class Adapter(ABC):
    """A model behind a provider: streamed, never retried here, its errors those of `chimera.errors`."""

    def __init__(
        self,
        name: str,
        *,
        parameters: Parameters,
        window: Window | None,
        notify: Callable[[str], None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Nothing is imported or asked here.

        Args:
            name: as litellm spells it.
            parameters: the options as this server takes them.
            window: what is known of the window; None: what the registry knows.
            notify: told once for every parameter that the server refused and that is no longer sent.
            now: for waiting times that are given as a date.
        """
        self._name = name
        self._parameters = parameters
        self._facts = registry.facts(name)
        self._window = window
        self._notify = notify
        self._now = now
        self.takes_tools: bool | None = None
        """Whether the model's template has a place for tools; None where nobody says."""

    @property
    def name(self) -> str:
        return self._name

    @property
    def window(self) -> Window | None:
        if self._window is not None:
            return self._window
        known = self._facts.window if self._facts else None
        return Window(tokens=known, source="registry") if known else None

    def complete(self, request: Request, on_text: OnText) -> Completion:
        """Send one request and return the whole reply. Parameters that the server refuses by name are taken back.

        Raises:
            ContextOverflowError: the provider refused the request for its size.
            ModelAuthError: the key is missing or refused, or there is no such model.
            ModelError: anything else; `retryable` says whether the same request may succeed later.
        """
        for _ in range(_MOST_CORRECTIONS):
            reply = self._exchange(request, on_text)
            if isinstance(reply, Completion):
                return priced(reply, self._cost(reply.usage))
            notice = self._parameters.learn(reply.fault, unsupported=reply.unsupported)
            if notice is None:
                raise model_error(reply.fault, model=self._name) from reply.cause
            self._notify(f"{self._name}: {notice}")
        raise ModelError(f"{self._name} refused the parameters of {_MOST_CORRECTIONS} requests in a row")

    @abstractmethod
    def close(self) -> None:
        """Close the connections that are kept open between requests."""

    @abstractmethod
    def _exchange(self, request: Request, on_text: OnText) -> Completion | Refusal:
        """Send one request; the usage of its completion is still without a price."""

    def _cut(self) -> ModelError:
        return ModelError(
            f"{self._name} ended its reply without a finish reason; it was dropped", retryable=True
        )

    def _sent_parameters(self, request: Request) -> dict[str, Any]:
        """The parameters beside messages and tools, the bound of the completion as low as the model's own."""
        most = self._facts.max_output if self._facts else None
        bound = min(request.max_tokens, most) if most else request.max_tokens
        return self._parameters.sent(bound, reply_schema=request.reply_schema)

    def _sent_messages(self, request: Request) -> list[dict[str, Any]]:
        return self._parameters.messages(message.wire() for message in request.messages)

    def _cost(self, usage: Usage | None) -> float | None:
        return self._facts.cost_usd(usage) if self._facts and usage else None


CACHE_MARK: Mapping[str, str] = {"type": "ephemeral"}
# Providers that take marks for the prompt cache, and only for this family of models.
_MARKED_PROVIDERS = ("anthropic/", "bedrock/", "vertex_ai/", "openrouter/anthropic/")


def takes_cache_marks(name: str) -> bool:
    """Whether a provider caches the prompt of this model only up to marks in it."""
    return "claude" in name and name.startswith(_MARKED_PROVIDERS)


def marked_tools(tools: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tools with a mark behind the last one."""
    *rest, last = tools
    return [*rest, last | {"cache_control": CACHE_MARK}]
