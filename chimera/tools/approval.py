"""Which calls need a person's yes, by mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chimera.config import Mode
from chimera.errors import ToolError
from chimera.tools.base import Approve, Effect, Tool

Ask = Callable[[Tool, Mapping[str, Any]], bool]
"""Asks a person about one call; True is yes."""

_ASKED: dict[Mode, frozenset[Effect]] = {
    "plan": frozenset(),
    "ask": frozenset({"edit", "command"}),
    "accept-edits": frozenset({"command"}),
    "auto": frozenset(),
    "yolo": frozenset(),
}


def approval(mode: Mode, ask: Ask | None) -> Approve:
    """The check of each call before it runs.

    Args:
        mode: `plan` denies edits and lets commands through: whoever starts them must confine them to reading.
        ask: None where there is nobody to ask; then what would be asked is denied.
    """

    def approve(tool: Tool, arguments: Mapping[str, Any]) -> None:
        if mode == "plan" and tool.effect == "edit":
            raise ToolError(
                f"{tool.name} was denied: plan mode is for reading only. Look around, then answer with a plan."
            )
        if tool.effect not in _ASKED[mode]:
            return
        if ask is None:
            raise ToolError(
                f"{tool.name} was denied: mode {mode} asks a person about it, and there is no terminal to ask on. Go on "
                "without it, or answer with what remains to be done."
            )
        if not ask(tool, arguments):
            raise ToolError(
                f"{tool.name} was denied by the user. Do not try it again; find another way or ask why."
            )

    return approve
