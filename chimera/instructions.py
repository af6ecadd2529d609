"""What the repository's `AGENTS.md` files add to the system message: quoted, capped, without secrets. Data, not settings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from chimera import prompts
from chimera.core.context_budget import ContextBudget
from chimera.core.tokens import TokenCounter
from chimera.record.redaction import Redactor
from chimera.workspace.agents_files import AgentsFile, agents_files
from chimera.workspace.terminal_text import escaped

INSTRUCTIONS_SHARE = 0.10
"""Of the trigger T, for the whole block: some 1,500 tokens in a window of 32k, which are about 150 lines, and 200 at 4k, where
the system message and the tools already take nearly half of T."""


class Instructions(Struct, frozen=True, kw_only=True):
    """The block for the system message, and what to tell the user about it."""

    text: str = ""
    """Empty where there is no file, or no room for one."""
    tokens: int = 0
    files: tuple[str, ...] = ()
    """Those that are in the block, at least in part, nearest first."""
    notices: tuple[str, ...] = ()
    """What is missing, and why."""

    def fields(self) -> dict[str, Any]:
        """What a run's first event says about it."""
        return {"instructions": {"files": list(self.files), "tokens": self.tokens}}


def read_instructions(
    root: Path, budget: ContextBudget, redactor: Redactor, counter: TokenCounter
) -> Instructions:
    """The instructions that hold for a workspace.

    Args:
        root: the workspace, a real path.
        budget: gives the cap: a share of its trigger.
        redactor: takes secrets out.
        counter: measures.
    """
    cap = math.floor(budget.calibration.estimate(budget.trigger) * INSTRUCTIONS_SHARE)
    parts: list[prompts.Quoted] = []
    notices: list[str] = []
    for file in agents_files(root):
        if file.problem:
            notices.append(f"{file.name} is not read: {file.problem}")
            continue
        lines = _lines(file, redactor)
        shown = _fitting(parts, file.name, lines, cap, counter)
        if shown:
            parts.append(
                prompts.Quoted(origin=file.name, lines=tuple(lines[:shown]), more=len(lines) - shown)
            )
        if shown < len(lines):
            notices.append(
                f"{file.name} is cut: {shown} of its {len(lines)} lines are in the system message, which has {cap:,} tokens "
                "for such files in this window."
            )
    text = prompts.instructions(parts) if parts else ""
    return Instructions(
        text=text,
        tokens=counter.lasting(text) if text else 0,
        files=tuple(part.origin for part in parts),
        notices=tuple(map(escaped, notices)),
    )


def _lines(file: AgentsFile, redactor: Redactor) -> list[str]:
    """The text line by line, whatever ends a line somewhere, without blank ends."""
    lines = escaped(redactor.text(file.text).replace("\r\n", "\n")).strip("\n").splitlines()
    return [line.rstrip() for line in lines] if any(map(str.strip, lines)) else []


def _fitting(
    parts: Sequence[prompts.Quoted], origin: str, lines: Sequence[str], cap: int, counter: TokenCounter
) -> int:
    """How many of the lines fit beside the parts that are there already."""
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high + 1) // 2
        part = prompts.Quoted(origin=origin, lines=tuple(lines[:middle]), more=len(lines) - middle)
        if counter.lasting(prompts.instructions([*parts, part])) <= cap:
            low = middle
        else:
            high = middle - 1
    return low
