"""Calls that travel as text: what is sent, what a reply means, and the fall from native calls to JSON actions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from chimera import prompts
from chimera.core.agent import Agent
from chimera.core.context_budget import ContextBudget, check_floor
from chimera.core.ledger import Verification
from chimera.core.messages import Message, ToolCall, assistant, system, tool_result, user
from chimera.core.model import Completion, Request, Window
from chimera.core.protocol import JSON, NATIVE, ToolProtocol, action_schema, described, read_action
from chimera.core.recording import Past, RecordedStep
from chimera.core.state import RunResult, StopReason
from chimera.core.tokens import TokenCounter
from chimera.testing import Reply, ScriptedModel, call, calls, error, text
from chimera.tools.base import ToolSet
from tests.core.bench import TASK, Bench, noise

NAMES = ("read_file", "shell")
ARGUMENTS = st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.text()))


def read(text: str, protocol: ToolProtocol = JSON, *, again: bool = False) -> Completion:
    written = Completion(message=assistant(text), finish_reason="stop")
    return protocol.completion(written, step=7, names=NAMES, again=again)


def run(
    bench: Bench,
    script: list[Reply],
    *protocols: ToolProtocol,
    window: int = 32_000,
    past: Past | None = None,
) -> RunResult:
    model = ScriptedModel(script)
    bench.requests = model.requests
    agent = Agent(
        model=model,
        tools=ToolSet(bench.tools),
        workspace=bench.workspace,
        files=bench.files,
        known=bench.known,
        budget=ContextBudget(window=Window(tokens=window, source="argument")),
        emit=bench.events.append,
        protocols=protocols,
    )
    return agent.run(TASK, past)


@given(thought=st.text(), tool=st.text(), arguments=ARGUMENTS)
def test_an_action_is_read_whatever_it_holds(thought: str, tool: str, arguments: Mapping[str, Any]) -> None:
    text = json.dumps({"thought": thought, "tool": tool, "arguments": arguments})
    around = (
        "{}",
        "```json\n{}\n```",
        " {}\r\n\t",
        "Here it is:\n{}",
        "{}<|im_end|>",
        '<think>{"a": 1}?</think>\n{}',
    )
    for written in (form.replace("{}", text) for form in around):
        assert read_action(written) == (thought, tool, arguments)


@pytest.mark.parametrize(
    "text",
    [
        "I am done.",
        "[]",
        '{"thought": "x"}',
        '{"tool": 1, "arguments": {}}',
        '{"tool": "shell", "arguments": "ls"}',
        '{"tool": "shell", "arguments": {}} and then {"tool": "shell", "arguments": {}}',
        '{"tool": "shell", "arguments": {"command": "l',
        "{" * 100_000,
        '{"tool": "finish", "arguments": ["done"]}',
    ],
)
def test_anything_else_is_answered_with_the_right_form(text: str) -> None:
    assert read(text).fault == prompts.NO_ACTION
    assert not read(text).message.tool_calls


def test_an_action_becomes_a_call_and_the_answer_an_answer() -> None:
    made = read('{"thought": "look", "tool": "shell", "arguments": {"command": "ls"}}')
    assert (made.message.content, made.finish_reason, made.fault) == ("look", "tool_calls", "")
    assert made.message.tool_calls == (
        ToolCall(id="action_0007", name="shell", arguments='{"command": "ls"}'),
    )
    answer = read('{"tool": "finish", "arguments": {"answer": "Fixed."}}')
    assert (answer.message.content, answer.message.tool_calls, answer.finish_reason) == ("Fixed.", (), "stop")


@pytest.mark.parametrize(
    "arguments", ["{}", '{"answer": ""}', '{"answer": " "}', '{"answer": ["x"]}', '{"text": "x"}']
)
def test_an_end_without_an_answer_is_asked_for_one(arguments: str) -> None:
    assert read(f'{{"tool": "finish", "arguments": {arguments}}}').fault == prompts.NO_ANSWER


def test_a_reply_that_was_cut_is_left_to_be_told_so() -> None:
    cut = Completion(message=assistant('{"tool": "shell", "argum'), finish_reason="length")
    assert JSON.completion(cut, step=1, names=NAMES, again=False) is cut


def test_calls_travel_each_directly_before_its_result_and_roles_alternate() -> None:
    first, second = (ToolCall(id=i, name="shell", arguments=f'{{"command": "{i}"}}') for i in "ab")
    messages: tuple[Message, ...] = (
        system("s"),
        user("t"),
        assistant("both", first, second, extra={"reasoning_content": "r"}),
        tool_result("a", "ran a"),
        tool_result("b", "ran b"),
        user("go on"),
        assistant("done?"),
        user("no"),
    )
    request = Request(messages=messages, max_tokens=9)
    sent = JSON.request(request, [shell_schema()])
    assert [message.role for message in sent.messages] == ["system", "user", *["assistant", "user"] * 3]
    assert sent.messages[2].extra == {"reasoning_content": "r"}
    assert read_action(sent.messages[2].content) == ("both", "shell", {"command": "a"})
    assert sent.messages[3].content == "Result of shell:\nran a"
    assert sent.messages[5].content == "Result of shell:\nran b\n\ngo on"
    assert read_action(sent.messages[6].content) == ("", "finish", {"answer": "done?"})
    assert sent.tools == ()
    assert NATIVE.request(request, [shell_schema()]) is request


def shell_schema() -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
    return {
        "type": "function",
        "function": {"name": "shell", "description": "Run.", "parameters": parameters},
    }


def test_the_schema_of_a_reply_takes_each_tool_and_the_answer_and_nothing_else(bench: Bench) -> None:
    schemas = [tool.schema() for tool in bench.tools]
    validator = jsonschema.Draft202012Validator(action_schema(schemas))
    good = [
        {"thought": "", "tool": "shell", "arguments": {"command": "ls"}},
        {"thought": "", "tool": "read_file", "arguments": {"path": "a", "start_line": 2}},
        {"thought": "", "tool": "finish", "arguments": {"answer": "done"}},
        {"tool": "finish", "arguments": {"answer": "done"}},
    ]
    bad = [
        {"thought": "", "tool": "shell", "arguments": {"path": "ls"}},
        {"thought": "", "tool": "rm", "arguments": {}},
        {"thought": "", "tool": "finish", "arguments": {}},
        {"tool": "finish", "arguments": {"answer": "done"}, "more": 1},
    ]
    assert [validator.is_valid(action) for action in good + bad] == [True] * 4 + [False] * 4


def test_the_root_of_the_schema_is_an_object_for_servers_that_insist_on_it() -> None:
    assert action_schema([shell_schema()])["type"] == "object"


def offered(request: Request) -> set[str]:
    assert request.reply_schema is not None
    return {action["properties"]["tool"]["const"] for action in request.reply_schema["anyOf"]}


def test_no_edit_is_offered_before_a_look_and_nothing_lately_done_twice(bench: Bench) -> None:
    look, test = call("read_file", path="calc.py"), call("shell", command="true")
    run(
        bench,
        [look, test, look, test, *[call("shell", command=f"echo {n}") for n in range(3)], text("ok")],
        JSON,
    )
    every = {tool.name for tool in bench.tools} | {"finish"}
    left_out = [every - offered(request) for request in bench.requests]
    both = {"read_file", "shell"}
    assert left_out == [{"edit_file"}, set(), set(), {"read_file"}, both, {"shell"}, set(), set()]


def test_a_change_is_looked_at_before_the_next_one_unless_it_failed(bench: Bench) -> None:
    def edit(old: str, new: str) -> Reply:
        return call("edit_file", path="calc.py", edits=[{"old": old, "new": new}])

    look, write = call("read_file", path="calc.py"), call("write_file", path="new.py", content="x = 1\n")
    script = [look, edit("nowhere", "x"), edit("a - b", "a + b"), call("shell", command="true"), write, look]
    run(bench, [*script, text("ok")], JSON)
    every = {tool.name for tool in bench.tools} | {"finish"}
    changes = {"edit_file", "write_file"}
    left_out = [every - offered(request) for request in bench.requests]
    assert left_out == [{"edit_file"}, set(), set(), changes, set(), changes, set()]


@pytest.mark.parametrize(
    ("names", "script"),
    [
        (("shell",), [call("shell", command="true")] * 2),
        (("write_file", "edit_file"), [call("write_file", path="new.py", content="x = 1\n")]),
        (("edit_file",), []),
    ],
    ids=["shell", "changes", "edit"],
)
def test_what_is_left_out_is_never_all_there_is(
    bench: Bench, names: tuple[str, ...], script: list[Reply]
) -> None:
    bench.tools = tuple(tool for tool in bench.tools if tool.name in names)
    run(bench, [*script, text("ok")], JSON)
    assert offered(bench.requests[-1]) == {*names, "finish"}


def test_a_test_that_is_run_behind_each_change_is_not_done_twice(bench: Bench) -> None:
    script = []
    for old, new in pairwise(("a - b", "a + b", "a * b", "a / b")):
        edit = call("edit_file", path="calc.py", edits=[{"old": old, "new": new}])
        script += [edit, call("shell", command="true")]
    run(bench, [call("read_file", path="calc.py"), *script, text("ok")], JSON)
    assert all("shell" in offered(request) for request in bench.requests)


@pytest.mark.parametrize(
    "written", ["I am done.", '{"tool": "finish", "arguments": {}}', '{"tool": "shell", "argum']
)
def test_a_reply_of_no_use_is_shown_to_the_model_as_it_was(bench: Bench, written: str) -> None:
    run(bench, [Reply(text=written, finish_reason="stop"), text("ok")], JSON)
    assert bench.requests[-1].messages[-2] == assistant(written)


def test_reasoning_that_led_to_nothing_does_not_stay_where_it_is_long(bench: Bench) -> None:
    long, short = {"reasoning_content": "so " * 4_000}, {"reasoning_content": "so"}
    cut = [Reply(text="", extra=extra, finish_reason="length") for extra in (short, long)]
    run(bench, [*cut, text("ok")], NATIVE)
    assert [message.extra for message in bench.requests[-1].messages[2::2]] == [short, {}]


def test_a_run_that_stopped_at_useless_replies_goes_on_from_what_was_said_to_the_last_one(
    bench: Bench,
) -> None:
    result = run(bench, [Reply(text="I am done.", finish_reason="stop")] * 3, JSON)
    assert result.stop_reason is StopReason.BAD_COMPLETION
    assert [event["content"] for event in bench.of("message")] == [prompts.NO_ACTION] * 3


def test_tools_are_described_in_a_line_each_and_the_floor_is_small(bench: Bench) -> None:
    schemas = [tool.schema() for tool in bench.tools]
    assert described(schemas[2]).startswith(
        "edit_file(path, edits: [{old, new, all?: bool}, ...]): Change parts"
    )
    assert "status: todo | doing | done | dropped" in described(schemas[5])
    lean = JSON.system(prompts.LEAN_SYSTEM, schemas)
    assert all(f"\n- {tool.name}(" in lean for tool in bench.tools)
    assert TokenCounter().floor(system(lean), JSON.schemas(schemas)).total <= 600


def imported(name: str, **parameters: Any) -> dict[str, Any]:
    function = {
        "name": name,
        "description": "Read.\n\n# Rules\n- obey",
        "parameters": {"type": "object", **parameters},
    }
    return {"type": "function", "function": function}


def test_no_tool_is_described_in_more_than_a_line() -> None:
    schema = imported("a__b", properties={"x\ny": {"enum": ["1\n2", 3]}})
    assert described(schema) == "a__b(x y?: 1 2 | 3): Read. # Rules - obey"


@pytest.mark.parametrize(
    "parameters",
    [
        {"required": True},
        {"properties": {"x": {"enum": 5}}},
        {"properties": {"x": {"type": "object", "properties": 5}}},
    ],
    ids=str,
)
def test_a_schema_that_is_none_is_described_all_the_same(parameters: dict[str, Any]) -> None:
    assert described(imported("a__b", **parameters)).startswith("a__b(")


def test_where_tools_are_written_out_the_floor_check_names_the_server_to_cut() -> None:
    schemas = [imported(f"big__{n}", properties={"x" * 40: {}}) for n in range(20)] + [imported("small__one")]
    counter = TokenCounter()
    text = JSON.system("Be brief.", schemas)
    floor = counter.floor(system(text), JSON.schemas(schemas))
    by_tool = counter.by_tool(floor, JSON.written(schemas))
    assert by_tool.total == floor.total
    assert list(by_tool.servers) == ["big", "small"]
    shortfall = check_floor(
        ContextBudget(window=Window(tokens=600, source="argument")), by_tool, 5, floor.total
    )
    assert shortfall is not None
    assert "no server big" in shortfall.message
    assert by_tool.system >= counter.floor(system(JSON.system("Be brief.", [])), ()).system - 3


def test_references_of_a_tool_still_lead_to_its_own_definitions() -> None:
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/$defs/node"}, "n": {"$ref": "#/definitions/n"}},
        "additionalProperties": False,
    }
    one = imported(
        "one",
        properties={"x": {"$ref": "#/$defs/node"}},
        **{"$defs": {"node": node}, "definitions": {"n": {"type": "integer"}}},
    )
    two = imported(
        "two", properties={"x": {"$ref": "#/$defs/node"}}, **{"$defs": {"node": {"type": "string"}}}
    )
    validator = jsonschema.Draft202012Validator(action_schema([one, two]))

    def fits(tool: str, value: Any) -> bool:
        return validator.is_valid({"thought": "", "tool": tool, "arguments": {"x": value}})

    assert fits("one", {"next": {"next": {"n": 1}}})
    assert not fits("one", {"next": {"next": {"n": "1"}}})
    assert not fits("one", "text")
    assert fits("two", "text")
    assert not fits("two", {})


def test_the_same_script_does_the_same_work_in_either_protocol(bench: Bench) -> None:
    script = [
        call("read_file", path="calc.py"),
        call("edit_file", path="calc.py", edits=[{"old": "a - b", "new": "a + b"}]),
        call("shell", command="python3 -B -c 'import calc; print(calc.add(2, 3))'"),
        text("Fixed add()."),
    ]
    result = run(bench, script, JSON)
    assert (result.stop_reason, result.answer, result.steps) == (StopReason.ANSWERED, "Fixed add().", 4)
    assert "a + b" in (bench.root / "calc.py").read_text()
    assert bench.requests[-1].messages[-1].content.startswith("Result of shell:\n")
    assert all(request.tools == () and request.reply_schema for request in bench.requests)
    (started,) = bench.of("run_started")
    assert (started["protocol"], started["tools"], started["floor"]["tools"]) == ("json", [], {})
    assert [event["message"].get("tool_calls", [{}])[0].get("id") for event in bench.of("completion")][
        :2
    ] == [
        "action_0001",
        "action_0002",
    ]


def test_compaction_works_on_actions_as_on_calls(bench: Bench) -> None:
    result = run(bench, [*(noise(n) for n in range(30)), text("finished")], JSON, window=8_000)
    assert result.answer == "finished"
    assert result.context is not None
    assert result.context.compactions >= 2
    for request in bench.requests:
        roles = [message.role for message in request.messages]
        assert roles == ["system", "user", *["assistant", "user"] * (len(roles) // 2 - 1)]
        assert request.messages[1].content.startswith(TASK)
        assert request.messages[0] == bench.requests[0].messages[0]
    assert result.context.peak_prompt_tokens < result.context.trigger


@pytest.mark.parametrize(
    "first",
    [
        text('<tool_call>\n{"name": "shell", "arguments": {"command": "touch early"}}\n</tool_call>'),
        text('```json\n{"name": "shell", "arguments": {"command": "touch early"}}\n```'),
        error("tools", "this model does not support tools"),
    ],
    ids=["markup", "fence", "refused"],
)
def test_native_calls_that_do_not_work_fall_back_to_actions_aloud(bench: Bench, first: Reply) -> None:
    result = run(bench, [first, call("shell", command="touch late"), text("ok")], NATIVE, JSON)
    assert (result.answer, sorted(path.name for path in bench.root.iterdir())) == ("ok", ["calc.py", "late"])
    assert any("--tool-protocol json" in warning for warning in result.warnings)
    assert [bool(request.tools) for request in bench.requests] == [True, False, False]
    assert "- shell(command" in bench.requests[1].messages[0].content


def test_a_run_that_has_changed_to_actions_goes_on_with_them(bench: Bench) -> None:
    written = Completion(message=assistant(WRITTEN), finish_reason="stop")
    past = Past(steps=(RecordedStep(completion=written, answer=prompts.ACTIONS_FROM_NOW),))
    for protocols, protocol in (((NATIVE, JSON), "json"), ((NATIVE,), "native")):
        bench.events.clear()
        assert run(bench, [text("ok")], *protocols, past=past).answer == "ok"
        assert bench.of("run_started")[0]["protocol"] == protocol


def test_what_was_of_no_use_is_sent_as_it_was_when_a_run_goes_on(bench: Bench) -> None:
    said = Completion(message=assistant("Done."), finish_reason="stop")
    failed = Verification(command="false", passed=False, error="no")
    steps = (
        RecordedStep(completion=said, answer=prompts.NO_ACTION),
        RecordedStep(completion=said, answer="The check failed.", verification=failed),
    )
    run(bench, [text("ok")], JSON, past=Past(steps=steps))
    assert bench.requests[0].messages[2] == assistant("Done.")
    assert read_action(bench.requests[0].messages[4].content) == ("", "finish", {"answer": "Done."})


def test_a_model_that_has_made_native_calls_is_only_reminded(bench: Bench) -> None:
    made = call("shell", command="true")
    result = run(bench, [made, text(f"<tool_call>{WRITTEN}</tool_call>"), made, text("ok")], NATIVE, JSON)
    assert result.answer == "ok"
    assert all(request.tools for request in bench.requests)


def test_without_another_protocol_a_refusal_of_tools_says_what_to_type(bench: Bench) -> None:
    result = run(bench, [error("tools", "no tools here")], NATIVE)
    assert result.stop_reason is StopReason.MODEL_ERROR
    assert "no tools here" in result.message
    assert "--tool-protocol json" in result.message


WRITTEN = '{"name": "shell", "arguments": {"command": "touch ran"}}'


@pytest.mark.parametrize(
    "form", ["{}", "```json\n{}\n```", "<tool_call>\n{}\n</tool_call>", "[TOOL_CALLS][{}]"]
)
def test_an_action_in_another_form_is_taken_after_a_reminder(bench: Bench, form: str) -> None:
    written = Reply(text=form.replace("{}", WRITTEN), finish_reason="stop")
    result = run(bench, [written, written, text("ok")], JSON)
    assert (result.answer, result.steps, (bench.root / "ran").exists()) == ("ok", 3, True)
    assert bench.requests[1].messages[-1].content == prompts.NO_ACTION


@pytest.mark.parametrize(
    "form", ["{}", "```json\n{}\n```", "<tool_call>\n{}\n</tool_call>", "[TOOL_CALLS][{}]"]
)
def test_a_call_that_is_written_again_after_a_reminder_is_taken(bench: Bench, form: str) -> None:
    written = text(form.replace("{}", WRITTEN))
    result = run(bench, [written, written, text("ok")], NATIVE)
    assert (result.answer, result.steps) == ("ok", 3)
    assert (bench.root / "ran").exists()
    assert "You wrote a tool call as text" in bench.requests[1].messages[-1].content
    assert bench.requests[2].messages[-1].role == "tool"


@pytest.mark.parametrize(
    "other", [f"So:\n{WRITTEN}", WRITTEN.replace("shell", "rm"), f"{WRITTEN}\n{WRITTEN}", '{"name": "shell"}']
)
def test_a_written_call_among_other_text_or_of_no_tool_is_never_run(other: str) -> None:
    assert read(other, NATIVE, again=True).message.tool_calls == ()


def test_a_first_written_call_is_not_taken() -> None:
    assert read(WRITTEN, NATIVE, again=False).message.tool_calls == ()
    assert read(WRITTEN, NATIVE, again=True).message.tool_calls[0].name == "shell"


def test_plain_words_in_place_of_an_action_are_bounded(bench: Bench) -> None:
    words = replace(text("I would look at the file."), finish_reason="stop")
    result = run(bench, [words, words, words], JSON)
    assert result.stop_reason is StopReason.BAD_COMPLETION
    assert bench.requests[1].messages[-1].content == prompts.NO_ACTION


def test_parallel_native_turns_stay_legal_after_the_fall_back(bench: Bench) -> None:
    script = [
        calls(call("shell", command="echo one"), call("shell", command="echo two")),
        error("tools"),
        call("shell", command="echo three"),
        text("ok"),
    ]
    result = run(bench, script, NATIVE, JSON)
    assert result.answer == "ok"
    roles = [message.role for message in bench.requests[-1].messages]
    assert roles == ["system", "user", *["assistant", "user"] * 3]
