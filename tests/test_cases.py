"""Faults collected from public bug reports, and the proof that each of them has a test here.

A test says which case it shows with `@pytest.mark.case("B1")`; `pytest -m case` runs them all.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

CASES = {
    "B1": "an edit turns CRLF into LF, or does not find text because of it",
    "B2": "a byte order mark is lost, doubled, or in the way of the match",
    "B4": "tabs become spaces, or spaces silently pass for tabs",
    "B5": "the newline at the end of a file comes or goes, or lines run together there",
    "B7": "the new text is interpreted as a pattern or improved on the way",
    "B8": "an empty old text replaces something, or makes a file",
    "B10": "a write loses mode bits or a link, or leaves a temporary file",
    "B11": "a write goes over a change that somebody else made",
    "C1": "a background child holds the output and with it the call",
    "C2": "a pager, an editor or a question for a password hangs for ever",
    "C4": "huge output fills the memory and starves the time limit",
    "C5": "output that is no UTF-8 breaks the run",
    "C7": "the working folder drifts, or is deleted underneath",
    "C8": "colour codes and progress bars reach the model or the terminal",
    "C10": "quoting changes between the model and the shell",
    "C11": "NUL and odd characters crash a tool or cut a command",
    "D1": "arguments that are broken JSON are run or poison the history",
    "D2": "arguments that are JSON of the wrong shape crash the batch",
    "D4": "an unknown tool ends the run or goes on for ever",
    "D5": "a reply cut at the output limit is run or taken for an answer",
    "D7": "a call or result written as text is taken for an answer, or for real",
    "D8": "reasoning is not sent back where it must be, or is where it must not be",
    "D10": "parallel edits of one file get lost",
    "D11": "one call of a batch fails and leaves the others without a result",
    "E1": "a refusal for size is not known as such, or something else is taken for one",
    "E2": "an error under HTTP 200 crashes the client",
    "E4": "throttling is retried too soon, for too long, or by several layers",
    "E5": "a missing or refused key is found late or asked for again and again",
    "E7": "an unknown price is shown as nothing, or a cost limit silently does not hold",
    "E8": "a parameter that the server does not take ends the run",
}


@pytest.fixture(scope="module")
def marked() -> set[str]:
    marks = "".join(
        found
        for path in TESTS.rglob("test_*.py")
        for found in re.findall(r"mark\.case\(([^)]*)\)", path.read_text())
    )
    return set(re.findall(r'"([A-Z]\d+)"', marks))


@pytest.mark.parametrize("case", CASES)
def test_a_known_fault_has_a_test(case: str, marked: set[str]) -> None:
    assert case in marked, CASES[case]


def test_a_mark_names_a_case_of_the_table(marked: set[str]) -> None:
    assert marked <= set(CASES)
