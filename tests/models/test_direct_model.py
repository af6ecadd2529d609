"""What only the direct adapter does, or does better."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chimera.core.messages import Usage, system, tool_result, user
from chimera.core.model import Request
from chimera.errors import ConfigError, ModelAuthError, ModelError
from chimera.models.direct_model import DirectModel
from chimera.models.providers import BY_PREFIX
from tests.provider import LoopbackProvider, Raw, ask, refuse, say
from tests.wire import HELLO, TOOL, Wire, delta, stream, streamed


def test_a_request_loads_no_library_that_takes_long(tmp_path: Path) -> None:
    program = (
        "import sys; from chimera.config import Config; from chimera.models.choose import choose_model\n"
        "from chimera.core.model import Request; from chimera.core.messages import user\n"
        "before = set(sys.modules)\n"
        "model = choose_model(Config(model='openai/fake', api_base=sys.argv[1]), {})\n"
        "print(model.complete(Request(messages=(user('x'),), max_tokens=1), lambda _: None).message.content)\n"
        "heavy = {'litellm', 'openai', 'httpx', 'httpcore', 'aiohttp', 'asyncio', 'pydantic', 'rich', 'tiktoken'}\n"
        "print(sorted(heavy & set(sys.modules)), len(set(sys.modules) - before) < 40)\n"
    )
    with LoopbackProvider([say("hello")]) as provider:
        done = subprocess.run(
            [sys.executable, "-c", program, provider.url], capture_output=True, text=True, check=True
        )
    assert done.stdout.splitlines() == ["hello", "[] True"]


def test_without_a_key_none_is_sent() -> None:
    with Wire(DirectModel, [say("x")], api_key=None) as wire:
        wire.complete()
        assert "authorization" not in wire.provider.seen[0].headers


@pytest.mark.parametrize("key", ["sk-1\nx: y", "sk-ü"])
def test_a_key_that_no_header_can_hold_is_told_without_its_text(key: str) -> None:
    with pytest.raises(ModelAuthError, match="cannot be sent") as caught:
        DirectModel("openai/fake", api_key=key)
    assert key not in str(caught.value)


def test_a_provider_with_a_format_of_its_own_is_refused() -> None:
    for name in ("anthropic/x", "azure/x", "bare"):
        with pytest.raises(ConfigError, match="--adapter litellm"):
            DirectModel(name)


def test_options_are_sent_as_they_are_and_extra_headers_as_headers() -> None:
    options = {
        "reasoning_effort": "low",
        "extra_body": {"top_k": 3},
        "extra_headers": {"X-Title": "a", "Authorization": "Bearer other"},
    }
    with Wire(DirectModel, [say("x")], options=options) as wire:
        wire.complete()
    assert (wire.body["reasoning_effort"], wire.body["top_k"]) == ("low", 3)
    assert "extra_body" not in wire.body
    headers = wire.provider.seen[0].headers
    assert (headers["x-title"], headers["authorization"]) == ("a", "Bearer other")


def test_openai_itself_is_given_the_bound_under_its_newer_name() -> None:
    openai = BY_PREFIX["openai"]
    assert openai.bound("https://api.openai.com/v1") == "max_completion_tokens"
    assert openai.bound("http://127.0.0.1:8080/v1") == "max_tokens"


def test_mistral_is_not_asked_for_usage_which_it_reports_anyway() -> None:
    with Wire(DirectModel, [say("x")], name="mistral/fake") as wire:
        wire.complete()
    assert "stream_options" not in wire.body


def test_usage_inside_the_choice_counts() -> None:
    last: dict[str, Any] = delta("stop", content="x")
    last["choices"][0]["usage"] = {"prompt_tokens": 3, "completion_tokens": 2}
    with Wire(DirectModel, [streamed(last)]) as wire:
        assert wire.complete().usage == Usage(input_tokens=3, output_tokens=2, cost_usd=None)


@pytest.mark.case("D8")
def test_reasoning_goes_back_under_the_name_that_it_came_with() -> None:
    call = {"index": 0, "id": "c1", "function": {"name": "find", "arguments": "{}"}}
    made = streamed(delta(reasoning="hm"), delta("tool_calls", tool_calls=[call]))
    strict = refuse(400, "Extra inputs are not permitted: messages.2.reasoning")
    with Wire(DirectModel, [made, say("x"), strict, say("x")]) as wire:
        message = wire.complete().message
        history = Request(messages=(*HELLO.messages, message, tool_result("c1", "found")), max_tokens=9)
        wire.complete(history)
        assert wire.body["messages"][2]["reasoning"] == "hm"
        wire.complete(history)
        assert "reasoning" not in wire.body["messages"][2]
    assert len(wire.told) == 1


def test_a_break_behind_the_finish_reason_does_no_harm() -> None:
    body = stream(delta("stop", content="whole"), done=False)
    with Wire(DirectModel, [Raw(body=body, content_type="text/event-stream", cut=True), say("next")]) as wire:
        assert wire.complete().message.content == "whole"
        assert wire.complete().message.content == "next"


def test_a_redirection_is_told_and_the_key_goes_nowhere_else() -> None:
    with LoopbackProvider([say("stolen")]) as other:
        answer = Raw(body=b"", status=307, headers={"location": f"{other.url}/chat/completions"})
        with Wire(DirectModel, [answer]) as wire:
            with pytest.raises(ModelError, match=f"it is at {other.url}") as caught:
                wire.complete()
            assert not caught.value.retryable
        assert other.seen == []


def test_a_fault_of_the_display_is_not_taken_for_one_of_the_provider() -> None:
    def closed(_: str) -> None:
        raise BrokenPipeError

    with Wire(DirectModel, [say("x")]) as wire:
        with pytest.raises(BrokenPipeError):
            wire.model.complete(HELLO, closed)
        assert wire.complete().message.content == "x"
        assert wire.provider.connections == 2


def test_whatever_a_user_writes_can_be_sent() -> None:
    history = (system("be brief"), user("a \udcff b"))
    with Wire(DirectModel, [say("fine")]) as wire:
        assert wire.complete(Request(messages=history, max_tokens=9)).message.content == "fine"


def test_a_long_history_is_sent_whole() -> None:
    made = [ask("find", {"x": "é" * 200_000})]
    with Wire(DirectModel, [*made, say("done")]) as wire:
        message = wire.complete().message
        history = (*HELLO.messages, message, tool_result(message.tool_calls[0].id, "r" * 300_000))
        wire.complete(Request(messages=history, tools=(TOOL,), max_tokens=9))
        assert len(wire.body["messages"][3]["content"]) == 300_000
        assert wire.provider.faults == []
