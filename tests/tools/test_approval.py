"""Which calls need a yes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from chimera.config import Mode
from chimera.errors import ToolError
from chimera.tools.approval import Denial, TimedAsk, approval
from chimera.tools.base import Effect, Tool, ToolOutput
from chimera.workspace.paths import Workspace

EFFECTS: tuple[Effect, ...] = get_args(Effect)
ASKED: dict[Mode, set[Effect]] = {
    "plan": set(),
    "ask": {"edit", "command", "foreign", "foreign_read"},
    "accept-edits": {"command", "foreign", "foreign_read"},
    "auto": set(),
    "yolo": set(),
}


def tool(effect: Effect) -> Tool:
    return Tool(
        name=f"a_{effect}",
        description="",
        parameters={},
        effect=effect,
        run=lambda: ToolOutput(text="", digest=""),
    )


@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("effect", EFFECTS)
def test_a_person_is_asked_exactly_where_the_mode_says(mode: Mode, effect: Effect) -> None:
    asked: list[tuple[str, Mapping[str, Any]]] = []

    def yes(tool: Tool, arguments: Mapping[str, Any]) -> bool:
        asked.append((tool.name, arguments))
        return True

    if mode == "plan" and effect in {"edit", "foreign"}:
        with pytest.raises(ToolError, match="plan mode is for reading only"):
            approval(mode, yes)(tool(effect), {})
        return
    approval(mode, yes)(tool(effect), {"x": 1})
    assert asked == ([(f"a_{effect}", {"x": 1})] if effect in ASKED[mode] else [])


def test_how_long_answers_took_is_known() -> None:
    now = [0.0]

    def answer(tool: Tool, arguments: Mapping[str, Any]) -> bool | Denial:
        now[0] += 20
        if arguments:
            raise KeyboardInterrupt
        return Denial("no")

    ask = TimedAsk(answer, clock=lambda: now[0])
    assert ask(tool("command"), {}) == Denial("no")
    now[0] += 5
    with pytest.raises(KeyboardInterrupt):
        ask(tool("command"), {"x": 1})
    assert ask.waited_s == 40


@pytest.mark.parametrize("mode", ["ask", "accept-edits"])
def test_a_no_and_a_missing_terminal_are_told_to_the_model(mode: Mode) -> None:
    with pytest.raises(ToolError, match="denied by the user"):
        approval(mode, lambda _tool, _arguments: False)(tool("command"), {})
    with pytest.raises(ToolError, match="no terminal"):
        approval(mode, None)(tool("command"), {})


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("notes.txt", ".env"),
        ("sub/../notes.txt", ".env"),
        (".env", ".env"),
        ("prod.pem", "prod.pem"),
        ("key.pem", ".env"),
        ("./plain.txt", "plain.txt"),
    ],
)
@pytest.mark.parametrize("name", ["edit_file", "write_file"])
def test_a_person_is_asked_about_the_file_that_a_link_leads_to(
    tmp_path: Path, name: str, path: str, asked: str
) -> None:
    (tmp_path / "sub").mkdir()
    for file in (".env", "plain.txt"):
        (tmp_path / file).write_text("A=1\n")
    for link, target in (("notes.txt", ".env"), ("key.pem", ".env"), ("prod.pem", "plain.txt")):
        (tmp_path / link).symlink_to(target)
    seen: list[Mapping[str, Any]] = []

    def yes(_tool: Tool, arguments: Mapping[str, Any]) -> bool:
        seen.append(arguments)
        return True

    approve = approval("ask", yes, Workspace.open(tmp_path))
    approve(replace(tool("edit"), name=name), {"path": path, "content": "x"})
    assert seen == [{"path": asked, "content": "x"}]


def test_the_reason_of_a_no_is_told_to_the_model() -> None:
    with pytest.raises(ToolError, match="denied by the user, who says: use make"):
        approval("ask", lambda _tool, _arguments: Denial("use make"))(tool("command"), {})
    with pytest.raises(ToolError, match="Do not try it again"):
        approval("ask", lambda _tool, _arguments: Denial(""))(tool("command"), {})
