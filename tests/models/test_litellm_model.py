"""The adapter against a real wire with the real litellm. All in one module: its import costs seconds of CPU."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from chimera.core.messages import ToolCall, Usage, assistant, system, tool_result, user
from chimera.core.model import Completion, Request, Window
from chimera.errors import ContextOverflowError, ModelAuthError, ModelError
from chimera.models.litellm_model import LiteLLMModel, preload
from chimera.models.providers import PROVIDERS
from chimera.models.retry import RetryingModel
from tests.provider import (
    Answer,
    LoopbackProvider,
    Raw,
    Said,
    Script,
    Seen,
    answer_json,
    ask,
    ask_all,
    refuse,
    say,
)

pytestmark = pytest.mark.xdist_group("litellm")
TOOL = {
    "type": "function",
    "function": {"name": "find", "description": "finds", "parameters": {"type": "object", "properties": {}}},
}
HELLO = Request(messages=(system("be brief"), user("hello")), tools=(TOOL,), max_tokens=100)


class Wire:
    """A provider, a model that talks to it, and what was shown and told on the way."""

    def __init__(self, answers: list[Answer] | Script, name: str = "openai/fake", **more: Any) -> None:
        self.provider = LoopbackProvider(answers)
        self.told: list[str] = []
        self.shown: list[str] = []
        base = self.provider.url if name.startswith("openai/") else self.provider.root
        settings: dict[str, Any] = {"api_base": base, "api_key": "sk-test", "notify": self.told.append} | more
        self.model = LiteLLMModel(name, **settings)

    def __enter__(self) -> "Wire":
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


@pytest.fixture(scope="module", autouse=True)
def _preloaded() -> None:
    preload()


def test_text_is_streamed_and_its_usage_reported() -> None:
    with Wire([say("hello there")]) as wire:
        completion = wire.complete()
    assert completion.message == assistant("hello there")
    assert completion.finish_reason == "stop"
    assert "".join(wire.shown) == "hello there"
    assert len(wire.shown) == 2
    assert completion.usage is not None
    assert completion.usage.input_tokens == len(json.dumps(wire.body["messages"])) // 4
    assert completion.usage.output_tokens == 7
    assert (completion.usage.cost_usd, completion.usage.estimated) == (None, False)


def test_the_request_is_exactly_what_was_meant() -> None:
    with Wire([say("x")], options={"temperature": 0.5}) as wire:
        wire.complete()
    assert wire.body == {
        "model": "fake",
        "messages": [message.wire() for message in HELLO.messages],
        "tools": [TOOL],
        "max_tokens": 100,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
    }
    assert wire.provider.seen[0].headers["authorization"] == "Bearer sk-test"


def test_parallel_calls_split_over_chunks_are_put_together() -> None:
    with Wire([ask_all(("find", {"x": 1}), ("find", '{"y": 2'))]) as wire:
        completion = wire.complete()
    assert completion.message.tool_calls == (
        ToolCall(id="call_loop1", name="find", arguments='{"x": 1}'),
        ToolCall(id="call_loop2", name="find", arguments='{"y": 2'),
    )
    assert completion.finish_reason == "tool_calls"


def test_a_history_of_calls_and_results_goes_back_legally() -> None:
    with Wire([ask("find", {"x": 1}), say("done")]) as wire:
        made = wire.complete().message
        history = (*HELLO.messages, made, tool_result(made.tool_calls[0].id, "found"))
        wire.complete(Request(messages=history, tools=(TOOL,), max_tokens=10))
        assert wire.provider.faults == []
        wires = [message.wire() for message in history]
        # litellm leaves out the null content of a message that only calls tools.
        assert wire.body["messages"] == [{k: v for k, v in w.items() if v is not None} for w in wires]


@pytest.mark.case("E2")
def test_usage_that_the_server_does_not_report_is_not_made_up() -> None:
    with Wire([say("hello", usage=None)]) as wire:
        assert wire.complete().usage is None


@pytest.mark.case("E7")
def test_cached_tokens_are_a_part_of_the_prompt() -> None:
    usage = {
        "prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020,
        "prompt_tokens_details": {"cached_tokens": 700}, "completion_tokens_details": {"reasoning_tokens": 12},
    }  # fmt: skip
    with Wire([say("x", usage=usage)], name="openai/gpt-4.1") as wire:
        found = wire.complete().usage
    assert found is not None
    # gpt-4.1: 2, 8 and 0.50 dollars per million tokens.
    assert found.cost_usd == pytest.approx((300 * 2 + 700 * 0.5 + 20 * 8) / 1e6)
    assert replace(found, cost_usd=None) == Usage(
        input_tokens=1000, output_tokens=20, cached_input_tokens=700, reasoning_tokens=12, cost_usd=None
    )


def test_reasoning_that_the_server_does_not_count_is_not_counted() -> None:
    with Wire([say("x", reasoning="a long thought")]) as wire:
        usage = wire.complete().usage
    assert usage is not None
    assert usage.reasoning_tokens == 0


def test_reasoning_goes_back_with_its_message() -> None:
    with Wire([ask("find", reasoning="I should look"), say("done")]) as wire:
        made = wire.complete().message
        assert made.content == ""
        assert made.extra == {"reasoning_content": "I should look"}
        history = (*HELLO.messages, made, tool_result(made.tool_calls[0].id, "found"))
        wire.complete(Request(messages=history, tools=(TOOL,), max_tokens=10))
        assert wire.body["messages"][2]["reasoning_content"] == "I should look"


@pytest.mark.parametrize(
    ("said", "reason"),
    [("stop", "stop"), ("function_call", "tool_calls"), ("max_tokens", "length"), ("length", "length"),
     ("content_filter", "content_filter"), ("brand_new", "stop")],
)  # fmt: skip
def test_finish_reasons_are_normalised(said: str, reason: str) -> None:
    with Wire([say("x", finish=said)]) as wire:
        assert wire.complete().finish_reason == reason


def test_twenty_streamed_requests_take_one_connection() -> None:
    answers: list[Answer] = [say("a"), ask("find", {"q": 1}), refuse(500, "boom"), say("b")]
    with Wire(lambda _, n: answers[n % 4]) as wire:
        for n in range(20):
            if n % 4 == 2:
                with pytest.raises(ModelError):
                    wire.complete()
            else:
                wire.complete()
        assert len(wire.provider.seen) == 20
        assert wire.provider.connections == 1


COMPATIBLE = [
    p.prefix
    for p in PROVIDERS
    if not p.prefix.startswith(("openai", "ollama", "anthropic", "gemini", "cohere"))
]


@pytest.mark.parametrize("prefix", COMPATIBLE)
def test_a_stream_without_a_finish_reason_is_no_completion_of_any_provider(prefix: str) -> None:
    for answer in (say("half", cut="quiet"), ask("find", {"x": 1}, cut="quiet"), say("half", cut="reset")):
        with LoopbackProvider([answer]) as provider:
            model = LiteLLMModel(f"{prefix}/fake", api_base=provider.url, api_key="sk-test")
            with pytest.raises(ModelError) as caught:
                model.complete(HELLO, lambda _: None)
            model.close()
            assert caught.value.retryable
            assert len(provider.seen) == 1


@pytest.mark.case("E2")
@pytest.mark.parametrize("prefix", ["hosted_vllm", "openrouter", "deepseek", "mistral", "lm_studio"])
def test_a_reply_of_status_200_that_is_none_is_an_error_of_any_provider(prefix: str) -> None:
    bodies: tuple[Any, ...] = (
        {"error": {"message": "upstream broke", "code": 502}},
        {"choices": None},
        {"choices": []},
        [],
    )
    for body in bodies:
        with LoopbackProvider([answer_json(body)]) as provider:
            model = LiteLLMModel(f"{prefix}/fake", api_base=provider.url, api_key="sk-test")
            with pytest.raises(ModelError) as caught:
                model.complete(HELLO, lambda _: None)
            model.close()
            assert caught.value.retryable, (body, caught.value)


@pytest.mark.parametrize("prefix", COMPATIBLE)
def test_every_compatible_provider_keeps_its_connection_and_its_key(prefix: str) -> None:
    with LoopbackProvider([say("a")]) as provider:
        model = LiteLLMModel(f"{prefix}/fake", api_base=provider.url, api_key="sk-test")
        for _ in range(3):
            assert model.complete(HELLO, lambda _: None).message.content == "a"
        model.close()
        assert (len(provider.seen), provider.connections) == (3, 1)
        assert {seen.headers["authorization"] for seen in provider.seen} == {"Bearer sk-test"}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(say("half an answer", cut="reset"), id="connection broken"),
        pytest.param(say("half an answer", cut="quiet"), id="ended in order"),
        pytest.param(ask("find", {"x": 1}, cut="quiet"), id="a whole call"),
        pytest.param(
            say("half", error_event={"error": {"message": "overloaded", "code": 529}}), id="error event"
        ),
    ],
)
def test_a_cut_stream_never_becomes_a_completion(answer: Answer) -> None:
    with Wire([answer]) as wire:
        with pytest.raises(ModelError) as caught:
            wire.complete()
        assert caught.value.retryable
        assert len(wire.provider.seen) == 1


@pytest.mark.case("E2")
@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (answer_json({"error": {"message": "upstream broke", "code": 502}}), "upstream broke"),
        (answer_json({"choices": None}), "no message in the reply"),
        (answer_json({"choices": []}), "no message in the reply"),
        (answer_json({"choices": [{"message": None}]}), "no message in the reply"),
        (answer_json([]), "no message in the reply"),
        (Raw(body=b"<html>sign in</html>", content_type="text/html"), "<html>sign in</html>"),
        (Raw(body=b"data: [DONE]\n\n", content_type="text/event-stream"), "finish.reason"),
    ],
)
def test_a_reply_of_status_200_that_is_none_is_an_error_with_its_text(answer: Answer, part: str) -> None:
    with Wire([answer]) as wire:
        with pytest.raises(ModelError, match=part) as caught:
            wire.complete()
        assert caught.value.retryable
        assert len(wire.provider.seen) == 1


@pytest.mark.case("E2")
def test_an_error_of_status_200_keeps_its_class() -> None:
    said = {"error": {"message": "maximum context length is 4096 tokens", "code": 400}}
    with Wire([answer_json(said)]) as wire, pytest.raises(ContextOverflowError) as caught:
        wire.complete()
    assert caught.value.limit == 4096


def test_a_server_that_does_not_stream_is_understood() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    body = {
        "id": "x", "created": 1, "model": "m", "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "so", "tool_calls": [call]}, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14},
    }  # fmt: skip
    with Wire([answer_json(body)]) as wire:
        completion = wire.complete()
    assert completion.message == assistant("so", ToolCall(id="c1", name="find", arguments="{}"))
    assert completion.usage is not None
    assert completion.usage.input_tokens == 11


@pytest.mark.case("E5")
@pytest.mark.parametrize(
    ("status", "kind"), [(401, ModelAuthError), (403, ModelAuthError), (404, ModelAuthError)]
)
def test_a_refused_key_or_model_is_asked_for_once(status: int, kind: type[ModelError]) -> None:
    with Wire([refuse(status, "no such luck")]) as wire:
        with pytest.raises(kind, match="no such luck"):
            RetryingModel(wire.model, sleep=lambda _: None).complete(HELLO, lambda _: None)
        assert len(wire.provider.seen) == 1


@pytest.mark.case("E1")
@pytest.mark.parametrize(
    ("answer", "limit"),
    [
        (refuse(400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.", code="context_length_exceeded"), 8192),
        (refuse(400, "Your input exceeds the context window of this model", code="context_length_exceeded"), None),
        (refuse(400, "Bad thing", code="context_length_exceeded"), None),
        (refuse(400, "This endpoint's maximum context length is 8000 tokens. However, you requested about 9000 tokens"), 8000),
        (refuse(400, "Input length 40000 exceeds maximum allowed token size 32768"), 32768),
        (answer_json({"error": {"code": 400, "message": "request (4127 tokens) exceeds the available context size (4096 tokens), try increasing it", "type": "exceed_context_size_error"}}, status=400), 4096),
        (refuse(413, "Request too large"), None),
        (refuse(413, "Entity"), None),
    ],
)  # fmt: skip
def test_a_refusal_for_size_is_an_overflow_whatever_litellm_makes_of_it(
    answer: Answer, limit: int | None
) -> None:
    with Wire([answer]) as wire:
        with pytest.raises(ContextOverflowError) as caught:
            wire.complete()
        assert caught.value.limit == limit
        assert len(wire.provider.seen) == 1


@pytest.mark.case("E4")
def test_throttling_is_waited_for_as_long_as_asked_and_asked_again_once() -> None:
    slept: list[float] = []
    with Wire([refuse(429, "slow down", retry_after="7"), refuse(503, "loading"), say("here")]) as wire:
        model = RetryingModel(wire.model, sleep=slept.append, uniform=lambda low, high: high)
        assert model.complete(HELLO, lambda _: None).message.content == "here"
        assert len(wire.provider.seen) == 3
    assert slept == [7, 4]


@pytest.mark.case("E4")
def test_a_wait_given_as_a_date_counts_from_now() -> None:
    answer = refuse(429, "slow", retry_after="Fri, 01 May 2026 12:00:20 GMT")
    noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    with Wire([answer], now=lambda: noon) as wire, pytest.raises(ModelError) as caught:
        wire.complete()
    assert caught.value.retry_after_s == 20


@pytest.mark.case("E1", "E4")
@pytest.mark.parametrize(
    "answer",
    [
        refuse(429, "check your plan", code="insufficient_quota"),
        refuse(402, "pay"),
        refuse(400, "bad schema"),
    ],
)
def test_what_no_retry_can_mend_is_asked_once(answer: Answer) -> None:
    with Wire([answer]) as wire:
        with pytest.raises(ModelError) as caught:
            RetryingModel(wire.model, sleep=lambda _: None).complete(HELLO, lambda _: None)
        assert type(caught.value) is ModelError
        assert not caught.value.retryable
        assert len(wire.provider.seen) == 1


@pytest.mark.case("E4")
@pytest.mark.parametrize("status", [408, 500, 502, 503, 504, 529])
def test_server_faults_are_sent_once_and_left_to_the_retries(status: int) -> None:
    with Wire([refuse(status, "boom")]) as wire:
        with pytest.raises(ModelError, match="boom") as caught:
            wire.complete()
        assert caught.value.retryable
        assert len(wire.provider.seen) == 1


def test_a_server_that_is_not_there_is_told_with_its_cause() -> None:
    model = LiteLLMModel("openai/fake", api_base="http://127.0.0.1:1/v1", api_key="k")
    with pytest.raises(ModelError, match="refused") as caught:
        model.complete(HELLO, lambda _: None)
    assert caught.value.retryable
    model.close()


@pytest.mark.case("E8")
def test_refused_parameters_are_given_up_one_by_one_and_for_good() -> None:
    takes = {"model", "messages", "tools", "stream", "stream_options", "max_completion_tokens"}

    def strict(seen: Seen, _: int) -> Answer:
        refused = sorted(set(seen.body) - takes)
        if refused:
            return refuse(400, f"Unsupported parameter: '{refused[0]}' is not supported with this model.")
        return say("fine")

    options = {"temperature": 0.2, "parallel_tool_calls": False, "tool_choice": "auto"}
    with Wire(strict, options=options) as wire:
        assert wire.complete().message.content == "fine"
        assert len(wire.provider.seen) == 5
        assert wire.complete().message.content == "fine"
        assert len(wire.provider.seen) == 6
        assert wire.body["max_completion_tokens"] == 100
    assert len(wire.told) == 4


@pytest.mark.case("E8")
def test_a_refusal_that_never_ends_is_bounded() -> None:
    with Wire([refuse(400, "max_tokens, max_completion_tokens, stream_options are not supported")]) as wire:
        with pytest.raises(ModelError):
            wire.complete()
        assert len(wire.provider.seen) <= 6


def test_a_parameter_that_litellm_itself_refuses_is_given_up_and_told() -> None:
    with Wire([say("x")], name="openai/gpt-5", options={"temperature": 0.2}) as wire:
        wire.complete()
        assert "temperature" not in wire.body
    assert len(wire.told) == 1
    assert "temperature" in wire.told[0]


def test_the_bound_of_the_completion_is_lowered_to_what_the_model_can_write() -> None:
    with Wire([say("x")], name="openai/gpt-4o") as wire:
        wire.complete(Request(messages=HELLO.messages, max_tokens=100_000))
        assert wire.body["max_tokens"] == 16_384
        wire.complete(Request(messages=HELLO.messages, max_tokens=50))
        assert wire.body["max_tokens"] == 50


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
    with Wire([events(*THOUGHT)], name="anthropic/claude-sonnet-4-5") as wire:
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
    with Wire([events(*THOUGHT[:-2])], name="anthropic/claude-sonnet-4-5") as wire:
        with pytest.raises(ModelError) as caught:
            wire.complete()
        assert caught.value.retryable
        assert len(wire.provider.seen) == 1


def test_other_models_get_no_cache_marks() -> None:
    with Wire([say("x")], name="openai/claude-like") as wire:
        wire.complete()
        assert "cache_control" not in json.dumps(wire.body)


def test_ollama_is_asked_for_the_window_that_is_budgeted() -> None:
    lines = [
        {"model": "q", "created_at": "2026-01-01T00:00:00Z", "message": {"role": "assistant", "content": "hey"}, "done": False},
        {"model": "q", "created_at": "2026-01-01T00:00:00Z", "message": {"role": "assistant", "content": ""}, "done": True,
         "done_reason": "stop", "prompt_eval_count": 12, "eval_count": 3},
    ]  # fmt: skip
    body = "".join(json.dumps(line) + "\n" for line in lines).encode()
    answer = Raw(body=body, content_type="application/x-ndjson")
    window = Window(tokens=12_345, source="server")
    with Wire([answer], name="ollama_chat/q", window=window, api_key=None) as wire:
        completion = wire.complete()
        assert wire.body["options"]["num_ctx"] == 12_345
        assert wire.model.window == window
    assert completion.message.content == "hey"
    assert completion.usage == Usage(input_tokens=12, output_tokens=3, cost_usd=None)


def test_the_import_leaves_no_trace_that_a_project_could_notice() -> None:
    with Wire([Said(text="x")]) as wire:
        wire.complete()
    assert os.environ["LITELLM_MODE"] == "PRODUCTION"  # noqa: TID251  # a stray .env file is not read


@pytest.mark.case("E2")
@pytest.mark.parametrize("body", [{"choices": None}, {"error": {"message": "upstream broke", "code": 502}}])
def test_a_reply_of_status_200_that_is_none_is_asked_for_a_bounded_number_of_times(body: Any) -> None:
    with Wire([answer_json(body)]) as wire:
        with pytest.raises(ModelError, match=r"tried 6 times") as caught:
            RetryingModel(wire.model, sleep=lambda _: None).complete(HELLO, lambda _: None)
        assert len(wire.provider.seen) == 6
    assert "upstream broke" in str(caught.value) or "no message in the reply" in str(caught.value)


@pytest.mark.case("E4")
@pytest.mark.parametrize("status", [529, 503])
def test_three_overloaded_answers_and_then_a_good_one_are_four_requests(status: int) -> None:
    slept: list[float] = []
    answers: list[Answer] = [*[refuse(status, "overloaded")] * 3, say("here")]
    with Wire(answers) as wire:
        model = RetryingModel(wire.model, sleep=slept.append, uniform=lambda low, high: high)
        assert model.complete(HELLO, lambda _: None).message.content == "here"
        assert len(wire.provider.seen) == 4
    assert slept == [2, 4, 8]


@pytest.mark.case("E4")
@pytest.mark.parametrize(
    ("answer", "requests", "waits"),
    [
        pytest.param(refuse(429, "slow down", retry_after="2"), 2, [2], id="two seconds"),
        pytest.param(refuse(429, "slow down", retry_after="11000"), 1, [], id="hours"),
        pytest.param(refuse(429, "You exceeded your current quota", code="insufficient_quota"), 1, [], id="quota"),
        pytest.param(refuse(429, "slow", retry_after="Fri, 01 May 2026 12:00:20 GMT"), 2, [20], id="a date"),
    ],
)  # fmt: skip
def test_a_wait_is_kept_where_it_is_short_and_told_where_it_is_long(
    answer: Answer, requests: int, waits: list[float]
) -> None:
    slept: list[float] = []
    noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    with Wire([answer, say("here")], now=lambda: noon) as wire:
        model = RetryingModel(wire.model, sleep=slept.append, now=lambda: noon)
        if waits:
            assert model.complete(HELLO, lambda _: None).message.content == "here"
        else:
            with pytest.raises(ModelError, match=r"until 2026-|Check the account"):
                model.complete(HELLO, lambda _: None)
        assert len(wire.provider.seen) == requests
    assert slept == waits


@pytest.mark.case("E7")
def test_a_model_without_a_price_costs_an_unknown_sum_and_never_nothing() -> None:
    for name in ("openai/fake", "openai/gpt-4.1-of-somebody"):
        with Wire([say("x")], name=name) as wire:
            usage = wire.complete().usage
        assert usage is not None
        assert usage.cost_usd is None
