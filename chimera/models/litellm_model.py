"""The adapter to litellm, and the only module that imports it: inside a function, with its environment set before."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from chimera.core.messages import Usage
from chimera.core.model import Completion, OnText, Request, Window
from chimera.models.adapter import (
    CONNECT_TIMEOUT_S,
    READ_TIMEOUT_S,
    Adapter,
    Refusal,
    marked_tools,
    takes_cache_marks,
)
from chimera.models.faults import fault_of
from chimera.models.parameters import Parameters
from chimera.models.providers import BY_PREFIX
from chimera.models.stream import ReplyParts, usage_of
from chimera.overriding import override

# Read by litellm at import: no fetch of the price map, no catalogue from the network, no stray `.env` file.
_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_OFFLINE_MODE": "true",
    "LITELLM_MODE": "PRODUCTION",
}
_import_lock = threading.Lock()


def preload() -> None:
    """Begin to import litellm in the background: it takes seconds that a run can spend on its preparation."""
    threading.Thread(target=_preload, name="litellm-import", daemon=True).start()


class LiteLLMModel(Adapter):
    """A model behind litellm."""

    def __init__(
        self,
        name: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        options: Mapping[str, Any] | None = None,
        window: Window | None = None,
        notify: Callable[[str], None] = lambda _: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """As every adapter.

        Args:
            name: as litellm spells it.
            api_base: address of the server; None: the provider's own.
            api_key: None: litellm looks for it in the process environment.
            options: passed to the provider (temperature, reasoning_effort, ...).
            window: what is known of the window; an Ollama server is asked to provide exactly that.
            notify: told once for every parameter that the server refused and that is no longer sent.
            now: for waiting times that are given as a date.
        """
        options = dict(options or {})
        if name.startswith(("ollama/", "ollama_chat/")) and window is not None:
            options.setdefault("num_ctx", window.tokens)
        super().__init__(name, parameters=Parameters(options), window=window, notify=notify, now=now)
        self._api_base = api_base
        self._api_key = api_key
        self._client: Any = None
        self._asks_first = True

    @override
    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    @override
    def _exchange(self, request: Request, on_text: OnText) -> Completion | Refusal:
        litellm = _litellm()
        request.meanwhile()  # when its request leaves, nobody tells
        try:
            return self._streamed(litellm, request, on_text)
        except _foreign_errors() as error:
            return Refusal(
                fault=fault_of(error, now=self._now()),
                unsupported=isinstance(error, litellm.UnsupportedParamsError),
                cause=error,
            )

    def _streamed(self, litellm: Any, request: Request, on_text: OnText) -> Completion:
        parts = ReplyParts(on_text=on_text)
        arguments = self._arguments(request)
        if (client := self._openai_client(litellm)) is not None:
            arguments["client"] = client
        with _no_collections() if self._asks_first else contextlib.nullcontext():
            stream = litellm.completion(**arguments)
        self._asks_first = False
        try:
            for chunk in stream:
                parts.add(chunk.model_dump(exclude_none=True))
        finally:
            stream.close()
        # litellm makes up both a finish reason and a usage where the server sent none.
        if not self._has_ended(stream):
            raise self._cut()
        reported = [chunk.usage for chunk in stream.chunks if getattr(chunk, "usage", None)]
        parts.usage = _as_reported(parts.usage, reported)
        return parts.completion()

    def _has_ended(self, stream: Any) -> bool:
        """Whether the server said that its reply is whole. For litellm a bare `[DONE]` is a reason, too."""
        provider = self._name.partition("/")[0]
        if provider in BY_PREFIX and not provider.startswith("cohere"):
            return bool(stream.received_any_finish_reason)
        return bool(stream.received_finish_reason or stream.intermittent_finish_reason)

    def _arguments(self, request: Request) -> dict[str, Any]:
        arguments: dict[str, Any] = self._sent_parameters(request) | {
            "model": self._name,
            "messages": self._sent_messages(request),
            "stream": True,
            "max_retries": 0,
            "num_retries": 0,
            "timeout": _timeout(),
            "drop_params": self._parameters.drops_all,
        }
        if request.tools:
            arguments["tools"] = list(request.tools)
        if self._api_key is not None:
            arguments["api_key"] = self._api_key
        if self._api_base is not None:
            arguments["api_base"] = self._api_base
        if takes_cache_marks(self._name):
            _mark_for_cache(arguments)
        return arguments

    def _openai_client(self, litellm: Any) -> Any:
        """The client for a provider that litellm talks to by the official one; None: litellm's own ways do."""
        from chimera.models.transport import openai_client

        if self._client is None and self._name.partition("/")[0] in BY_PREFIX:
            _, provider, key, base_url = litellm.get_llm_provider(
                self._name, api_base=self._api_base, api_key=self._api_key
            )
            if provider == "openai":
                key, base_url = self._api_key, self._api_base or BY_PREFIX["openai"].endpoint
            elif provider not in litellm.openai_compatible_providers:
                return None
            if key and base_url:
                self._client = openai_client(base_url=base_url, api_key=key, timeout=_timeout())
        return self._client


def _as_reported(usage: Usage | None, reported: list[Any]) -> Usage | None:
    """The usage that litellm added up, without what it made up: all of it, or the reasoning part."""
    if usage is None or not reported:
        return None
    return replace(usage, reasoning_tokens=usage_of(reported[-1].model_dump()).reasoning_tokens)


def _mark_for_cache(arguments: dict[str, Any]) -> None:
    """Mark where the provider may cache the prompt: after the tools, the system message and the newest message."""
    arguments["cache_control_injection_points"] = [
        {"location": "message", "role": "system"},
        {"location": "message", "index": -1},
    ]
    if tools := arguments.get("tools"):
        arguments["tools"] = marked_tools(tools)


def _foreign_errors() -> tuple[type[Exception], ...]:
    """What litellm lets out: its own errors are the official client's, the rest is of the HTTP libraries."""
    import httpx
    import openai

    return (openai.OpenAIError, httpx.HTTPError, httpx.InvalidURL)


def _timeout() -> Any:
    import httpx

    return httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)


def _litellm() -> Any:
    with _import_lock:
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)  # noqa: TID251  # litellm reads nothing but the environment
        with contextlib.nullcontext() if "litellm" in sys.modules else _no_collections():
            import litellm  # noqa: TID251  # this is the module

        litellm.suppress_debug_info = True
        litellm.disable_streaming_logging = True
        for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
            logger = logging.getLogger(name)
            logger.setLevel(logging.CRITICAL)
            logger.propagate = False
        return litellm


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """Import without looking for garbage: litellm makes objects by the million, and that takes a third of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _preload() -> None:
    with contextlib.suppress(ImportError):  # told when a model is needed
        _litellm()
