"""What holds for every adapter, over a real wire. Where they differ, docs/models.md says how."""

import gzip
import json
import zlib
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from chimera.core.messages import ToolCall, Usage, assistant, tool_result
from chimera.core.model import Request
from chimera.errors import ContextOverflowError, ModelAuthError, ModelError
from chimera.models.providers import PROVIDERS
from chimera.models.retry import RetryingModel
from tests.provider import Answer, LoopbackProvider, Raw, Seen, answer_json, ask, ask_all, refuse, say
from tests.wire import ADAPTERS, HELLO, TOOL, AdapterType, Wire, delta, stream, streamed

COMPATIBLE = [p.prefix for p in PROVIDERS if p.endpoint and p.prefix != "openai"]


@pytest.fixture(params=ADAPTERS)
def adapter(request: pytest.FixtureRequest) -> AdapterType:
    chosen: AdapterType = request.param
    return chosen


def test_text_is_streamed_and_its_usage_reported(adapter: AdapterType) -> None:
    with Wire(adapter, [say("hello there")]) as wire:
        completion = wire.complete()
    assert completion.message == assistant("hello there")
    assert completion.finish_reason == "stop"
    assert "".join(wire.shown) == "hello there"
    assert len(wire.shown) == 2
    assert completion.usage is not None
    assert completion.usage.input_tokens == len(json.dumps(wire.body["messages"])) // 4
    assert completion.usage.output_tokens == 7
    assert (completion.usage.cost_usd, completion.usage.estimated) == (None, False)


def test_the_request_is_exactly_what_was_meant(adapter: AdapterType) -> None:
    with Wire(adapter, [say("x")], options={"temperature": 0.5}) as wire:
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


def test_parallel_calls_split_over_chunks_are_put_together(adapter: AdapterType) -> None:
    with Wire(adapter, [ask_all(("find", {"x": 1}), ("find", '{"y": 2'))]) as wire:
        completion = wire.complete()
    assert completion.message.tool_calls == (
        ToolCall(id="call_loop1", name="find", arguments='{"x": 1}'),
        ToolCall(id="call_loop2", name="find", arguments='{"y": 2'),
    )
    assert completion.finish_reason == "tool_calls"


def test_a_history_of_calls_and_results_goes_back_legally(adapter: AdapterType) -> None:
    with Wire(adapter, [ask("find", {"x": 1}), say("done")]) as wire:
        made = wire.complete().message
        history = (*HELLO.messages, made, tool_result(made.tool_calls[0].id, "found"))
        wire.complete(Request(messages=history, tools=(TOOL,), max_tokens=10))
        assert wire.provider.faults == []
        wires = [message.wire() for message in history]
        # litellm leaves out the null content of a message that only calls tools.
        assert wire.body["messages"] == [{k: v for k, v in w.items() if v is not None} for w in wires]


@pytest.mark.case("E2")
def test_usage_that_the_server_does_not_report_is_not_made_up(adapter: AdapterType) -> None:
    with Wire(adapter, [say("hello", usage=None)]) as wire:
        assert wire.complete().usage is None


@pytest.mark.case("E7")
def test_cached_tokens_are_a_part_of_the_prompt(adapter: AdapterType) -> None:
    usage = {
        "prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020,
        "prompt_tokens_details": {"cached_tokens": 700}, "completion_tokens_details": {"reasoning_tokens": 12},
    }  # fmt: skip
    with Wire(adapter, [say("x", usage=usage)], name="openai/gpt-4.1") as wire:
        found = wire.complete().usage
    assert found is not None
    # gpt-4.1: 2, 8 and 0.50 dollars per million tokens.
    assert found.cost_usd == pytest.approx((300 * 2 + 700 * 0.5 + 20 * 8) / 1e6)
    assert replace(found, cost_usd=None) == Usage(
        input_tokens=1000, output_tokens=20, cached_input_tokens=700, reasoning_tokens=12, cost_usd=None
    )


def test_reasoning_that_the_server_does_not_count_is_not_counted(adapter: AdapterType) -> None:
    with Wire(adapter, [say("x", reasoning="a long thought")]) as wire:
        usage = wire.complete().usage
    assert usage is not None
    assert usage.reasoning_tokens == 0


def test_reasoning_goes_back_with_its_message(adapter: AdapterType) -> None:
    with Wire(adapter, [ask("find", reasoning="I should look"), say("done")]) as wire:
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
def test_finish_reasons_are_normalised(adapter: AdapterType, said: str, reason: str) -> None:
    with Wire(adapter, [say("x", finish=said)]) as wire:
        assert wire.complete().finish_reason == reason


def test_twenty_streamed_requests_take_one_connection(adapter: AdapterType) -> None:
    answers: list[Answer] = [say("a"), ask("find", {"q": 1}), refuse(500, "boom"), say("b")]
    with Wire(adapter, lambda _, n: answers[n % 4]) as wire:
        for n in range(20):
            if n % 4 == 2:
                with pytest.raises(ModelError):
                    wire.complete()
            else:
                wire.complete()
        assert len(wire.provider.seen) == 20
        assert wire.provider.connections == 1


@pytest.mark.parametrize("prefix", COMPATIBLE)
def test_a_stream_without_a_finish_reason_is_no_completion_of_any_provider(
    adapter: AdapterType, prefix: str
) -> None:
    for answer in (say("half", cut="quiet"), ask("find", {"x": 1}, cut="quiet"), say("half", cut="reset")):
        with LoopbackProvider([answer]) as provider:
            model = adapter(f"{prefix}/fake", api_base=provider.url, api_key="sk-test")
            with pytest.raises(ModelError) as caught:
                model.complete(HELLO, lambda _: None)
            model.close()
            assert caught.value.retryable
            assert len(provider.seen) == 1


@pytest.mark.case("E2")
@pytest.mark.parametrize("prefix", ["hosted_vllm", "openrouter", "deepseek", "mistral", "lm_studio"])
def test_a_reply_of_status_200_that_is_none_is_an_error_of_any_provider(
    adapter: AdapterType, prefix: str
) -> None:
    bodies: tuple[Any, ...] = (
        {"error": {"message": "upstream broke", "code": 502}},
        {"choices": None},
        {"choices": []},
        [],
    )
    for body in bodies:
        with LoopbackProvider([answer_json(body)]) as provider:
            model = adapter(f"{prefix}/fake", api_base=provider.url, api_key="sk-test")
            with pytest.raises(ModelError) as caught:
                model.complete(HELLO, lambda _: None)
            model.close()
            assert caught.value.retryable, (body, caught.value)


@pytest.mark.parametrize("prefix", COMPATIBLE)
def test_every_compatible_provider_keeps_its_connection_and_its_key(
    adapter: AdapterType, prefix: str
) -> None:
    with LoopbackProvider([say("a")]) as provider:
        model = adapter(f"{prefix}/fake", api_base=provider.url, api_key="sk-test")
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
def test_a_cut_stream_never_becomes_a_completion(adapter: AdapterType, answer: Answer) -> None:
    with Wire(adapter, [answer]) as wire:
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
def test_a_reply_of_status_200_that_is_none_is_an_error_with_its_text(
    adapter: AdapterType, answer: Answer, part: str
) -> None:
    with Wire(adapter, [answer]) as wire:
        with pytest.raises(ModelError, match=part) as caught:
            wire.complete()
        assert caught.value.retryable
        assert len(wire.provider.seen) == 1


@pytest.mark.case("E2")
def test_an_error_of_status_200_keeps_its_class(adapter: AdapterType) -> None:
    said = {"error": {"message": "maximum context length is 4096 tokens", "code": 400}}
    with Wire(adapter, [answer_json(said)]) as wire, pytest.raises(ContextOverflowError) as caught:
        wire.complete()
    assert caught.value.limit == 4096


def test_a_server_that_does_not_stream_is_understood(adapter: AdapterType) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    body = {
        "id": "x", "created": 1, "model": "m", "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "so", "tool_calls": [call]}, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14},
    }  # fmt: skip
    with Wire(adapter, [answer_json(body)]) as wire:
        completion = wire.complete()
    assert completion.message == assistant("so", ToolCall(id="c1", name="find", arguments="{}"))
    assert completion.usage is not None
    assert completion.usage.input_tokens == 11


@pytest.mark.case("E5")
@pytest.mark.parametrize(
    ("status", "kind"), [(401, ModelAuthError), (403, ModelAuthError), (404, ModelAuthError)]
)
def test_a_refused_key_or_model_is_asked_for_once(
    adapter: AdapterType, status: int, kind: type[ModelError]
) -> None:
    with Wire(adapter, [refuse(status, "no such luck")]) as wire:
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
    adapter: AdapterType, answer: Answer, limit: int | None
) -> None:
    with Wire(adapter, [answer]) as wire:
        with pytest.raises(ContextOverflowError) as caught:
            wire.complete()
        assert caught.value.limit == limit
        assert len(wire.provider.seen) == 1


@pytest.mark.case("E4")
def test_throttling_is_waited_for_as_long_as_asked_and_asked_again_once(adapter: AdapterType) -> None:
    slept: list[float] = []
    with Wire(
        adapter, [refuse(429, "slow down", retry_after="7"), refuse(503, "loading"), say("here")]
    ) as wire:
        model = RetryingModel(wire.model, sleep=slept.append, uniform=lambda low, high: high)
        assert model.complete(HELLO, lambda _: None).message.content == "here"
        assert len(wire.provider.seen) == 3
    assert slept == [7, 4]


@pytest.mark.case("E4")
def test_a_wait_given_as_a_date_counts_from_now(adapter: AdapterType) -> None:
    answer = refuse(429, "slow", retry_after="Fri, 01 May 2026 12:00:20 GMT")
    noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    with Wire(adapter, [answer], now=lambda: noon) as wire, pytest.raises(ModelError) as caught:
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
def test_what_no_retry_can_mend_is_asked_once(adapter: AdapterType, answer: Answer) -> None:
    with Wire(adapter, [answer]) as wire:
        with pytest.raises(ModelError) as caught:
            RetryingModel(wire.model, sleep=lambda _: None).complete(HELLO, lambda _: None)
        assert type(caught.value) is ModelError
        assert not caught.value.retryable
        assert len(wire.provider.seen) == 1


@pytest.mark.case("E4")
@pytest.mark.parametrize("status", [408, 500, 502, 503, 504, 529])
def test_server_faults_are_sent_once_and_left_to_the_retries(adapter: AdapterType, status: int) -> None:
    with Wire(adapter, [refuse(status, "boom")]) as wire:
        with pytest.raises(ModelError, match="boom") as caught:
            wire.complete()
        assert caught.value.retryable
        assert len(wire.provider.seen) == 1


def test_a_server_that_is_not_there_is_told_with_its_cause(adapter: AdapterType) -> None:
    model = adapter("openai/fake", api_base="http://127.0.0.1:1/v1", api_key="k")
    with pytest.raises(ModelError, match="refused") as caught:
        model.complete(HELLO, lambda _: None)
    assert caught.value.retryable
    model.close()


@pytest.mark.case("E8")
def test_refused_parameters_are_given_up_one_by_one_and_for_good(adapter: AdapterType) -> None:
    takes = {"model", "messages", "tools", "stream", "stream_options", "max_completion_tokens"}

    def strict(seen: Seen, _: int) -> Answer:
        refused = sorted(set(seen.body) - takes)
        if refused:
            return refuse(400, f"Unsupported parameter: '{refused[0]}' is not supported with this model.")
        return say("fine")

    options = {"temperature": 0.2, "parallel_tool_calls": False, "tool_choice": "auto"}
    with Wire(adapter, strict, options=options) as wire:
        assert wire.complete().message.content == "fine"
        assert len(wire.provider.seen) == 5
        assert wire.complete().message.content == "fine"
        assert len(wire.provider.seen) == 6
        assert wire.body["max_completion_tokens"] == 100
    assert len(wire.told) == 4


@pytest.mark.case("E8")
def test_a_refusal_that_never_ends_is_bounded(adapter: AdapterType) -> None:
    with Wire(
        adapter, [refuse(400, "max_tokens, max_completion_tokens, stream_options are not supported")]
    ) as wire:
        with pytest.raises(ModelError):
            wire.complete()
        assert len(wire.provider.seen) <= 6


def test_the_bound_of_the_completion_is_lowered_to_what_the_model_can_write(adapter: AdapterType) -> None:
    with Wire(adapter, [say("x")], name="openai/gpt-4o") as wire:
        wire.complete(Request(messages=HELLO.messages, max_tokens=100_000))
        assert wire.body["max_tokens"] == 16_384
        wire.complete(Request(messages=HELLO.messages, max_tokens=50))
        assert wire.body["max_tokens"] == 50


def test_other_models_get_no_cache_marks(adapter: AdapterType) -> None:
    with Wire(adapter, [say("x")], name="openai/claude-like") as wire:
        wire.complete()
        assert "cache_control" not in json.dumps(wire.body)


@pytest.mark.case("E2")
@pytest.mark.parametrize("body", [{"choices": None}, {"error": {"message": "upstream broke", "code": 502}}])
def test_a_reply_of_status_200_that_is_none_is_asked_for_a_bounded_number_of_times(
    adapter: AdapterType, body: Any
) -> None:
    with Wire(adapter, [answer_json(body)]) as wire:
        with pytest.raises(ModelError, match=r"tried 6 times") as caught:
            RetryingModel(wire.model, sleep=lambda _: None).complete(HELLO, lambda _: None)
        assert len(wire.provider.seen) == 6
    assert "upstream broke" in str(caught.value) or "no message in the reply" in str(caught.value)


@pytest.mark.case("E4")
@pytest.mark.parametrize("status", [529, 503])
def test_three_overloaded_answers_and_then_a_good_one_are_four_requests(
    adapter: AdapterType, status: int
) -> None:
    slept: list[float] = []
    answers: list[Answer] = [*[refuse(status, "overloaded")] * 3, say("here")]
    with Wire(adapter, answers) as wire:
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
    adapter: AdapterType, answer: Answer, requests: int, waits: list[float]
) -> None:
    slept: list[float] = []
    noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    with Wire(adapter, [answer, say("here")], now=lambda: noon) as wire:
        model = RetryingModel(wire.model, sleep=slept.append, now=lambda: noon)
        if waits:
            assert model.complete(HELLO, lambda _: None).message.content == "here"
        else:
            with pytest.raises(ModelError, match=r"until 2026-|Check the account"):
                model.complete(HELLO, lambda _: None)
        assert len(wire.provider.seen) == requests
    assert slept == waits


@pytest.mark.case("E7")
def test_a_model_without_a_price_costs_an_unknown_sum_and_never_nothing(adapter: AdapterType) -> None:
    for name in ("openai/fake", "openai/gpt-4.1-of-somebody"):
        with Wire(adapter, [say("x")], name=name) as wire:
            usage = wire.complete().usage
        assert usage is not None
        assert usage.cost_usd is None


HALVES = (
    delta(role="assistant", content=None),
    delta(content="gr\u00fc"),
    delta(content="\u00df\u2028dich"),
    delta("stop"),
)


@pytest.mark.parametrize("piece", [1, 7, 100_000])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_stream_is_read_however_it_is_split(adapter: AdapterType, piece: int, end: str) -> None:
    body = (b": waiting\n\n" + stream(*HALVES)).replace(b"\n", end.encode())
    with Wire(
        adapter, [Raw(body=body, content_type="text/event-stream; charset=utf-8", piece=piece)]
    ) as wire:
        assert wire.complete().message.content == "gr\u00fc\u00df\u2028dich"
        assert wire.complete().finish_reason == "stop"
        assert wire.provider.connections == 1


@pytest.mark.parametrize("content_type", ["text/event-stream", "text/plain"])
def test_a_stream_without_its_last_line_is_whole_if_it_has_a_finish_reason(
    adapter: AdapterType, content_type: str
) -> None:
    answer = Raw(body=stream(*HALVES, done=False), content_type=content_type)
    with Wire(adapter, [answer]) as wire:
        assert wire.complete().message.content == "gr\u00fc\u00df\u2028dich"


def test_a_stream_cut_before_its_finish_reason_is_dropped_wherever_that_is(adapter: AdapterType) -> None:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"x": 1}'}}
    body = stream(delta(content="so"), delta(tool_calls=[call]), delta("tool_calls"))
    until = body.index(b'"finish_reason": "tool_calls"')
    answers = [
        Raw(body=body[:at], content_type="text/event-stream", cut=cut)
        for at in range(0, until, until // 6)
        for cut in (True, False)
    ]
    with Wire(adapter, answers) as wire:
        for n in range(len(answers)):
            with pytest.raises(ModelError) as caught:
                wire.complete()
            assert caught.value.retryable, (n, caught.value)
        assert len(wire.provider.seen) == len(answers)


@pytest.mark.case("E2")
@pytest.mark.parametrize(
    ("body", "part"),
    [
        (b'data: {"cho\n\ndata: [DONE]\n\n', "."),
        (b'event: error\ndata: {"error": {"message": "gave up"}}\n\n', "gave up"),
        (b'data: {"error": "gave up"}\n\n', "gave up"),
        (stream(delta(content="a"), {"error": {"message": "gave up", "code": 502}, **delta("error", content="")}), "gave up"),
    ],
)  # fmt: skip
def test_an_error_in_a_stream_is_told_and_may_be_tried_again(
    adapter: AdapterType, body: bytes, part: str
) -> None:
    with Wire(adapter, [Raw(body=body, content_type="text/event-stream")]) as wire:
        with pytest.raises(ModelError, match=part) as caught:
            wire.complete()
        assert caught.value.retryable


@pytest.mark.case("E1")
def test_what_a_router_passes_on_counts_as_said(adapter: AdapterType) -> None:
    raw = {"raw": "maximum context length is 4096 tokens", "provider_name": "x"}
    answer = answer_json(
        {"error": {"code": 400, "message": "Provider returned error", "metadata": raw}}, status=400
    )
    with Wire(adapter, [answer]) as wire, pytest.raises(ContextOverflowError) as caught:
        wire.complete()
    assert caught.value.limit == 4096


def test_arguments_sent_as_an_object_become_text(adapter: AdapterType) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": {"x": 1}}}
    body = {"choices": [{"index": 0, "message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    with Wire(adapter, [answer_json(body)]) as wire:
        assert [json.loads(call.arguments) for call in wire.complete().message.tool_calls] == [{"x": 1}]


@pytest.mark.parametrize(
    ("reported", "usage"),
    [
        pytest.param(
            {"prompt_tokens": 30, "completion_tokens": 15, "total_tokens": 45,
             "completion_tokens_details": {"reasoning_tokens": 13}},
            Usage(input_tokens=30, output_tokens=15, reasoning_tokens=13, cost_usd=None), id="reasoning inside",
        ),
        pytest.param(
            {"prompt_tokens": 30, "completion_tokens": 2, "total_tokens": 45,
             "completion_tokens_details": {"reasoning_tokens": 13}},
            Usage(input_tokens=30, output_tokens=15, reasoning_tokens=13, cost_usd=None), id="reasoning beside",
        ),
        pytest.param(
            {"prompt_tokens": 30, "completion_tokens": 2, "total_tokens": 32, "prompt_cache_hit_tokens": 20, "prompt_cache_miss_tokens": 10},
            Usage(input_tokens=30, output_tokens=2, cached_input_tokens=20, cost_usd=None), id="hits and misses",
        ),
        pytest.param(
            {"prompt_tokens": 30, "completion_tokens": 2, "total_tokens": 32, "prompt_tokens_details": None, "completion_tokens_details": None},
            Usage(input_tokens=30, output_tokens=2, cost_usd=None), id="details null",
        ),
    ],
)  # fmt: skip
def test_usage_is_read_in_every_convention(
    adapter: AdapterType, reported: dict[str, Any], usage: Usage
) -> None:
    # The second is how xAI counts, and litellm knows it of xAI only.
    with Wire(adapter, [say("x", usage=reported)], name="xai/fake") as wire:
        assert wire.complete().usage == usage


def test_usage_in_every_chunk_is_that_of_the_last(adapter: AdapterType) -> None:
    counted = [
        {"usage": {"prompt_tokens": 30, "completion_tokens": n, "total_tokens": 30 + n}} for n in (1, 2)
    ]
    answer = streamed(delta(content="a") | counted[0], delta("stop", content="b") | counted[1])
    with Wire(adapter, [answer]) as wire:
        assert wire.complete().usage == Usage(input_tokens=30, output_tokens=2, cost_usd=None)


def test_halves_of_a_character_pair_are_joined_and_a_lone_one_is_replaced(adapter: AdapterType) -> None:
    body = b"".join(
        b'data: {"choices": [{"index": 0, "delta": {"content": "%s"}}]}\n\n' % text
        for text in (rb"a \ud83d", rb"\ude00 b \ud83d", b" c")
    ) + stream(delta("stop"))
    with Wire(adapter, [Raw(body=body, content_type="text/event-stream")]) as wire:
        assert wire.complete().message.content == "a \U0001f600 b \ufffd c"
        "".join(wire.shown).encode()


def test_marks_for_the_prompt_cache_stand_behind_tools_system_message_and_newest_message(
    adapter: AdapterType,
) -> None:
    with Wire(adapter, [say("x")], name="openrouter/anthropic/claude-sonnet-4.5") as wire:
        wire.complete()
    mark = {"cache_control": {"type": "ephemeral"}}
    assert wire.body["messages"] == [
        {"role": "system", "content": [{"type": "text", "text": "be brief"} | mark]},
        {"role": "user", "content": [{"type": "text", "text": "hello"} | mark]},
    ]
    assert wire.body["tools"] == [TOOL | mark]
    assert wire.body["usage"] == {"include": True}


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("fireworks_ai/glm-5p3", "accounts/fireworks/models/glm-5p3"),
        ("fireworks_ai/accounts/me/models/x", "accounts/me/models/x"),
        ("fireworks_ai/x#y", "x#y"),
        ("openrouter/openrouter/auto", "openrouter/auto"),
        ("groq/openai/gpt-oss-120b", "openai/gpt-oss-120b"),
        ("openai/Qwen/Qwen3", "Qwen/Qwen3"),
    ],
)
def test_a_model_is_asked_for_by_the_name_that_its_provider_knows(
    adapter: AdapterType, name: str, sent: str
) -> None:
    with Wire(adapter, [say("x")], name=name) as wire:
        wire.complete()
    assert wire.body["model"] == sent


@pytest.mark.case("E2")
@pytest.mark.parametrize("reason", ["error", "abort"])
def test_a_reply_that_the_server_gave_up_is_no_answer(adapter: AdapterType, reason: str) -> None:
    with Wire(adapter, [streamed(delta(content="half"), delta(reason))]) as wire:
        with pytest.raises(ModelError, match=reason) as caught:
            wire.complete()
        assert caught.value.retryable


SPOKEN = stream(delta(content="so"), delta("stop"))
WHOLE = json.dumps({
    "id": "x", "created": 1, "model": "m", "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "so"}, "finish_reason": "stop"}],
}).encode()  # fmt: skip


@pytest.mark.parametrize("said", ["text/event-stream", "application/json", "text/plain"])
@pytest.mark.parametrize("body", [SPOKEN, WHOLE, b"\xef\xbb\xbf" + WHOLE, b": wait\n\n" + SPOKEN])
def test_a_reply_is_read_as_what_it_is_whatever_it_is_said_to_be(
    adapter: AdapterType, body: bytes, said: str
) -> None:
    with Wire(adapter, [Raw(body=body, content_type=said, status=201, piece=7)]) as wire:
        assert wire.complete().message.content == "so"


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@pytest.mark.parametrize(("body", "said"), [(SPOKEN, "text/event-stream"), (WHOLE, "application/json")])
def test_a_reply_may_be_compressed_although_nobody_asked_for_that(
    adapter: AdapterType, body: bytes, said: str, encoding: str
) -> None:
    compressed = gzip.compress(body) if encoding == "gzip" else zlib.compress(body)
    answer = Raw(body=compressed, content_type=said, headers={"content-encoding": encoding}, piece=7)
    with Wire(adapter, [answer]) as wire:
        assert wire.complete().message.content == "so"
        assert wire.complete().message.content == "so"
        assert wire.provider.connections == 1


@pytest.mark.case("E2")
@pytest.mark.parametrize("said", ["text/event-stream", "text/plain"])
def test_an_error_in_place_of_a_stream_keeps_its_class(adapter: AdapterType, said: str) -> None:
    body = b'{"error": {"message": "maximum context length is 4096 tokens", "code": 400}}'
    with (
        Wire(adapter, [Raw(body=body, content_type=said)]) as wire,
        pytest.raises(ContextOverflowError) as caught,
    ):
        wire.complete()
    assert caught.value.limit == 4096


@pytest.mark.parametrize("said", ["text/event-stream", "application/json"])
def test_a_reply_that_is_nested_without_end_is_an_error(adapter: AdapterType, said: str) -> None:
    body = b'{"choices": ' + b"[" * 100_000
    if said == "text/event-stream":
        body = b"data: " + body + b"\n\n"
    for status in (200, 400):
        with Wire(adapter, [Raw(body=body, content_type=said, status=status)]) as wire:
            with pytest.raises(ModelError) as caught:
                wire.complete()
            assert caught.value.retryable is (status == 200)


def test_of_several_choices_the_first_is_the_reply(adapter: AdapterType) -> None:
    def choice(index: int, text: str, finish: str | None = None) -> dict[str, Any]:
        return {"choices": [{"index": index, "delta": {"content": text}, "finish_reason": finish}]}

    chunks = (choice(0, "a"), choice(1, "B"), choice(1, "B", "length"), choice(0, "a", "stop"))
    with Wire(adapter, [streamed(*chunks)]) as wire:
        completion = wire.complete()
    assert (completion.message.content, completion.finish_reason) == ("aa", "stop")


@pytest.mark.parametrize("index", [0, "0"])
def test_a_piece_of_a_call_without_an_index_belongs_to_the_call_before(
    adapter: AdapterType, index: int | str
) -> None:
    def piece(text: str, **more: Any) -> dict[str, Any]:
        name = "find" if "id" in more else None
        return delta(tool_calls=[{"function": {"name": name, "arguments": text}, **more}])

    chunks = (piece("", index=index, id="c1"), piece('{"a":'), piece("1}"), delta("tool_calls"))
    with Wire(adapter, [streamed(*chunks)]) as wire:
        assert wire.complete().message.tool_calls == (ToolCall(id="c1", name="find", arguments='{"a":1}'),)
