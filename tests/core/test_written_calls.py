"""Calls and results that a model only wrote down are told from answers that show such things."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.core.written_calls import written_call

NAMES = ("read_file", "shell")

CALLS = {
    "hermes": '<tool_call>\n{"name": "shell", "arguments": {"command": "touch ran"}}\n</tool_call>',
    "qwen coder": "<tool_call>\n<function=shell>\n<parameter=command>\ntouch ran\n</parameter>\n</function>\n</tool_call>",
    "invoke": '<function_calls>\n<invoke name="shell">\n<parameter name="command">touch ran</parameter>\n</invoke>\n</function_calls>',
    "prefixed invoke": '<minimax:tool_call>\n<invoke name="shell">\n<parameter name="command">ls</parameter>\n</invoke>',
    "bars": '<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>function<\uff5ctool\u2581sep\uff5c>shell\n{"command": "ls"}',
    "section": '<|tool_calls_section_begin|><|tool_call_begin|>functions.shell:0<|tool_call_argument_begin|>{"command": "ls"}',
    "mistral": '[TOOL_CALLS][{"name": "shell", "arguments": {"command": "touch ran"}}]',
    "glm": "<tool_call>shell\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>",
    "llama": '<|python_tag|>{"name": "shell", "parameters": {"command": "ls"}}',
    "function tag": '<function=shell>{"command": "ls"}</function>',
    "harmony": '<|channel|>commentary to=functions.shell <|constrain|>json<|message|>{"command":"ls"}',
    "react": 'Thought: look first\nAction: shell\nAction Input: {"command": "ls"}',
    "bare json": '{"name": "shell", "arguments": {"command": "ls"}}',
    "json list": '[{"type": "function", "function": {"name": "shell", "arguments": "{}"}}]',
    "tag of a tool": "<read_file>\n<path>calc.py</path>\n</read_file>",
}
RESULTS = {
    "hermes": '<tool_response>\n{"exit_code": 0, "output": "3 passed"}\n</tool_response>\nAll tests pass.',
    "results": "<function_results>\n3 passed\n</function_results>\nDone.",
    "mistral": '[TOOL_RESULTS]{"content": "ok"}',
    "bars": "<\uff5ctool\u2581outputs\u2581begin\uff5c>3 passed",
    "react": "Action: shell\nAction Input: ls\nObservation: a.py\nFinal Answer: one file",
    "call and result": CALLS["hermes"] + "\n<tool_response>\nok\n</tool_response>\nDone.",
}
ANSWERS = {
    "plain": "I fixed add() in calc.py; the tests pass.",
    "named in prose": "The tool_call branch of the parser now handles invoke, and <tool_call> is closed.",
    "inline code": 'A call looks like `<tool_call>{"name": "shell"}</tool_call>` there.',
    "html": "<p>The <function>add</function> was wrong.</p>",
    "other json": '{"name": "calc", "arguments": []}',
    "json answer": '{"total": 3}',
    "no tool of ours": '{"name": "add", "arguments": {"a": 1}}',
    "action in prose": "Action: none needed.\nThe file is fine.",
    "an open tag of the same name": "Use <shell> in the config.",
}  # fmt: skip


@pytest.mark.case("D7")
@pytest.mark.parametrize("text", CALLS.values(), ids=CALLS.keys())
def test_a_call_written_as_text_is_no_answer(text: str) -> None:
    assert written_call(text, NAMES) == "call"
    whole = text.startswith(("{", "[{"))  # JSON counts only as the whole reply
    assert written_call(f"Let me look at it first.\n{text}", NAMES) == (None if whole else "call")


@pytest.mark.case("D7")
@pytest.mark.parametrize("text", RESULTS.values(), ids=RESULTS.keys())
def test_a_result_that_the_model_wrote_itself_is_known_as_such(text: str) -> None:
    assert written_call(text, NAMES) == "result"


@pytest.mark.parametrize("text", ANSWERS.values(), ids=ANSWERS.keys())
def test_an_ordinary_answer_is_left_alone(text: str) -> None:
    assert written_call(text, NAMES) is None


@pytest.mark.case("D7")
@pytest.mark.parametrize("text", [*CALLS.values(), *RESULTS.values()])
@pytest.mark.parametrize(
    "fence", ["```\n{}\n```", "```xml\n{}\n```\nThat is the format.", "1. So:\n   ~~~~\n{}\n   ~~~~", "````\n```\n{}\n```\n````", "```\n{}"]
)  # fmt: skip
def test_an_example_in_a_fence_is_left_alone(text: str, fence: str) -> None:
    assert written_call("The model must write:\n" + fence.format(text), NAMES) is None


@pytest.mark.case("D7")
def test_a_call_after_a_closed_fence_counts() -> None:
    assert written_call("```\nexample\n```\n" + CALLS["hermes"], NAMES) == "call"


@given(st.text() | st.lists(st.sampled_from(["```", "\n", "<tool_call>", "{", "`", "x"])).map("".join))
def test_any_text_is_judged(text: str) -> None:
    assert written_call(text, NAMES) in {None, "call", "result"}


@pytest.mark.parametrize(
    "unit", ["<tool_call> ", "Action: x\n", "```\n", "`a", "<shell><x>", "[TOOL_CALLS] "]
)
def test_long_texts_take_linear_time(unit: str) -> None:
    written_call(unit * 50_000, NAMES)
