"""What only the adapter to litellm does. All in one process: its import costs seconds of CPU."""

import json
import os
from typing import Any

import pytest

from chimera.core.messages import ToolCall, tool_result
from chimera.core.model import Request
from chimera.errors import ModelError
from chimera.models.litellm_model import LiteLLMModel, preload
from tests.provider import Raw, Said, say
from tests.wire import HELLO, TOOL, Wire

pytestmark = pytest.mark.xdist_group("litellm")


@pytest.fixture(scope="module", autouse=True)
def _preloaded() -> None:
    preload()


def test_a_parameter_that_litellm_itself_refuses_is_given_up_and_told() -> None:
    with Wire(LiteLLMModel, [say("x")], name="openai/gpt-5", options={"temperature": 0.2}) as wire:
        wire.complete()
        assert "temperature" not in wire.body
    assert len(wire.told) == 1
    assert "temperature" in wire.told[0]


def events(*pairs: tuple[str, dict[str, Any]]) -> Raw:
    body = "".join(
        f"event: {name}\ndata: {json.dumps({'type': name, **values})}\n\n" for name, values in pairs
    )
    return Raw(body=body.encode(), content_type="text/event-stream")


THOUGHT: list[tuple[str, dict[str, Any]]] = [
    ("message_start", {"message": {
        "id": "m", "type": "message", "role": "assistant", "model": "c", "content": [], "stop_reason": None,
        "usage": {"input_tokens": 50, "cache_creation_input_tokens": 300, "cache_read_input_tokens": 700, "output_tokens": 1},
    }}),
    ("content_block_start", {"index": 0, "content_block": {"type": "thinking", "thinking": ""}}),
    ("content_block_delta", {"index": 0, "delta": {"type": "thinking_delta", "thinking": "let me "}}),
    ("content_block_delta", {"index": 0, "delta": {"type": "thinking_delta", "thinking": "see"}}),
    ("content_block_delta", {"index": 0, "delta": {"type": "signature_delta", "signature": "sig1"}}),
    ("content_block_stop", {"index": 0}),
    ("content_block_start", {"index": 1, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "find", "input": {}}}),
    ("content_block_delta", {"index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"x"'}}),
    ("content_block_delta", {"index": 1, "delta": {"type": "input_json_delta", "partial_json": ": 1}"}}),
    ("content_block_stop", {"index": 1}),
    ("message_delta", {"delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 20}}),
    ("message_stop", {}),
]  # fmt: skip


@pytest.mark.case("D8")
def test_a_claude_model_gets_cache_marks_and_its_thinking_back() -> None:
    with Wire(LiteLLMModel, [events(*THOUGHT)], name="anthropic/claude-sonnet-4-5") as wire:
        completion = wire.complete()
        made = completion.message
        assert made.tool_calls == (ToolCall(id="toolu_1", name="find", arguments='{"x": 1}'),)
        usage = completion.usage
        assert usage is not None
        assert (usage.input_tokens, usage.cached_input_tokens, usage.cache_write_tokens) == (1050, 700, 300)
        assert usage.cost_usd == pytest.approx((50 * 3 + 700 * 0.3 + 300 * 3.75 + 20 * 15) / 1e6)
        history = (*HELLO.messages, made, tool_result("toolu_1", "found"))
        wire.complete(Request(messages=history, tools=(TOOL,), max_tokens=10))
        mark = {"type": "ephemeral"}
        assert wire.body["system"][0]["cache_control"] == mark
        assert wire.body["tools"][-1]["cache_control"] == mark
        assert wire.body["messages"][-1]["content"][-1]["cache_control"] == mark
        assert wire.body["messages"][1]["content"] == [
            {"type": "thinking", "thinking": "let me see", "signature": "sig1"},
            {"type": "tool_use", "id": "toolu_1", "name": "find", "input": {"x": 1}},
        ]
        assert wire.body["max_tokens"] == 10


def test_a_cut_stream_of_another_provider_is_no_completion_either() -> None:
    with Wire(LiteLLMModel, [events(*THOUGHT[:-2])], name="anthropic/claude-sonnet-4-5") as wire:
        with pytest.raises(ModelError) as caught:
            wire.complete()
        assert caught.value.retryable
        assert len(wire.provider.seen) == 1


def test_the_import_leaves_no_trace_that_a_project_could_notice() -> None:
    with Wire(LiteLLMModel, [Said(text="x")]) as wire:
        wire.complete()
    assert os.environ["LITELLM_MODE"] == "PRODUCTION"  # noqa: TID251  # a stray .env file is not read
