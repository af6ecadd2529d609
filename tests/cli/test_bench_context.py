from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Chimera = Callable[..., Any]
SMALL = ("--tasks", "floor-squeeze", "--policies", "rereader", "--seeds", "1", "--jobs", "1")


def test_every_run_can_be_saved_and_the_tables_say_that_they_are_scripted(
    chimera: Chimera, tmp_path: Path
) -> None:
    saved = tmp_path / "runs.jsonl"
    selection = ("--arms", "ours-note,truncate", "--windows", "6000,32000", "--save", str(saved))
    ended = chimera("bench", "context", *SMALL, *selection, "--output-format", "json")
    assert ended.code == 0
    assert ended.result["runs"] == 4
    assert ended.result["tables"].startswith("Scripted policies only; 4 runs, seeds 1.")
    assert all(bar["passed"] for bar in ended.result["bars"])
    rows = [json.loads(line) for line in saved.read_text(encoding="utf-8").splitlines()]
    assert {(row["arm"], row["window"], row["solved"]) for row in rows} == {
        (arm, window, True) for arm in ("ours-note", "truncate") for window in (6_000, 32_000)
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--arms", "best"), "arms: 'best' is unknown; known: none, truncate"),
        (("--windows", "8k"), "--windows is '8k'; give whole numbers with commas between them"),
        (("--windows", "8000,0"), "--windows is '8000,0'; the least that makes sense is 1"),
        (("--seeds", "-1"), "--seeds is '-1'; the least that makes sense is 0"),
        ((*SMALL, "--save", "/nonexistent/runs.jsonl"), "there is no folder to write that file to"),
        (
            ("--tasks", "floor-squeeze", "--policies", "noter", "--windows", "8000"),
            "nothing is left to run",
        ),
    ],
)
def test_a_selection_that_cannot_be_is_refused(
    chimera: Chimera, arguments: tuple[str, ...], said: str
) -> None:
    ended = chimera("bench", "context", *arguments)
    assert ended.code == 2
    assert said in ended.err
