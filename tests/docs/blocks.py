"""The fenced blocks of the documentation, and the commands in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from chimera.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "tasks/README.md", *sorted((ROOT / "docs").glob("*.md"))]
NOT_RUN = "noexec"
"""Behind the language of a block: installing, or a program that is not ours."""
_FENCE = re.compile(r"^```(\S*) ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block."""

    page: Path
    line: int
    language: str
    mark: str
    text: str

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True, slots=True)
class Command:
    """One line of a block for the shell."""

    block: Block
    environment: dict[str, str]
    words: tuple[str, ...]


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(page, line, found[1], found[2], found[3])


def commands(block: Block) -> Iterator[Command]:
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        environment = {}
        while words and (assigned := _ASSIGNMENT.fullmatch(words[0])):
            environment[assigned[1]] = assigned[2]
            words = words[1:]
        if words or environment:
            yield Command(block, environment, tuple(words))


def check_arguments(arguments: list[str]) -> None:
    """Parse a command line without running it.

    Raises:
        typer.TyperException: no such command or option, or a value that does not parse.
    """
    command: Any = typer.main.get_command(app)
    context = command.make_context("chimera", list(arguments))
    while hasattr(command, "commands"):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)
