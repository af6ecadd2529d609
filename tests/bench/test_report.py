from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.bench.measures import Invariants
from chimera.bench.report import Report
from chimera.bench.row import ContextUse, Row, Status, Tokens, TrialError
from chimera.core.messages import Usage
from chimera.core.state import RunResult, Stop, StopReason


def row(status: Status = "graded", reward: float | None = None, **known: Any) -> Row:
    return Row(
        trial="mini.noop.1",
        task="test/mini",
        task_digest="sha256:0",
        suite="suite",
        attempt=1,
        agent="noop",
        isolation=known.pop("isolation", "namespace"),
        status=status,
        reward=reward,
        passed=reward == 1,
        **{"model": None, **known},
    )


PASSED, FAILED = row(reward=1.0), row(reward=0.0)
SOUND, UNSOUND = (
    row(
        reward=1.0,
        invariants=Invariants(requests=9, illegal=0, over_window=n, task_missing=0, rules_missing=0),
    )
    for n in (0, 2)
)
BROKEN, SKIPPED, UNGRADED = row("agent_error", 0.0), row("skipped"), row("verifier_error")


@pytest.mark.parametrize(
    ("rows", "planned", "fail_under", "code"),
    [
        pytest.param((PASSED, PASSED), 2, 1.0, 0, id="all passed"),
        pytest.param((PASSED, FAILED), 2, None, 0, id="graded is enough"),
        pytest.param((PASSED, FAILED), 2, 0.5, 0, id="just met"),
        pytest.param((PASSED, FAILED), 2, 0.51, 1, id="below"),
        pytest.param((FAILED,), 1, 0.0, 0, id="nothing asked"),
        pytest.param((PASSED, SKIPPED), 2, 0.1, 3, id="skipped"),
        pytest.param((PASSED, UNGRADED), 2, None, 3, id="no grade"),
        pytest.param((PASSED, BROKEN), 2, None, 3, id="agent broke"),
        pytest.param((PASSED,), 2, None, 3, id="missing"),
        pytest.param((), 2, None, 3, id="none"),
        pytest.param((PASSED, SOUND), 2, None, 0, id="sound requests"),
        pytest.param((PASSED, UNSOUND), 2, None, 1, id="a request that broke an invariant"),
        pytest.param((UNSOUND,), 2, None, 3, id="broken and incomplete"),
    ],
)
def test_the_exit_code_says_what_the_numbers_are_worth(
    rows: tuple[Row, ...], planned: int, fail_under: float | None, code: int
) -> None:
    assert Report(rows=rows, planned=planned).exit_code(fail_under) == code


def test_a_broken_invariant_is_told_in_the_table_and_in_the_summary() -> None:
    report = Report(rows=(SOUND, UNSOUND), planned=2)
    assert "mini.noop.1: INVARIANTS BROKEN in 9 requests: over window 2" in report.table()
    assert report.summary()["invariant_breaches"] == 2


def test_an_interrupted_job_says_so_first() -> None:
    assert Report(rows=(PASSED,), planned=1, interrupted=True).exit_code(0.5) == 130


def test_rates_are_over_what_was_graded_and_a_broken_agent_counts_as_failed() -> None:
    report = Report(rows=(PASSED, FAILED, BROKEN, SKIPPED, UNGRADED), planned=6)
    assert report.pass_rate == pytest.approx(1 / 3)
    assert report.worst_case == pytest.approx(1 / 6)
    assert report.summary()["statuses"] == {"agent_error": 1, "graded": 2, "skipped": 1, "verifier_error": 1}


def usage(**known: Any) -> Tokens:
    return Tokens.of(Usage(**known))


def test_an_unknown_cost_makes_the_sum_unknown() -> None:
    tokens = usage(input_tokens=10)
    known, unknown = row(tokens=tokens, cost_usd=0.5), row(tokens=tokens)
    assert Report(rows=(known, known), planned=2).summary()["cost_usd"] == 1.0
    assert Report(rows=(known, unknown), planned=2).summary()["cost_usd"] is None
    assert Report(rows=(known, FAILED), planned=2).summary()["cost_usd"] == 0.5
    assert Report(rows=(FAILED,), planned=1).summary()["cost_usd"] is None


def test_the_table_shows_every_row_and_what_went_wrong() -> None:
    wrong = row(
        "provider_error",
        stop_reason="model_error",
        error=TrialError(phase="agent", kind="model_error", message="out of order"),
        isolation="copy",
    )
    good = row(
        reward=1.0,
        stop_reason="answered",
        steps=5,
        tokens=usage(input_tokens=1000, output_tokens=50, estimated=True),
        tampered=("tests/a.py",),
        seconds={"setup": 0.5, "agent": 1.25},
    )
    assert Report(rows=(good, wrong), planned=2).table().splitlines() == [
        "task       try  status          reward  stop reason  steps  tokens     cost  seconds",
        "test/mini    1  graded               1  answered         5  ~1,050  unknown      1.8",
        "test/mini    1  provider_error       -  model_error      -       -        -      0.0",
        "mini.noop.1: tampered with tests/a.py",
        "mini.noop.1: out of order (agent, model_error)",
        "",
        (
            "passed 1 of 1 graded (100.0%); 1 of 2 planned have no grade: 50.0% if all of them failed; "
            "isolation: copy, namespace (weak: nothing hides the tests from a determined agent)"
        ),
    ]


COUNTS = st.integers(0, 10**6)


@given(COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)
def test_the_classes_of_tokens_add_up(uncached: int, read: int, write: int, out: int, reasoning: int) -> None:
    whole = Usage(
        input_tokens=uncached + read + write,
        cached_input_tokens=read,
        cache_write_tokens=write,
        output_tokens=out + reasoning,
        reasoning_tokens=reasoning,
    )
    tokens = Tokens.of(whole)
    assert (tokens.in_uncached, tokens.out) == (uncached, out)
    assert tokens.total == whole.input_tokens + whole.output_tokens


def test_a_run_that_never_began_has_used_no_context() -> None:
    assert ContextUse.of(RunResult.of_stop(Stop(StopReason.AUTH_ERROR))) is None
