from __future__ import annotations

import io
from typing import Any

import pytest

from chimera.cli.approval_prompt import asker
from chimera.cli.terminal import Terminal
from chimera.tools.base import Effect, Tool, ToolOutput


def tool(name: str, effect: Effect) -> Tool:
    def run(**arguments: Any) -> ToolOutput:
        raise AssertionError(arguments)

    return Tool(name=name, description="", parameters={}, effect=effect, run=run)


def asked(typed: str, name: str, effect: Effect, **arguments: Any) -> tuple[bool, str]:
    stream = io.StringIO()
    ask = asker(Terminal(stream, {}), io.StringIO(typed))
    return ask(tool(name, effect), arguments), stream.getvalue()


@pytest.mark.parametrize(
    ("typed", "agreed"),
    [
        ("y\n", True),
        ("YES\n", True),
        ("n\n", False),
        ("\n", False),
        ("", False),
        ("yep\n", False),
        ("ja\n", False),
    ],
)
def test_only_a_plain_yes_is_a_yes(typed: str, *, agreed: bool) -> None:
    assert asked(typed, "shell", "command", command="true")[0] is agreed


def test_the_whole_command_is_shown_and_nothing_in_it_acts() -> None:
    command = "echo " + "x" * 500 + "\n\x1b[1A\x1b[2Krm -rf ."
    _, shown = asked("n\n", "shell", "command", command=command, timeout_s=5)
    assert "x" * 500 in shown
    assert "\\x1b[1A\\x1b[2Krm -rf ." in shown
    assert "timeout_s: 5" in shown
    assert "\x1b" not in shown


def test_an_edit_is_shown_as_what_goes_and_what_comes() -> None:
    edits = [{"old": "a\nb", "new": "c", "all": True}]
    _, shown = asked("n\n", "edit_file", "edit", path="f.py", edits=edits)
    assert "  f.py\n  - a\n  - b\n  + c\n" in shown
    assert '{"all": true}' in shown
