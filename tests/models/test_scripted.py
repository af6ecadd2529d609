import json

import pytest

from chimera.core.messages import Usage, assistant, system, tool_result, user
from chimera.core.model import Request
from chimera.errors import ContextOverflowError, ModelAuthError, ModelError
from chimera.models.scripted import Reply, ScriptedCall, ScriptedModel, call, calls, error, prompt_text, text

TOOL = {"type": "function", "function": {"name": "find", "description": "finds", "parameters": {}}}


def ask(model: ScriptedModel, *contents: str) -> list[str]:
    shown: list[str] = []
    model.complete(request(*contents), shown.append)
    return shown


def request(*contents: str) -> Request:
    return Request(messages=(system("s"), *map(user, contents)), max_tokens=10)


def test_replies_are_played_in_order_and_shown_as_they_come() -> None:
    model = ScriptedModel([text("one"), text("two")])
    assert ask(model, "a") == ["one"]
    assert ask(model, "a") == ["two"]
    assert len(model.requests) == 2


def test_past_the_end_the_script_fails_and_says_so() -> None:
    model = ScriptedModel([text("only")])
    ask(model, "a")
    with pytest.raises(ModelError, match="no reply left for request 2") as caught:
        ask(model, "a")
    assert not caught.value.retryable


def test_an_entry_whose_condition_does_not_hold_is_skipped_for_good() -> None:
    script = [text("remembered").given(when="PORT=8123"), text("forgotten"), text("end")]
    assert ask(ScriptedModel(script), "the file says PORT=8123") == ["remembered"]
    model = ScriptedModel(script)
    assert ask(model, "nothing here") == ["forgotten"]
    assert ask(model, "PORT=8123") == ["end"]


def test_unless_plays_only_where_a_text_is_absent() -> None:
    script = [text("absent").given(unless="secret"), text("present")]
    assert ask(ScriptedModel(script), "open") == ["absent"]
    assert ask(ScriptedModel(script), "secret") == ["present"]


def test_conditions_see_arguments_of_calls_results_and_schemas() -> None:
    made = ScriptedModel([call("write", content='say "hi"\nPORT=1')]).complete(request("x"), lambda _: None)
    history = Request(
        messages=(user("x"), made.message, tool_result("call_1", "written")), tools=(TOOL,), max_tokens=1
    )
    prompt = prompt_text(history)
    assert 'say "hi"\nPORT=1' in prompt
    assert json.dumps('say "hi"\nPORT=1') in prompt
    assert "written" in prompt
    assert '"description": "finds"' in prompt


def test_broken_arguments_are_passed_on_as_they_are() -> None:
    reply = Reply(calls=(ScriptedCall("shell", '{"command": '),))
    completion = ScriptedModel([reply]).complete(request("x"), lambda _: None)
    assert completion.message.tool_calls[0].arguments == '{"command": '
    assert "{" in prompt_text(
        Request(messages=(assistant("", *completion.message.tool_calls),), max_tokens=1)
    )


def test_ids_are_unique_over_the_run_unless_given() -> None:
    given = Reply(calls=(ScriptedCall("c", {}, "mine"),))
    model = ScriptedModel([calls(call("a", x=1), call("b")), given, call("d")])
    seen = [
        [made.id for made in model.complete(request("x"), lambda _: None).message.tool_calls]
        for _ in range(3)
    ]
    assert seen == [["call_1", "call_2"], ["mine"], ["call_4"]]


def test_several_replies_become_one_with_their_text() -> None:
    completion = ScriptedModel([calls(text("Both: "), call("a"), call("b"))]).complete(
        request("x"), lambda _: None
    )
    assert completion.message.content == "Both: "
    assert [made.name for made in completion.message.tool_calls] == ["a", "b"]
    assert completion.finish_reason == "tool_calls"


def test_finish_reason_usage_and_delay_come_from_the_script() -> None:
    slept: list[float] = []
    usage = Usage(input_tokens=5, output_tokens=2)
    reply = Reply(text="cut", finish_reason="length", usage=usage, delay_s=2.5)
    completion = ScriptedModel([reply], sleep=slept.append).complete(request("x"), lambda _: None)
    assert (completion.finish_reason, completion.usage, slept) == ("length", usage, [2.5])


def test_usage_that_is_not_scripted_is_unknown() -> None:
    assert ScriptedModel([text("a")]).complete(request("x"), lambda _: None).usage is None


def test_scripted_errors_are_those_of_a_provider() -> None:
    model = ScriptedModel(
        [
            error("overflow", limit=4096),
            error("auth"),
            error("throttle", retry_after_s=3),
            error("server", "down"),
        ]
    )
    with pytest.raises(ContextOverflowError) as overflow:
        ask(model, "x")
    assert overflow.value.limit == 4096
    with pytest.raises(ModelAuthError):
        ask(model, "x")
    with pytest.raises(ModelError) as throttle:
        ask(model, "x")
    assert (throttle.value.retryable, throttle.value.retry_after_s) == (True, 3)
    with pytest.raises(ModelError, match="down") as server:
        ask(model, "x")
    assert server.value.retryable


def test_a_function_answers_by_request_and_number() -> None:
    model = ScriptedModel(lambda request, n: text(f"{n}: {request.messages[-1].content}"), window=99)
    assert ask(model, "a") == ["0: a"]
    assert ask(model, "b") == ["1: b"]
    assert model.window is not None
    assert (model.window.tokens, model.name) == (99, "scripted")
