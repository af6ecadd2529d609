"""A loopback provider with a model that talks to it, for tests that hold for every adapter.

with Wire(DirectModel, [say("hello")]) as wire:
    assert wire.complete().message.content == "hello"
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Self

import pytest

from chimera.core.messages import system, user
from chimera.core.model import Completion, Request
from chimera.models.direct_model import DirectModel
from chimera.models.litellm_model import LiteLLMModel
from chimera.models.ollama_model import OllamaModel
from tests.provider import Answer, LoopbackProvider, Raw, Script

AdapterType = type[DirectModel] | type[OllamaModel] | type[LiteLLMModel]

# The import of litellm costs seconds of CPU: its tests run in one process.
ADAPTERS = [
    pytest.param(DirectModel, id="direct"),
    pytest.param(LiteLLMModel, id="litellm", marks=pytest.mark.xdist_group("litellm")),
]
TOOL = {
    "type": "function",
    "function": {"name": "find", "description": "finds", "parameters": {"type": "object", "properties": {}}},
}
HELLO = Request(messages=(system("be brief"), user("hello")), tools=(TOOL,), max_tokens=100)


class Wire:
    """A provider, a model that talks to it, and what was shown and told on the way."""

    def __init__(
        self,
        adapter: AdapterType,
        answers: Sequence[Answer] | Script,
        name: str = "openai/fake",
        **more: Any,
    ) -> None:
        self.provider = LoopbackProvider(answers)
        self.told: list[str] = []
        self.shown: list[str] = []
        rooted = name.startswith(("anthropic/", "ollama"))
        base = self.provider.root if rooted else self.provider.url
        settings: dict[str, Any] = {"api_base": base, "api_key": "sk-test", "notify": self.told.append} | more
        self.model = adapter(name, **settings)

    def __enter__(self) -> Self:
        self.provider.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.model.close()
        self.provider.__exit__()

    def complete(self, request: Request = HELLO) -> Completion:
        return self.model.complete(request, self.shown.append)

    @property
    def body(self) -> dict[str, Any]:
        return self.provider.seen[-1].body


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """A chunk of a stream with one choice."""
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def stream(*chunks: dict[str, Any], done: bool = True) -> bytes:
    """Chunks as the body of a stream."""
    head = {"id": "x", "created": 1, "model": "m", "object": "chat.completion.chunk"}
    events = "".join(f"data: {json.dumps(head | chunk, ensure_ascii=False)}\n\n" for chunk in chunks)
    return (events + ("data: [DONE]\n\n" if done else "")).encode()


def streamed(*chunks: dict[str, Any], done: bool = True, **more: Any) -> Raw:
    """An answer that streams these chunks."""
    return Raw(body=stream(*chunks, done=done), content_type="text/event-stream", **more)
