"""Ollama's own format, by both adapters that speak it."""

import json
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import pytest

from chimera.core.messages import Usage, tool_result
from chimera.core.model import Request, Window
from chimera.errors import ModelAuthError, ModelError
from chimera.models.litellm_model import LiteLLMModel
from chimera.models.ollama_model import OllamaModel
from tests.provider import Raw, refuse
from tests.wire import HELLO, TOOL, AdapterType, Wire

WINDOW = Window(tokens=12_345, source="server")


@pytest.fixture(
    params=[
        pytest.param(OllamaModel, id="direct"),
        pytest.param(LiteLLMModel, id="litellm", marks=pytest.mark.xdist_group("litellm")),
    ]
)
def adapter(request: pytest.FixtureRequest) -> AdapterType:
    chosen: AdapterType = request.param
    return chosen


def line(*, done: bool = False, more: dict[str, Any] | None = None, **message: Any) -> bytes:
    said = {"role": "assistant", "content": ""} | message
    value = {"model": "q", "created_at": "2026-01-01T00:00:00Z", "message": said, "done": done} | (more or {})
    return json.dumps(value).encode() + b"\n"


END = line(done=True, more={"done_reason": "stop", "prompt_eval_count": 12, "eval_count": 3})


def lines(*parts: bytes, **more: Any) -> Raw:
    return Raw(body=b"".join(parts), content_type="application/x-ndjson", **more)


def wired(adapter: AdapterType, *answers: Raw, **more: Any) -> Wire:
    settings: dict[str, Any] = {"name": "ollama_chat/q", "window": WINDOW, "api_key": None}
    return Wire(adapter, answers, **(settings | more))


@pytest.mark.parametrize("piece", [0, 1, 50])
def test_it_is_asked_for_the_window_that_is_budgeted(adapter: AdapterType, piece: int) -> None:
    with wired(adapter, lines(line(content="hé"), line(content="y"), END, piece=piece)) as wire:
        completion = wire.complete()
        asked = wire.provider.seen[-1]
        assert asked.path == "/api/chat"
        assert asked.body["options"] == {"num_ctx": 12_345, "num_predict": 100}
        assert asked.body["tools"] == [TOOL]
        assert wire.model.window == WINDOW
    assert completion.message.content == "héy"
    assert completion.usage == Usage(input_tokens=12, output_tokens=3, cost_usd=None)
    assert wire.shown == ["hé", "y"]


def test_calls_and_their_results_go_back_as_it_has_them(adapter: AdapterType) -> None:
    call = {"function": {"name": "find", "arguments": {"x": 1}}}
    other = {"function": {"name": "find", "arguments": {"y": 2}}}
    first = lines(line(thinking="hm "), line(thinking="so", tool_calls=[call]), line(tool_calls=[other]), END)
    with wired(adapter, first, lines(line(content="done"), END)) as wire:
        completion = wire.complete()
        made = completion.message
        assert completion.finish_reason == "tool_calls"
        assert made.extra == {"reasoning_content": "hm so"}
        assert [json.loads(call.arguments) for call in made.tool_calls] == [{"x": 1}, {"y": 2}]
        ids = [call.id for call in made.tool_calls]
        assert len(set(ids)) == 2
        results = [tool_result(i, "found") for i in ids]
        wire.complete(Request(messages=(*HELLO.messages, made, *results), tools=(TOOL,), max_tokens=9))
        asked = wire.body["messages"][2]
        assert asked["thinking"] == "hm so"
        assert [c["function"] for c in asked["tool_calls"]] == [call["function"], other["function"]]
        assert [m["content"] for m in wire.body["messages"][3:]] == ["found", "found"]
        assert [m["tool_call_id"] for m in wire.body["messages"][3:]] == ids


def test_a_question_about_the_model_takes_no_answer_from_the_script(adapter: AdapterType) -> None:
    with wired(adapter, lines(line(content="first"), END), lines(line(content="second"), END)) as wire:
        said = []
        for _ in range(2):
            with closing(HTTPConnection("127.0.0.1", wire.provider.port, timeout=30)) as asker:
                asker.request("POST", "/api/show", b'{"name": "q"}')
                assert asker.getresponse().status == 404
            said.append(wire.complete().message.content)
    assert said == ["first", "second"]
    assert {seen.path for seen in wire.provider.seen} == {"/api/chat"}


def test_a_reply_at_its_bound_is_not_whole(adapter: AdapterType) -> None:
    cut = line(done=True, more={"done_reason": "length", "prompt_eval_count": 1, "eval_count": 1})
    with wired(adapter, lines(line(content="half"), cut)) as wire:
        assert wire.complete().finish_reason == "length"


@pytest.mark.parametrize("cut", [True, False])
def test_a_reply_without_its_last_line_is_dropped(adapter: AdapterType, *, cut: bool) -> None:
    with wired(
        adapter, lines(line(content="half"), cut=cut), lines(line(content="ha"), END[:20], cut=cut)
    ) as wire:
        for _ in range(2):
            with pytest.raises(ModelError) as caught:
                wire.complete()
            assert caught.value.retryable


@pytest.mark.case("E2")
def test_an_error_in_the_middle_is_told(adapter: AdapterType) -> None:
    broken = lines(line(content="half"), b'{"error": "the runner has gone"}\n')
    with wired(adapter, broken) as wire, pytest.raises(ModelError, match="the runner has gone"):
        wire.complete()


@pytest.mark.case("E5")
def test_a_model_that_is_not_pulled_is_told_once(adapter: AdapterType) -> None:
    answer = Raw(body=b'{"error": "model \'q\' not found, try pulling it first"}', status=404)
    with wired(adapter, answer) as wire:
        with pytest.raises(ModelAuthError, match="not found, try pulling it first"):
            wire.complete()
        assert len(wire.provider.seen) == 1


def test_requests_take_one_connection_and_carry_the_key() -> None:
    with wired(OllamaModel, lines(line(content="a"), END), api_key="k") as wire:
        for _ in range(3):
            wire.complete()
        assert wire.provider.connections == 1
        assert wire.provider.seen[2].headers["authorization"] == "Bearer k"


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({"temperature": 0.2, "top_k": 3}, {"options": {"num_ctx": 12_345, "num_predict": 100, "temperature": 0.2, "top_k": 3}}),
        ({"num_ctx": 99, "max_tokens": 5}, {"options": {"num_ctx": 99, "num_predict": 5}}),
        ({"think": False, "keep_alive": "1h"}, {"think": False, "keep_alive": "1h"}),
        ({"reasoning_effort": "low"}, {"think": True}),
        ({"reasoning_effort": "none"}, {"think": False}),
        ({"tool_choice": "auto"}, {"options": {"num_ctx": 12_345, "num_predict": 100}}),
        ({"response_format": {"type": "json_object"}}, {"format": "json"}),
    ],
)  # fmt: skip
def test_options_stand_where_it_looks_for_them(options: dict[str, Any], sent: dict[str, Any]) -> None:
    with wired(OllamaModel, lines(line(content="a"), END), options=options) as wire:
        wire.complete()
    assert wire.body == wire.body | sent


def test_a_reply_is_held_to_a_schema() -> None:
    schema = {"type": "object", "properties": {}}
    with wired(OllamaModel, lines(line(content="{}"), END)) as wire:
        wire.complete(Request(messages=HELLO.messages, max_tokens=9, reply_schema=schema))
    assert wire.body["format"] == schema
    assert "response_format" not in wire.body["options"]


def test_a_parameter_that_it_refuses_is_given_up() -> None:
    refused = refuse(400, '"q" does not support thinking: think is not supported')
    with wired(OllamaModel, refused, lines(line(content="a"), END), options={"think": True}) as wire:
        wire.complete()
        assert "think" not in wire.body
    assert len(wire.told) == 1
