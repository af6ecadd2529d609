"""The question before a call in the modes that ask: the whole call, escaped, and what may be answered."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, TextIO

from chimera.cli.cells import one_line
from chimera.cli.changes import STYLES, changed_lines
from chimera.cli.terminal import Style, Terminal
from chimera.tools.approval import Ask, Denial
from chimera.tools.base import Effect, Tool
from chimera.workspace.secret_files import is_secret_file

_WISHES: dict[Effect, str] = {
    "command": "run",
    "read": "show the model a file that usually holds secrets",
    "foreign": "send this to its server, outside the sandbox",
    "foreign_read": "send this to its server, which says that it changes nothing",
}
_SAME: dict[Effect, str] = {
    "command": "this exact command",
    "read": "this file",
    "foreign": "exactly this call",
    "foreign_read": "exactly this call",
}
"""What "the same again" means; an edit is never the same again."""
# What tells one call from another, where not all of its arguments do.
_TELLING: dict[Effect, str] = {"command": "command", "read": "path"}


def asker(terminal: Terminal, stdin: TextIO) -> Ask:
    """A function that asks on a terminal. An empty answer is no; so is the end of the input.

    What is allowed for always holds as long as the function does, and is asked about no more.
    """
    return _Asker(terminal, stdin).ask


class _Asker:
    def __init__(self, terminal: Terminal, stdin: TextIO) -> None:
        self._terminal = terminal
        self._stdin = stdin
        self._calls: set[tuple[str, str]] = set()
        """Allowed for always: tool and what tells its call from others."""
        self._tools: set[str] = set()
        """Tools of which every call is allowed."""

    def ask(self, tool: Tool, arguments: Mapping[str, Any]) -> bool | Denial:
        secret = tool.effect == "read" or _names_a_secret(arguments)
        call = (tool.name, _told_by(tool, arguments))
        if call in self._calls or (tool.name in self._tools and not secret):
            return True
        self._show(tool, arguments)
        same = _SAME.get(tool.effect)
        every = None if secret else f"any call of {one_line(tool.name)}"
        answer = self._answer(same, every)
        if answer == "a":
            self._calls.add(call)
        elif answer == "t":
            self._tools.add(tool.name)
        elif answer == "n":
            return Denial(self._read("Why not? (Enter for nothing) "))
        return answer in {"y", "a", "t"}

    def _show(self, tool: Tool, arguments: Mapping[str, Any]) -> None:
        self._terminal.line((f"{tool.name} wants to {_WISHES.get(tool.effect, 'change a file')}:", "bold"))
        # Unbroken by us: what is agreed to is what is seen, to the last space.
        for text, style in _shown(tool, arguments):
            for line in text.split("\n"):
                self._terminal.long_line(f"  {line}", style)

    def _answer(self, same: str | None, every: str | None) -> str:
        """One of the letters; empty for a no without a reason."""
        meanings = {"y": "yes", "n": "no, with a reason"}
        meanings |= {"a": f"always in this run: {same}"} if same else {}
        meanings |= {"t": f"always in this run: {every}"} if every else {}
        for letter, meaning in meanings.items():
            self._terminal.block(meaning, indent=f"  {letter}  ", hang="     ", style="dim")
        words = {"yes": "y", "no": "n"}
        _forget_typed_ahead(self._stdin)
        letters = "/".join(["y", "N", *(letter for letter in meanings if letter not in "yn")])
        while typed := self._read(f"Allow it? [{letters}] ").lower():
            if (letter := words.get(typed, typed)) in meanings:
                return letter
            self._terminal.block(f"{typed!r} is no answer: {', '.join(meanings)}, or Enter for no.")
        return ""

    def _read(self, question: str) -> str:
        with self._terminal.question(question):
            return self._stdin.readline().strip()


def _told_by(tool: Tool, arguments: Mapping[str, Any]) -> str:
    name = _TELLING.get(tool.effect)
    return json.dumps(arguments.get(name) if name else dict(arguments), sort_keys=True)


def _names_a_secret(arguments: Mapping[str, Any]) -> bool:
    path = arguments.get("path")
    return isinstance(path, str) and is_secret_file(path)


def _shown(tool: Tool, arguments: Mapping[str, Any]) -> Iterator[tuple[str, Style | None]]:
    """Every argument, whole: what is left out could not be agreed to."""
    changes = changed_lines(tool.name, arguments)
    for name, value in arguments.items():
        if name in {"command", "path"} and tool.effect not in {"foreign", "foreign_read"}:
            yield str(value), None
        elif not (changes and name in {"content", "edits"}):
            yield f"{name}: {json.dumps(value, ensure_ascii=False)}", "dim"
    for sign, text in changes:
        yield f"{sign} {text}", STYLES.get(sign)


def _forget_typed_ahead(stdin: TextIO) -> None:
    """Keys that were pressed before the question was seen do not answer it."""
    import termios

    with suppress(termios.error, OSError, ValueError):
        termios.tcflush(stdin.fileno(), termios.TCIFLUSH)
