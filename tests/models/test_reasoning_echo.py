"""Whole runs against two strict servers: one wants the model's reasoning back, the other refuses the field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import chimera
from chimera.core.state import RunResult
from tests.provider import Answer, LoopbackProvider, Said, Seen, ask, refuse, say
from tests.wire import ADAPTERS, AdapterType

pytestmark = [pytest.mark.case("D8"), pytest.mark.parametrize("adapter", ADAPTERS)]

KNOWN = {"role", "content", "name", "tool_calls", "tool_call_id"}


class Strict:
    """A server that plays seven turns, and counts what it refuses."""

    def __init__(self, *, reasoning: str, text: str = "", wants_reasoning: bool) -> None:
        self.refused = 0
        self._turn = 0
        self._reasoning, self._text, self._wants = reasoning, text, wants_reasoning

    def __call__(self, seen: Seen, _: int) -> Answer:
        fault = self._missing(seen.messages) if self._wants else self._unknown(seen.messages)
        if fault:
            self.refused += 1
            return refuse(400, fault)
        self._turn += 1
        # The second reply has no reasoning, and neither has the last one with a call.
        reasoning = "" if self._turn in {2, 6} else self._reasoning
        return self._reply(reasoning)

    def _reply(self, reasoning: str) -> Said:
        if self._turn == 7:
            return say(f"{self._text}all done", reasoning=reasoning, usage=None)
        command = f"for i in $(seq 90); do echo line $i of turn {self._turn}; done"
        return ask("shell", {"command": command}, reasoning=reasoning, text=self._text, usage=None)

    def _missing(self, messages: list[dict[str, Any]]) -> str:
        for n, message in enumerate(messages):
            if message.get("tool_calls") and "reasoning_content" not in message:
                return f"Missing `reasoning_content` field in the assistant message at message index {n}"
        return ""

    def _unknown(self, messages: list[dict[str, Any]]) -> str:
        for n, message in enumerate(messages):
            if unknown := sorted(set(message) - KNOWN):
                return f"Extra inputs are not permitted: messages.{n}.{unknown[0]}"
        return ""


def run(adapter: AdapterType, server: Strict, path: Path) -> tuple[RunResult, LoopbackProvider]:
    (path / "work").mkdir()
    with LoopbackProvider(server) as provider:
        model = adapter("openai/fake", api_base=provider.url, api_key="k")
        result = chimera.run(
            "count",
            model=model,
            workspace=path / "work",
            state=path / "state",
            window=5_000,
            mode="yolo",
            sandbox="danger-full-access",
        )
        model.close()
    assert provider.faults == []
    assert result.answer == "all done"
    assert result.context is not None
    assert result.context.compactions >= 1
    return result, provider


def test_a_server_that_wants_reasoning_back_never_misses_it(adapter: AdapterType, tmp_path: Path) -> None:
    server = Strict(reasoning="I count the lines.", wants_reasoning=True)
    _, provider = run(adapter, server, tmp_path)
    assert server.refused == 0
    echoed = [m["reasoning_content"] for m in provider.seen[2].messages if m["role"] == "assistant"]
    assert echoed == ["I count the lines.", ""]


def test_a_server_that_takes_no_unknown_field_gets_none(adapter: AdapterType, tmp_path: Path) -> None:
    server = Strict(reasoning="", text="<think>\nI count.\n</think>\n", wants_reasoning=False)
    _, provider = run(adapter, server, tmp_path)
    assert server.refused == 0
    assert all("<think>" not in seen.prompt for seen in provider.seen)


def test_a_server_that_sends_reasoning_and_takes_none_back_has_to_say_so_once(
    adapter: AdapterType, tmp_path: Path
) -> None:
    server = Strict(reasoning="I count the lines.", wants_reasoning=False)
    run(adapter, server, tmp_path)
    assert server.refused == 1
