import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.core.messages import ToolCall, Usage
from chimera.models.stream import ReplyParts, usage_of


def parts(*deltas: dict[str, Any], finish: str | None = "stop") -> ReplyParts:
    reply = ReplyParts(on_text=lambda _: None)
    for delta in deltas:
        reply.add({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    if finish:
        reply.add({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return reply


def piece(index: int | None, id: str = "", name: str = "", arguments: str = "") -> dict[str, Any]:  # noqa: A002
    call: dict[str, Any] = {"function": {"name": name or None, "arguments": arguments}}
    if id:
        call["id"] = id
    if index is not None:
        call["index"] = index
    return {"tool_calls": [call]}


def calls_of(reply: ReplyParts) -> tuple[ToolCall, ...]:
    return reply.completion().message.tool_calls


def test_text_is_shown_as_it_comes_and_joined() -> None:
    shown: list[str] = []
    reply = ReplyParts(on_text=shown.append)
    for text in ("he", "", "llo"):
        reply.add({"choices": [{"delta": {"content": text}}]})
    reply.add({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    assert shown == ["he", "llo"]
    assert reply.completion().message.content == "hello"


def test_without_a_finish_reason_there_is_no_completion() -> None:
    with pytest.raises(ValueError, match="cut"):
        parts({"content": "a"}, finish=None).completion()


def test_interleaved_calls_are_told_apart_by_their_index() -> None:
    reply = parts(
        piece(0, "c1", "a"), piece(1, "c2", "b"), piece(0, arguments='{"x"'), piece(1, arguments='{"y"'),
        piece(0, arguments=": 1}"), piece(1, arguments=": 2}"),
    )  # fmt: skip
    assert calls_of(reply) == (
        ToolCall(id="c1", name="a", arguments='{"x": 1}'),
        ToolCall(id="c2", name="b", arguments='{"y": 2}'),
    )


def test_calls_under_one_index_are_told_apart_by_their_ids() -> None:
    reply = parts(piece(0, "c1", "a", "{}"), piece(0, "c2", "b", '{"y"'), piece(0, arguments=": 2}"))
    assert [(made.id, made.arguments) for made in calls_of(reply)] == [("c1", "{}"), ("c2", '{"y": 2}')]


def test_calls_without_index_or_id_get_ids_of_their_own() -> None:
    reply = parts(piece(None, name="a", arguments="{}"), piece(None, name="b", arguments="{}"))
    assert [(made.id, made.name) for made in calls_of(reply)] == [("call_1", "a"), ("call_2", "b")]


@given(st.text(), st.lists(st.integers(1, 5), max_size=8))
def test_arguments_survive_any_split(text: str, sizes: list[int]) -> None:
    pieces, rest = [], text
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    reply = parts(piece(0, "c", "a"), *(piece(0, arguments=p) for p in [*pieces, rest]))
    assert calls_of(reply)[0].arguments == text


def test_thinking_blocks_are_joined_up_to_their_signature() -> None:
    reply = parts(
        {
            "thinking_blocks": [{"type": "thinking", "thinking": "let ", "index": 0}],
            "reasoning_content": "let ",
        },
        {"thinking_blocks": [{"type": "thinking", "thinking": "me", "index": 0}], "reasoning_content": "me"},
        {"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "s1", "index": 0}]},
        {"thinking_blocks": [{"type": "redacted_thinking", "data": "zz", "index": 1}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "again", "index": 2}]},
    )
    assert reply.completion().message.extra == {
        "reasoning_content": "let me",
        "thinking_blocks": [
            {"type": "thinking", "thinking": "let me", "signature": "s1"},
            {"type": "redacted_thinking", "data": "zz"},
            {"type": "thinking", "thinking": "again"},
        ],
    }


@pytest.mark.case("D8")
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>\nhm</think>\n\nThe answer <think>is</think>", "The answer <think>is</think>"),
        ("<thinking>hm</thinking>so", "so"),
        ("<think>hm, and then the", ""),
        ("hm, let me see.\n</think>\n\nThe answer", "The answer"),
        ("The tag </think> ends a thought.", "The tag </think> ends a thought."),
        ("It is:\n```\n</think>\n```\n", "It is:\n```\n</think>\n```\n"),
        ("no thought", "no thought"),
    ],
)
def test_reasoning_left_in_the_text_is_not_the_answer(text: str, answer: str) -> None:
    assert parts({"content": text[:9]}, {"content": text[9:]}).completion().message.content == answer


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("stop", "stop"), ("tool_calls", "tool_calls"), ("function_call", "tool_calls"), ("length", "length"),
        ("max_tokens", "length"), ("MAX_TOKENS", "length"), ("content_filter", "content_filter"),
        ("something new", "stop"),
    ],
)  # fmt: skip
def test_finish_reasons_are_said_in_our_words(name: str, reason: str) -> None:
    assert parts({"content": "a"}, finish=name).completion().finish_reason == reason


def test_a_usage_chunk_without_choices_counts() -> None:
    reply = parts({"content": "a"})
    reply.add({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 3}})
    assert reply.completion().usage == Usage(input_tokens=10, output_tokens=3, cost_usd=None)


@pytest.mark.parametrize(
    ("usage", "whole", "cached", "written"),
    [
        pytest.param({"prompt_tokens": 1000, "prompt_tokens_details": {"cached_tokens": 700}}, 1000, 700, 0, id="inside"),
        pytest.param({"prompt_tokens": 1000, "prompt_cache_hit_tokens": 600}, 1000, 600, 0, id="hit tokens"),
        pytest.param(
            {"prompt_tokens": 50, "cache_read_input_tokens": 700, "cache_creation_input_tokens": 300},
            1050, 700, 300, id="beside",
        ),
        pytest.param({"input_tokens": 50, "cache_read_input_tokens": 700}, 750, 700, 0, id="beside, other names"),
        pytest.param(
            {"prompt_tokens": 1050, "cache_read_input_tokens": 700, "prompt_tokens_details": {"cached_tokens": 700, "cache_creation_tokens": 300}},
            1050, 700, 300, id="both",
        ),
        pytest.param({"prompt_tokens": 5, "prompt_tokens_details": None}, 5, 0, 0, id="null details"),
    ],
)  # fmt: skip
def test_cached_tokens_are_counted_exactly_once(
    usage: dict[str, Any], whole: int, cached: int, written: int
) -> None:
    found = usage_of(usage | {"completion_tokens": 1})
    assert (found.input_tokens, found.cached_input_tokens, found.cache_write_tokens) == (
        whole,
        cached,
        written,
    )


def test_reasoning_is_a_part_of_the_output() -> None:
    found = usage_of(
        {"prompt_tokens": 1, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 4}}
    )
    assert (found.output_tokens, found.reasoning_tokens) == (9, 4)


@pytest.mark.case("D8")
def test_reasoning_keeps_the_name_that_the_server_gave_it() -> None:
    assert parts({"reasoning": "let "}, {"reasoning": "me"}).completion().message.extra == {
        "reasoning": "let me"
    }
    both = parts({"reasoning": "let", "reasoning_content": "let"}, {"reasoning": "", "content": "x"})
    assert both.completion().message.extra == {"reasoning_content": "let"}


@pytest.mark.case("D8")
def test_blocks_of_reasoning_are_joined_by_place_and_kind_and_stand_for_its_text() -> None:
    reply = parts(
        {"reasoning": "let ", "reasoning_details": [{"type": "reasoning.text", "text": "let ", "index": 0, "format": "f"}]},
        {"reasoning": "me", "reasoning_details": [{"type": "reasoning.text", "text": "me", "index": 0}]},
        {"reasoning_details": [{"type": "reasoning.text", "signature": "s", "index": 0, "text": None}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "zz", "index": 0}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "yy", "index": 1}]},
    )  # fmt: skip
    assert reply.completion().message.extra == {
        "reasoning_details": [
            {"type": "reasoning.text", "text": "let me", "index": 0, "format": "f", "signature": "s"},
            {"type": "reasoning.encrypted", "data": "zz", "index": 0},
            {"type": "reasoning.encrypted", "data": "yy", "index": 1},
        ]
    }


def test_text_may_come_in_parts_and_what_is_no_text_is_left_out() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    reply = parts({"content": [thought]}, {"content": [{"type": "text", "text": "so"}, thought]})
    assert reply.completion().message.content == "so"


FIELDS = st.sampled_from(
    ["choices", "delta", "content", "tool_calls", "function", "arguments", "name", "id", "index", "finish_reason",
     "usage", "prompt_tokens", "prompt_tokens_details", "cached_tokens", "reasoning_details", "text", "thinking_blocks",
     "thinking", "signature", "reasoning_content"],
)  # fmt: skip
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=6,
)
CHUNKS = st.fixed_dictionaries(
    {
        "choices": st.lists(
            st.fixed_dictionaries({"delta": st.dictionaries(FIELDS, ANYTHING, max_size=4)}), max_size=2
        )
    },
    optional={"usage": ANYTHING},
)


@pytest.mark.case("E2")
@given(st.lists(CHUNKS | st.dictionaries(FIELDS, ANYTHING, max_size=3), max_size=3))
def test_whatever_a_server_sends_becomes_a_message_that_can_be_sent_back(
    chunks: list[dict[str, Any]],
) -> None:
    reply = ReplyParts(on_text=lambda _: None)
    for chunk in chunks:
        reply.add(chunk)
    reply.add({"choices": [{"finish_reason": "stop"}]})
    message = reply.completion().message
    assert isinstance(message.content, str)
    json.dumps(message.wire(), ensure_ascii=False)


def test_an_index_that_only_comes_later_begins_no_call() -> None:
    reply = parts(piece(None, "a", "f"), piece(0, arguments='{"x":'), piece(0, arguments="1}"))
    assert calls_of(reply) == (ToolCall(id="a", name="f", arguments='{"x":1}'),)


def test_pieces_without_an_index_follow_the_newest_call() -> None:
    reply = parts(
        piece(0, "a", "f"), piece(None, arguments="1"), piece(1, "b", "g"), piece(None, arguments="2")
    )
    assert [(call.name, call.arguments) for call in calls_of(reply)] == [("f", "1"), ("g", "2")]


@pytest.mark.parametrize("count", [10**400, 1e308, float("inf"), float("nan"), -3, "7"])
def test_a_count_that_cannot_be_one_is_none(count: object) -> None:
    assert usage_of({"prompt_tokens": count, "completion_tokens": 3}).input_tokens == 0


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ({"prompt_tokens": 50}, {"completion_tokens": 9}),
        ({"prompt_tokens": 50, "completion_tokens": 9}, {"prompt_tokens": 0, "completion_tokens": 0}),
        ({"prompt_tokens": 50, "completion_tokens": 1}, {"prompt_tokens": 50, "completion_tokens": 9}),
    ],
)
def test_usage_may_come_in_parts_and_nothing_takes_it_back(
    first: dict[str, int], last: dict[str, int]
) -> None:
    reply = parts({"content": "a"}, finish=None)
    reply.add({"choices": [], "usage": first})
    reply.add({"choices": [], "usage": last})
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (50, 9)
