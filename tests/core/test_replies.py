"""Whatever a model writes becomes a legal message, and only what it really wrote is run."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.core.messages import ToolCall, assistant
from chimera.core.model import Completion, FinishReason
from chimera.core.replies import broken_calls, read_reply


def completion(text: str = "", *calls: ToolCall, finish: FinishReason = "tool_calls") -> Completion:
    return Completion(message=assistant(text, *calls), finish_reason=finish)


def call(arguments: str, name: str = "shell", call_id: str = "c1") -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


def test_text_without_calls_is_an_answer() -> None:
    reply = read_reply(completion("done", finish="stop"))
    assert (reply.message.content, reply.fault, reply.message.tool_calls) == ("done", "", ())


def test_a_cut_reply_is_no_answer_and_none_of_its_calls_is_kept() -> None:
    reply = read_reply(completion("I will", call('{"command":"rm x"}'), finish="length"))
    assert reply.fault
    assert reply.message.tool_calls == ()
    assert reply.arguments == ()


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_reply_gets_a_placeholder_and_a_fault(text: str) -> None:
    reply = read_reply(completion(text, finish="stop"))
    assert reply.fault
    assert reply.message.content


@pytest.mark.case("D1")
@pytest.mark.parametrize("finish", ["tool_calls", "length", "content_filter"])
def test_text_of_nothing_but_white_space_is_no_text(finish: FinishReason) -> None:
    reply = read_reply(completion(" \n", call("{}"), finish=finish))
    assert reply.message.content.strip() == reply.message.content
    assert reply.message.content or reply.message.tool_calls


@pytest.mark.parametrize("arguments", ['{"path": "a', "[]", "null", '"ls"', "3", "{" * 100_000])
def test_broken_arguments_are_stored_as_an_empty_object_but_told_as_written(arguments: str) -> None:
    reply = read_reply(completion("", call(arguments)))
    assert reply.message.tool_calls[0].arguments == "{}"
    assert reply.arguments == (arguments,)
    assert broken_calls(reply)


def test_one_good_call_in_a_batch_makes_the_reply_usable() -> None:
    assert not broken_calls(read_reply(completion("", call("{}"), call("[]", call_id="c2"))))
    assert not broken_calls(read_reply(completion("", call(""))))


def test_repeated_and_empty_ids_become_unique() -> None:
    reply = read_reply(completion("", call("{}"), call("{}"), call("{}", call_id=""), call("{}", call_id="")))
    assert len({c.id for c in reply.message.tool_calls}) == 4


@pytest.mark.case("D4")
@given(
    st.lists(
        st.tuples(st.text(max_size=80), st.text(max_size=20), st.text(max_size=50)), min_size=1, max_size=8
    )
)
def test_any_reply_becomes_legal(parts: list[tuple[str, str, str]]) -> None:
    reply = read_reply(completion("", *(call(a, name=n, call_id=i) for n, i, a in parts)))
    ids = [c.id for c in reply.message.tool_calls]
    assert len(set(ids)) == len(ids)
    assert all(ids)
    for c in reply.message.tool_calls:
        assert isinstance(json.loads(c.arguments), dict)
        assert c.name
        assert c.name.isascii()
    json.dumps(reply.message.wire(), ensure_ascii=False).encode()


def test_lone_surrogates_do_not_survive() -> None:
    reply = read_reply(completion("a\ud800b", finish="stop"))
    reply.message.content.encode()
