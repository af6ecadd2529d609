"""Where a conversation reads its lines: with history and completion where prompt_toolkit is there, else as they come."""

from __future__ import annotations

import select
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from chimera.cli.output import Output
from chimera.cli.terminal import Terminal
from chimera.overriding import override

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.history import History

ReadLine = Callable[[], str | None]
"""The next line; None at the end of the input. A Ctrl-C is a `KeyboardInterrupt`."""
PROMPT = "> "
HISTORY = "chat_history"
"""File in the state directory: what was typed, without known secrets."""
_MOST_HISTORY_BYTES = 1_000_000
_PASTE_PAUSE_S = 0.02
"""Nobody types a line in it."""


def line_reader(output: Output, home: Path, commands: Mapping[str, str]) -> ReadLine:
    """What reads the lines of a conversation.

    Args:
        output: whose terminal shows the prompt.
        home: the state directory, for the history.
        commands: to complete, with what they do.
    """
    if sys.stdin.isatty() and output.terminal.coloured:
        with suppress(ImportError):
            return _edited(output, home, commands)
    return PlainLines(output.terminal, sys.stdin, commands).read


class PlainLines:
    """Lines as they come. On a terminal, those that come at once are one message: they were pasted, or typed ahead.

    Args:
        terminal: shows the prompt.
        stdin: where they come from.
        commands: each a line of its own.
    """

    def __init__(self, terminal: Terminal, stdin: TextIO, commands: Collection[str]) -> None:
        self._terminal = terminal
        self._stdin = stdin
        self._commands = commands
        self._ahead: list[str] = []
        """Commands that came right behind a message."""

    def read(self) -> str | None:
        """The next line; None at the end of the input."""
        if not self._stdin.isatty():
            return self._stdin.readline() or None
        if self._ahead:
            return self._ahead.pop()
        with self._terminal.question(PROMPT):
            line = self._stdin.readline()
        while line and line.strip() not in self._commands and self._more():
            following = self._stdin.readline()
            if not following:
                break
            if following.strip() in self._commands:
                self._ahead.append(following)
                break
            line += following
        return line or None

    def _more(self) -> bool:
        return bool(select.select([self._stdin], [], [], _PASTE_PAUSE_S)[0])


def _edited(output: Output, home: Path, commands: Mapping[str, str]) -> ReadLine:
    """Lines that can be edited, with history and completion."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.output import create_output

    session: PromptSession[str] = PromptSession(
        PROMPT,
        history=_history(home / HISTORY, output.without_secrets),
        completer=_completer(commands),
        complete_while_typing=False,
        output=create_output(sys.stderr),
    )

    def read() -> str | None:
        try:
            return session.prompt()
        except EOFError:
            return None

    return read


def _history(path: Path, clean: Callable[[str], str]) -> History:
    from prompt_toolkit.history import FileHistory

    class PrivateHistory(FileHistory):
        """A history that only the user can read. Where it cannot be kept it is the one of this conversation."""

        @override
        def load_history_strings(self) -> Iterable[str]:
            with suppress(OSError):
                if path.stat().st_size > _MOST_HISTORY_BYTES:
                    path.unlink()
                return list(super().load_history_strings())
            return []

        @override
        def store_string(self, string: str) -> None:
            with suppress(OSError):
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                path.touch(mode=0o600)
                super().store_string(clean(string))

    return PrivateHistory(str(path))


def _completer(commands: Mapping[str, str]) -> Completer:
    from prompt_toolkit.completion import WordCompleter

    words: Sequence[str] = list(commands)
    return WordCompleter(list(words), meta_dict=dict(commands), sentence=True)
