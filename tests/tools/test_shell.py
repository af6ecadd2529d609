"""`shell` as the model sees it."""

from __future__ import annotations

import json
import uuid

import pytest

from chimera.core.ledger import CommandRun
from chimera.tools.shell import telling_line
from tests.provider import LoopbackProvider, Raw
from tests.tools.caller import Caller


def test_a_result_begins_with_the_exit_code(caller: Caller) -> None:
    output = caller.call("shell", command="echo a; echo b >&2")
    assert (output.text, output.ok, output.exit_code) == ("exit 0\na\nb", True, 0)
    assert output.digest == "ran `echo a; echo b >&2`: exit 0, 2 lines, 4 bytes"
    assert output.facts == (CommandRun(command="echo a; echo b >&2", exit_code=0),)
    assert caller.call("shell", command="true").text == "exit 0\n(no output)"


def test_a_failure_is_a_failed_call_with_its_most_telling_line(caller: Caller) -> None:
    output = caller.call(
        "shell", command="echo start; echo 'E  AssertionError: 1 != 2'; echo '== 3 passed =='; exit 3"
    )
    assert (output.ok, output.exit_code) == (False, 3)
    assert output.text.startswith("exit 3\n")
    (fact,) = output.facts
    assert isinstance(fact, CommandRun)
    assert fact.error == "E AssertionError: 1 != 2"


@pytest.mark.parametrize(
    ("output", "line"),
    [
        pytest.param("Error: a\nok\n1 failed\nbye\n", "1 failed", id="the last that speaks of an error"),
        pytest.param("one\ntwo\n\n", "two", id="else the last with text"),
        pytest.param("", "", id="nothing"),
        pytest.param(
            "ValueError: " + "x" * 300, "ValueError: " + "x" * 147 + "…", id="at most 160 characters"
        ),
    ],
)
def test_the_telling_line(output: str, line: str) -> None:
    assert telling_line(output) == line


def test_a_timeout_is_said_first_and_keeps_what_was_printed(caller: Caller) -> None:
    nap = f"sleep 300.{uuid.uuid4().int % 10**9}"
    output = caller.call("shell", command=f"echo before; {nap}", timeout_s=0.3)
    assert output.text.splitlines()[0].startswith("killed after 0.3 s")
    assert output.text.endswith("\nbefore")
    assert (output.ok, output.exit_code) == (False, None)
    assert output.facts == (CommandRun(command=f"echo before; {nap}", exit_code=None, error="before"),)


@pytest.mark.case("C1")
def test_processes_left_running_are_mentioned(caller: Caller) -> None:
    nap = f"sleep 300.{uuid.uuid4().int % 10**9}"
    assert "still running in the background" in caller.call("shell", command=f"{nap} & echo hi").text


def test_cut_output_is_said_and_the_whole_is_handed_over(caller: Caller) -> None:
    output = caller.call("shell", command="seq 1 400000")
    assert output.text.endswith("[output cut: 2.7 MB in all]")
    assert output.digest == "ran `seq 1 400000`: exit 0, 2.7 MB"
    assert output.size == 2_688_895
    assert output.spool is not None
    assert "\n200000\n" in output.spool.read_text()


@pytest.mark.case("C8")
def test_progress_and_colours_become_what_a_person_sees(caller: Caller) -> None:
    script = "for i in $(seq 1 2000); do printf '%d%%\\r' $i; done; printf '\\033[32mdone\\033[0m      \\n\\033]0;t\\007'"
    assert caller.call("shell", command=script).text == "exit 0\ndone      "


@pytest.mark.case("C5")
def test_bytes_that_are_no_text_survive_json(caller: Caller) -> None:
    output = caller.call("shell", command="printf '\\xf0\\x28\\x00\\xffabc'")
    assert output.text == "exit 0\n\ufffd(\\x00\ufffdabc"
    json.dumps(output.text).encode("utf-8")
    long = caller.call("shell", command="head -c 65535 /dev/zero | tr '\\0' a; printf '€'")
    assert long.text.endswith("a€")


@pytest.mark.case("C11")
@pytest.mark.parametrize(
    ("command", "reason"),
    [
        pytest.param("touch x\0y", "NUL", id="nul"),
        pytest.param("  \n\t ", "empty", id="only spaces"),
        pytest.param("", "empty", id="empty"),
        pytest.param("touch \ud83d", "surrogate", id="half a character"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused_and_nothing_runs(
    caller: Caller, command: str, reason: str
) -> None:
    assert reason in caller.refused("shell", command=command)
    assert list(caller.root.iterdir()) == []


def test_time_limits_out_of_range_are_refused(caller: Caller) -> None:
    assert "at most 3600" in caller.refused("shell", command="true", timeout_s=4000)
    assert "at least 0.1" in caller.refused("shell", command="true", timeout_s=0)
    assert caller.call("shell", command="true", timeout_s="10").ok


@pytest.mark.case("C2")
def test_prompts_pagers_and_editors_end_by_themselves(caller: Caller) -> None:
    caller.call(
        "shell",
        command="git init -q . && git config user.email a@example.org && git config user.name A && git config "
        "core.pager less && git commit -q --allow-empty -m one && git commit -q --allow-empty -m two",
    )
    log = caller.call("shell", command="git log --format=%s", timeout_s=20)
    assert log.text == "exit 0\ntwo\none"
    for command in ("git commit --allow-empty", "python3 -c 'input()'", "read -r answer"):
        output = caller.call("shell", command=command, timeout_s=20)
        assert output.exit_code not in {0, None}
    assert caller.call("shell", command="git rebase -i HEAD~1", timeout_s=20).exit_code is not None


@pytest.mark.case("C7")
def test_the_workspace_deleted_underneath_is_told(caller: Caller) -> None:
    caller.call("shell", command='rm -rf "$PWD"')
    assert "no longer there" in caller.refused("shell", command="pwd")


def test_the_same_command_gives_the_same_text(caller: Caller) -> None:
    texts = {caller.call("shell", command="env; echo $RANDOM >/dev/null; false").text for _ in range(2)}
    assert len(texts) == 1


@pytest.mark.case("C2")
def test_a_log_of_a_thousand_commits_needs_no_pager(caller: Caller) -> None:
    history = "".join(
        f"commit refs/heads/main\ncommitter A <a@example.org> {n} +0000\ndata 4\nn{n % 1000:03}\n"
        for n in range(1, 1001)
    )
    caller.put("history", history)
    caller.call(
        "shell",
        command="git init -q -b main . && git fast-import --quiet < history && git config core.pager less",
    )
    log = caller.call("shell", command="git log --format=%ct", timeout_s=20)
    assert log.text.splitlines() == ["exit 0", *map(str, range(1000, 0, -1))]


@pytest.mark.case("C2")
def test_a_clone_that_wants_a_password_fails_with_its_reason(caller: Caller) -> None:
    locked = Raw(body=b"no", status=401, headers={"www-authenticate": 'Basic realm="x"'})
    with LoopbackProvider([], pages={"/x.git/info/refs?service=git-upload-pack": locked}) as server:
        output = caller.call("shell", command=f"git clone {server.root}/x.git", timeout_s=20)
    assert output.exit_code not in {0, None}
    assert "terminal prompts disabled" in output.text or "remote-http" in output.text


@pytest.mark.case("C5")
def test_the_next_command_runs_after_output_that_is_no_text(caller: Caller) -> None:
    caller.call("shell", command="head -c 100000 /dev/urandom")
    assert caller.call("shell", command="echo next").text == "exit 0\nnext"


@pytest.mark.case("C8")
def test_ten_thousand_lines_of_progress_are_shown_once(caller: Caller) -> None:
    states = "for i in $(seq 10000); do printf '10%%\\r50%%\\r100%%\\n'; done"
    output = caller.call("shell", command=states)
    assert output.text == "exit 0\n100%\n[the same line 9,999 more times]"
    assert output.digest.endswith(": exit 0, 10,000 lines, 130.0 KB")


def test_only_long_runs_of_one_line_are_folded(caller: Caller) -> None:
    assert caller.call("shell", command="yes | head -3; echo n").text == "exit 0\ny\ny\ny\nn"
    assert (
        caller.call("shell", command="yes | head -30; echo n").text
        == "exit 0\ny\n[the same line 29 more times]\nn"
    )


@pytest.mark.case("C11")
def test_a_command_with_line_ends_of_windows_runs_as_it_is_and_is_told_of_them(caller: Caller) -> None:
    output = caller.call("shell", command="echo a\r\nfalse\r\n")
    assert "false\\r" in output.text or "command not found" in output.text
    assert (
        "[the command has CRLF line ends; bash takes the CR for a part of the words: send LF]" in output.text
    )
    assert "CRLF" not in caller.call("shell", command="printf 'a\\r\\n'").text
