"""What models get wrong, through the whole loop: every call exactly one result, nothing run that was not asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from chimera.core.model import Request
from chimera.core.state import StopReason
from chimera.interruption import Interrupted
from chimera.models.scripted import ScriptedCall
from chimera.testing import Reply, call, calls, text
from tests.core.bench import Bench
from tests.core.test_written_calls import CALLS, RESULTS

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def raw(name: str, arguments: str) -> Reply:
    return Reply(calls=(ScriptedCall(name, arguments),))


def last_results(request: Request) -> list[str]:
    """The contents of the tool messages at the end of a request."""
    results: list[str] = []
    for message in reversed(request.messages):
        if message.role != "tool":
            break
        results.insert(0, message.content)
    return results


@pytest.mark.case("D1")
@pytest.mark.parametrize(
    "arguments",
    ['{"path":"a.py","content":"x', '{"path":"a.py","content":"' + "x" * 300_000],
    ids=["short", "300 KB"],
)
def test_broken_arguments_run_nothing_and_leave_a_history_that_parses(bench: Bench, arguments: str) -> None:
    result = bench.run([raw("write_file", arguments), text("ok")])
    assert result.answer == "ok"
    assert not (bench.root / "a.py").exists()
    (told,) = last_results(bench.requests[1])
    assert len(told) <= 1_000
    assert arguments[:20] in told
    assert '"required":["path","content"]' in told
    assert "as if cut at the output limit" in told
    assert bench.requests[1].messages[-2].tool_calls[0].arguments == "{}"


@pytest.mark.case("D2")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("null", "must be a JSON object, not null"),
        ("[]", "must be a JSON object, not an array"),
        ('"ls"', "must be a JSON object, not a string"),
        ("3", "must be a JSON object, not a number"),
        ("", "The argument command is required"),
        ('{"command":"touch ran","timeout_s":NaN}', "NaN is not JSON"),
        ('{"command":"touch ran","command":"true"}', "a key appears twice"),
        ('{"command":"touch ran","extra":1}', "Unknown argument 'extra'; the arguments are: command, timeout_s"),
        ('{"command":["touch","ran"]}', "command must be of type string, not an array"),
    ],
)  # fmt: skip
def test_arguments_of_the_wrong_shape_are_one_error_and_their_siblings_run(
    bench: Bench, arguments: str, told: str
) -> None:
    siblings = [call("shell", command=f"echo {n} >> siblings") for n in (1, 2)]
    result = bench.run([calls(siblings[0], raw("shell", arguments), siblings[1]), text("ok")])
    assert result.answer == "ok"
    first, wrong, last = last_results(bench.requests[1])
    assert told in wrong
    assert first.startswith("exit 0")
    assert last.startswith("exit 0")
    assert (bench.root / "siblings").read_text() == "1\n2\n"
    assert not (bench.root / "ran").exists()


@pytest.mark.case("D2")
def test_a_number_written_as_text_and_no_text_at_all_are_understood(bench: Bench) -> None:
    timed = raw("shell", '{"command": "touch ran", "timeout_s": "10"}')
    assert bench.run([calls(timed, raw("search", "")), text("ok")]).answer == "ok"
    assert (bench.root / "ran").exists()
    assert "calc.py" in last_results(bench.requests[1])[1]


@pytest.mark.case("D4")
@pytest.mark.parametrize("name", ["execute_python", "functions.bash", "she\nll", "", "Shell", "x" * 200])
def test_an_unknown_tool_is_told_the_real_names_and_does_not_go_on_for_ever(bench: Bench, name: str) -> None:
    result = bench.run(lambda request, n: raw(name, json.dumps({"command": f"touch ran{n}"})))
    assert result.stop_reason is StopReason.NO_PROGRESS
    assert len(bench.requests) <= 15
    assert (
        "The tools are: read_file, search, edit_file, write_file, shell, update_plan."
        in (last_results(bench.requests[1])[0])
    )
    for request in bench.requests:
        assert all(NAME.fullmatch(c.name) for message in request.messages for c in message.tool_calls)
    assert not list(bench.root.glob("ran*"))


@pytest.mark.case("D4")
def test_a_name_in_other_case_gets_a_hint(bench: Bench) -> None:
    bench.run([call("Read_File", path="calc.py"), text("ok")])
    assert "Did you mean 'read_file'?" in last_results(bench.requests[1])[0]


WRITE = '{"path": "cut.py", "content": "x = 1'


@pytest.mark.case("D5")
@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(Reply(calls=raw("write_file", WRITE).calls, finish_reason="length"), id="cut JSON"),
        pytest.param(
            Reply(calls=raw("write_file", WRITE + '"}').calls, finish_reason="length"), id="JSON that parses"
        ),
        pytest.param(
            Reply(calls=raw("write_file", WRITE).calls, finish_reason="tool_calls"), id="the reason renamed"
        ),
        pytest.param(Reply(text="The bug is in", finish_reason="length"), id="text"),
        pytest.param(
            calls(call("shell", command="touch cut.py"), raw("write_file", WRITE)), id="a whole one first"
        ),
    ],
)
def test_a_reply_cut_by_the_output_limit_is_asked_for_again_twice_at_most(bench: Bench, reply: Reply) -> None:
    result = bench.run([reply] * 9)
    assert result.answer is None
    assert (result.stop_reason, result.exit_code) == (StopReason.BAD_COMPLETION, 9)
    assert len(bench.requests) == 3
    assert re.search("split|write less at a time", bench.requests[1].messages[-1].content)
    assert not (bench.root / "cut.py").exists()


@pytest.mark.case("D7")
@pytest.mark.parametrize(
    "written",
    [f"First I look.\n{CALLS['hermes']}", CALLS["invoke"], f"So: {CALLS['mistral']}", RESULTS["hermes"]],
)
def test_a_call_or_result_written_as_text_is_asked_for_again_and_never_believed(
    bench: Bench, written: str
) -> None:
    result = bench.run([text(written)] * 9)
    assert (result.stop_reason, result.answer) == (StopReason.BAD_COMPLETION, None)
    assert len(bench.requests) == 3
    assert all(message.role != "tool" for request in bench.requests for message in request.messages)
    assert not (bench.root / "ran").exists()
    recovered = bench.run([text(written), call("shell", command="touch ran"), text("done")])
    assert recovered.answer == "done"
    assert (bench.root / "ran").exists()


@pytest.mark.case("D7")
@pytest.mark.parametrize("written", [CALLS["hermes"], CALLS["invoke"], CALLS["mistral"], RESULTS["hermes"]])
def test_a_fenced_example_in_an_answer_is_an_answer_and_nothing_of_it_runs(
    bench: Bench, written: str
) -> None:
    answer = f"The model must write this:\n\n```xml\n{written}\n```\n\nThat is all."
    result = bench.run([text(answer)])
    assert (result.answer, len(bench.requests)) == (answer, 1)
    assert not (bench.root / "ran").exists()


@pytest.mark.case("D10")
def test_parallel_edits_of_one_file_both_land_and_later_calls_see_them(bench: Bench) -> None:
    (bench.root / "f").write_text("A\nB\n")
    batch = calls(
        call("edit_file", path="f", edits=[{"old": "A", "new": "A1"}]),
        call("edit_file", path="f", edits=[{"old": "B", "new": "B1"}]),
        call("write_file", path="g", content="G\n"),
        call("shell", command="cat f g"),
    )
    assert bench.run([batch, text("ok")]).answer == "ok"
    assert (bench.root / "f").read_text() == "A1\nB1\n"
    first, second, third, fourth = last_results(bench.requests[1])
    assert first.startswith("Edited f")
    assert second.startswith("Edited f")
    assert third.startswith("Created g")
    assert fourth == "exit 0\nA1\nB1\nG"
    started = [event["id"] for event in bench.of("tool_started")]
    assert started == [event["id"] for event in bench.of("tool_finished")]
    assert len(set(started)) == 4


def with_fault(bench: Bench, fault: Callable[..., Any]) -> None:
    """`read_file` of this workspace meets a fault that no tool expects."""
    bench.tools = (replace(bench.tools[0], run=fault), *bench.tools[1:])


BATCH = calls(
    call("shell", command="touch first"),
    call("read_file", path="calc.py"),
    call("shell", command="touch third"),
)


@pytest.mark.case("D11")
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (PermissionError(13, "Permission denied", "calc.py"), "permission denied ('calc.py')"),
        (OSError(28, "No space left on device"), "no space left on device"),
        (MemoryError(), "more memory than there is"),
    ],
    ids=["permission", "disk full", "memory"],
)
def test_a_fault_of_the_system_in_one_call_is_its_result_and_the_others_run(
    bench: Bench, fault: Exception, told: str
) -> None:
    def broken(**arguments: Any) -> Any:
        raise fault

    with_fault(bench, broken)
    assert bench.run([BATCH, text("ok")]).answer == "ok"
    results = last_results(bench.requests[1])
    assert [told in result for result in results] == [False, True, False]
    assert (bench.root / "first").exists()
    assert (bench.root / "third").exists()


@pytest.mark.case("D11")
def test_a_tool_that_returns_no_output_is_a_bug_that_surfaces(bench: Bench) -> None:
    with_fault(bench, lambda **arguments: 42)
    with pytest.raises(AttributeError):
        bench.run([BATCH, text("never")])


@pytest.mark.case("D11")
def test_an_interruption_in_the_middle_of_a_batch_leaves_no_half_of_it_in_the_history(bench: Bench) -> None:
    def interrupted(**arguments: Any) -> Any:
        raise Interrupted("SIGINT")

    with_fault(bench, interrupted)
    result = bench.run([BATCH, text("never")])
    assert (result.stop_reason, result.exit_code, len(bench.requests)) == (StopReason.INTERRUPTED, 130, 1)
    assert (bench.root / "first").exists()
    assert not (bench.root / "third").exists()
    assert [event["name"] for event in bench.of("tool_started")] == ["shell", "read_file"]
    assert [event["name"] for event in bench.of("tool_finished")] == ["shell"]
