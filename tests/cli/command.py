"""What the tests of the command line share: how a command ended."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UNCONFINED = ("--mode", "yolo", "--sandbox", "danger-full-access")
"""So that the tests need no sandbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """Standard output, which must be exactly one JSON object."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Standard output, which must be one JSON object a line."""
        return [json.loads(line) for line in self.out.splitlines()]

    def events(self) -> list[dict[str, Any]]:
        """The record of the run whose result this is."""
        text = Path(self.result["run_dir"], "events.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]


Chimera = Callable[..., Ended]
Script = Callable[[Sequence[dict[str, Any]]], str]
