"""The question before a call in the modes that ask: the whole call, escaped, and a plain yes or no."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, TextIO

from chimera.cli.cells import escaped
from chimera.cli.terminal import Style, Terminal
from chimera.tools.approval import Ask
from chimera.tools.base import Effect, Tool

_WISHES: dict[Effect, str] = {
    "command": "run",
    "read": "show the model a file that usually holds secrets",
    "foreign": "send this to its server, outside the sandbox",
    "foreign_read": "send this to its server, which says that it changes nothing",
}


def asker(terminal: Terminal, stdin: TextIO) -> Ask:
    """A function that asks on a terminal. Anything but `y` or `yes` is no; so is the end of the input."""

    def ask(tool: Tool, arguments: Mapping[str, Any]) -> bool:
        terminal.line((f"{tool.name} wants to {_WISHES.get(tool.effect, 'change a file')}:", "bold"))
        for text, style in _shown(arguments):
            terminal.block(escaped(text), indent="  ", style=style)
        _forget_typed_ahead(stdin)
        terminal.raw("Allow it? [y/N] ")
        return stdin.readline().strip().lower() in {"y", "yes"}

    return ask


def _shown(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Style | None]]:
    """Every argument, whole: what is left out could not be agreed to."""
    for name, value in arguments.items():
        if name in {"command", "path"}:
            yield str(value), None
        elif name == "content":
            yield _prefixed("+ ", str(value)), "green"
        elif name == "edits" and isinstance(value, list):
            for edit in value:
                yield _prefixed("- ", str(edit.get("old", ""))), "red"
                yield _prefixed("+ ", str(edit.get("new", ""))), "green"
                if rest := {k: v for k, v in edit.items() if k not in {"old", "new"}}:
                    yield json.dumps(rest, ensure_ascii=False), "dim"
        else:
            yield f"{name}: {json.dumps(value, ensure_ascii=False)}", "dim"


def _prefixed(prefix: str, text: str) -> str:
    return "\n".join(prefix + line for line in text.removesuffix("\n").split("\n"))


def _forget_typed_ahead(stdin: TextIO) -> None:
    """Keys that were pressed before the question was seen do not answer it."""
    import termios

    with suppress(termios.error, OSError, ValueError):
        termios.tcflush(stdin.fileno(), termios.TCIFLUSH)
