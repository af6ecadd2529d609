"""Which calls need a person's yes, by mode."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from chimera.config import Mode
from chimera.errors import ToolError
from chimera.tools.base import Approve, Effect, Tool
from chimera.workspace.paths import Workspace
from chimera.workspace.secret_files import is_secret_file


class Denial(Struct, frozen=True):
    """A no with a reason. It is false, like any no."""

    reason: str
    """In the person's words; the model reads it."""

    def __bool__(self) -> bool:
        return False


Ask = Callable[[Tool, Mapping[str, Any]], bool | Denial]
"""Shows a call to a person and returns whether it may run. The path of a file is the one that a link leads to."""


class TimedAsk:
    """Asks, and knows how long answers took: that time is the person's, not the call's.

    Args:
        ask: who is asked.
        clock: in seconds.
    """

    def __init__(self, ask: Ask, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self.waited_s = 0.0
        """Seconds until now."""

    def __call__(self, tool: Tool, arguments: Mapping[str, Any]) -> bool | Denial:
        start = self._clock()
        try:
            return self._ask(tool, arguments)
        finally:
            self.waited_s += self._clock() - start


_ASKED: dict[Mode, frozenset[Effect]] = {
    "plan": frozenset(),
    "ask": frozenset({"edit", "command", "foreign", "foreign_read"}),
    "accept-edits": frozenset({"command", "foreign", "foreign_read"}),
    "auto": frozenset(),
    "yolo": frozenset(),
}
# What shows the text of a file: reading it, and the near misses of an edit.
_SHOWING = frozenset({"read_file", "edit_file"})


def approval(mode: Mode, ask: Ask | None, workspace: Workspace | None = None) -> Approve:
    """The check of each call before it runs.

    Args:
        mode: `plan` denies edits and what a foreign tool may change, and lets commands through: whoever starts them must
            confine them to reading.
        ask: None where there is nobody to ask; then what would be asked is denied.
        workspace: where files with secrets are told from others, links followed; the modes that ask grant them, the
            others never do. None: no file is one.
    """

    def approve(tool: Tool, arguments: Mapping[str, Any]) -> None:
        if mode == "plan" and tool.effect in {"edit", "foreign"}:
            raise ToolError(
                f"{tool.name} was denied: plan mode is for reading only. Look around, then answer with a plan."
            )
        secret = _secret_file(tool, arguments, workspace)
        if secret and not _ASKED[mode]:
            raise ToolError(
                f"{tool.name} was denied: {secret!r} usually holds secrets, and mode {mode} asks nobody. Do without its "
                "values: an example file or the code tells their names, and programs read it by themselves. If the task "
                "cannot be done without, say so: with --mode ask a person can allow it."
            )
        if not secret and tool.effect not in _ASKED[mode]:
            return
        if ask is None:
            raise ToolError(
                f"{tool.name} was denied: mode {mode} asks a person about it, and there is no terminal to ask on. Go on "
                "without it, or answer with what remains to be done."
            )
        answer = ask(tool, _resolved(tool, arguments, workspace))
        if isinstance(answer, Denial) and answer.reason:
            raise ToolError(f"{tool.name} was denied by the user, who says: {answer.reason}")
        if not answer:
            raise ToolError(
                f"{tool.name} was denied by the user. Do not try it again; find another way or ask why."
            )

    return approve


def _resolved(tool: Tool, arguments: Mapping[str, Any], workspace: Workspace | None) -> Mapping[str, Any]:
    """The arguments with the path of the file that is really read or changed; a secret name that leads there stays."""
    path = arguments.get("path")
    if workspace is None or tool.effect not in {"read", "edit"} or not isinstance(path, str):
        return arguments
    name = workspace.locate(path).name
    return {**arguments, "path": path if is_secret_file(path) and not is_secret_file(name) else name}


def _secret_file(tool: Tool, arguments: Mapping[str, Any], workspace: Workspace | None) -> str | None:
    """The file that the call would show, if it is one that usually holds secrets."""
    if workspace is None or tool.name not in _SHOWING or not isinstance(path := arguments.get("path"), str):
        return None
    place = workspace.locate(path)
    found = is_secret_file(place.name) or is_secret_file(path)
    return place.name if found and workspace.kind(place) != "missing" else None
