from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from typing_extensions import override

from chimera.cli.approval_prompt import asker
from chimera.cli.terminal import Terminal
from chimera.tools.approval import Denial
from chimera.tools.base import Effect, Tool, ToolOutput

Asked = Callable[..., "tuple[bool | Denial, str]"]


def tool(name: str, effect: Effect) -> Tool:
    def run(**arguments: Any) -> ToolOutput:
        raise AssertionError(arguments)

    return Tool(name=name, description="", parameters={}, effect=effect, run=run)


def conversation(typed: str) -> Asked:
    """One person who types; returns what asks them, with the answer and what they saw."""
    stream = io.StringIO()
    ask = asker(Terminal(stream, {}), io.StringIO(typed))

    def asked(name: str, effect: Effect, **arguments: Any) -> tuple[bool | Denial, str]:
        before = len(stream.getvalue())
        answer = ask(tool(name, effect), arguments)
        return answer, stream.getvalue()[before:]

    return asked


@pytest.mark.parametrize(
    ("typed", "agreed"),
    [
        ("y\n", True),
        ("YES\n", True),
        ("a\n", True),
        ("t\n", True),
        ("n\n", False),
        ("\n", False),
        ("", False),
        ("yep\n", False),
        ("ja\ny\n", True),
        ("\x1b[A\n", False),
    ],
)
def test_only_a_clear_yes_is_a_yes(typed: str, *, agreed: bool) -> None:
    answer, shown = conversation(typed)("shell", "command", command="true")
    assert bool(answer) is agreed
    assert "\x1b" not in shown


def test_a_no_can_say_why() -> None:
    answer, shown = conversation("n\nuse the Makefile\n")("shell", "command", command="true")
    assert answer == Denial("use the Makefile")
    assert not answer
    assert "Why not?" in shown
    assert not conversation("n\n")("shell", "command", command="true")[0]


def test_always_this_command_covers_that_command_and_no_other() -> None:
    asked = conversation("a\n\n")
    assert asked("shell", "command", command="make test", timeout_s=5) == (True, asked_first)
    assert asked("shell", "command", command="make test", timeout_s=90) == (True, "")
    answer, shown = asked("shell", "command", command="make test; rm -rf .")
    assert not answer
    assert "rm -rf" in shown


asked_first = """shell wants to run:
  make test
  timeout_s: 5
  y  yes
  n  no, with a reason
  a  always in this run: this exact command
  t  always in this run: any call of shell
Allow it? [y/N/a/t] """


def test_always_this_tool_covers_its_calls_but_no_file_with_secrets() -> None:
    asked = conversation("t\n")
    _, shown = asked("edit_file", "edit", path="a.py", edits=[])
    assert "  t  always in this run: any call of edit_file\n" in shown
    assert "  a  " not in shown
    assert asked("edit_file", "edit", path="b.py", edits=[]) == (True, "")
    for name, effect, path in (("edit_file", "edit", ".env"), ("write_file", "edit", "a.py")):
        answer, shown = asked(name, effect, path=path)
        assert not answer
        assert path in shown
    assert "any call of edit_file" not in asked("edit_file", "edit", path="x/.env")[1]


def test_a_file_with_secrets_is_allowed_one_by_one() -> None:
    asked = conversation("a\n")
    assert asked("read_file", "read", path=".env", start_line=1)[0]
    assert asked("read_file", "read", path=".env", start_line=9) == (True, "")
    answer, shown = asked("read_file", "read", path="prod.env")
    assert not answer
    assert "any call" not in shown


def test_the_whole_command_is_shown_and_nothing_in_it_acts() -> None:
    command = "echo " + "x" * 500 + "\n\x1b[1A\x1b[2Krm -rf ."
    _, shown = conversation("n\n")("shell", "command", command=command, timeout_s=5)
    assert "x" * 500 in shown
    assert "\\x1b[1A\\x1b[2Krm -rf ." in shown
    assert "timeout_s: 5" in shown
    assert "\x1b" not in shown


def test_arguments_of_a_foreign_tool_are_shown_with_their_names() -> None:
    _, shown = conversation("n\n")("srv__do", "foreign", path="/etc", command="x\ny", content="a")
    assert '  path: "/etc"\n  command: "x\\ny"\n  content: "a"\n' in shown


def test_an_edit_is_shown_as_what_goes_and_what_comes() -> None:
    edits = [{"old": "a\nb", "new": "c", "all": True}]
    _, shown = conversation("n\n")("edit_file", "edit", path="f.py", edits=edits)
    assert "  f.py\n  @ wherever it occurs\n  - a\n  - b\n  + c\n" in shown
    _, shown = conversation("n\n")("write_file", "edit", path="f.py", content="one\n\ntwo\n")
    assert "  f.py\n  + one\n  + \n  + two\n" in shown
    _, shown = conversation("n\n")("write_file", "edit", path="f.py", content="")
    assert '  content: ""\n' in shown


def test_every_space_of_a_command_is_shown_on_a_terminal_too() -> None:
    class Screenful(io.StringIO):
        @override
        def isatty(self) -> bool:
            return True

    stream, command = Screenful(), f"printf '{'a    b ' * 20}'"
    asker(Terminal(stream, {"NO_COLOR": "1"}), io.StringIO())(tool("shell", "command"), {"command": command})
    assert command in stream.getvalue()
