from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from chimera.bench.aggregate import Aggregate, FinishedJob, by_suite, by_window
from chimera.bench.compare import Comparison, compare, contenders
from chimera.bench.page import page
from chimera.bench.results import JobRecord
from chimera.bench.row import ContextUse, Row, Tokens, TrialError
from chimera.bench.tables import fields, markdown
from chimera.errors import ConfigError


def tokens(count: int, *, estimated: bool = False) -> Tokens:
    return Tokens(in_uncached=count, cache_read=10, cache_write=0, out=5, reasoning=0, estimated=estimated)


def row(arm: str, task: int, *, passed: bool, attempt: int = 1, **known: Any) -> Row:
    return Row(
        **{
            "trial": f"task-{task}.{arm}.{attempt}",
            "task": f"test/task-{task}",
            "task_digest": f"sha256:{task}",
            "suite": "long",
            "attempt": attempt,
            "agent": "chimera",
            "model": "acme/large",
            "isolation": "namespace",
            "status": "graded",
            "arm": arm,
            "reward": float(passed),
            "passed": passed,
            "tokens": tokens(1000),
            **known,
        }
    )


def job(rows: Sequence[Row], name: str = "job", *, planned: Sequence[str] = ()) -> FinishedJob:
    arms = dict.fromkeys(row.arm for row in rows)
    return FinishedJob(
        record=JobRecord(
            job=name,
            settings={
                "arms": {arm: {"agent": "chimera", "model": "acme/large", **settings(arm)} for arm in arms},
                "attempts": max(row.attempt for row in rows),
            },
            tasks={row.task: row.task_digest for row in rows},
            planned=tuple(planned) or tuple(row.trial for row in rows),
            versions={"chimera": "1"},
            git={},
            host={"cores": 2},
        ),
        rows=tuple(rows),
    )


def settings(arm: str) -> dict[str, Any]:
    _, named, window = arm.partition("-window-")
    return {"window": int(window)} if named else {}


def outcomes(arm: str, passed: str) -> list[Row]:
    """One trial of a task for each character; `+` passed."""
    return [row(arm, n, passed=mark == "+") for n, mark in enumerate(passed)]


def compared(a: str, b: str, **known: float) -> Comparison:
    (found,) = compare(contenders([job(outcomes("a", a), "one"), job(outcomes("b", b), "two")]), **known)
    return found


def test_pairs_that_differ_decide() -> None:
    found = compared("++++++++----", "++------+---")
    assert (found.pairs, found.passed_a, found.passed_b, found.only_a, found.only_b) == (12, 8, 3, 6, 1)
    assert found.difference == pytest.approx(-5 / 12)
    assert found.difference_low < found.difference < found.difference_high
    assert found.p_value == pytest.approx(0.125)
    assert not found.not_worse


def test_what_few_trials_cannot_show_is_said() -> None:
    found = compared("+++-", "++-+")
    assert found.difference == 0
    assert not found.not_worse
    assert "not worse than 5 points?  no" in found.text()
    assert found.pairs_needed is not None
    assert f"4 pairs cannot show it, about {found.pairs_needed:,} would" in found.text()
    assert any("only 2 pairs differ" in warning for warning in found.warnings)


def test_a_margin_makes_equality_a_claim_that_can_be_shown() -> None:
    assert compared("+-" * 40, "+-" * 40).not_worse
    assert not compared("+-" * 40, "+-" * 39 + "--").not_worse
    assert compared("+-" * 40, "+-" * 39 + "--", margin=0.1).not_worse


@pytest.mark.parametrize("pairs", [1, 4, 30, 70])
def test_a_few_pairs_that_agree_do_not_show_that_none_is_worse(pairs: int) -> None:
    found = compared("+" * pairs, "+" * pairs)
    assert (found.difference, found.not_worse) == (0, False)
    assert f"{pairs} pairs cannot show it" in found.text()


def test_what_is_missing_on_a_side_is_told() -> None:
    of_a, of_b = outcomes("a", "++++++"), outcomes("b", "++++++")
    of_a[0] = replace(of_a[0], status="provider_error", reward=None, passed=False)
    of_b[1] = replace(of_b[1], status="verifier_error", reward=None, passed=False)
    planned = [one.trial for one in of_b]
    (found,) = compare(contenders([job(of_a, "one"), job(of_b[:-1], "two", planned=planned)]))
    assert (found.pairs, found.unpaired, found.ungraded_a, found.ungraded_b) == (3, 3, 1, 2)
    said = found.text()
    assert "warning: 1 of 6 planned trials of one: a (acme/large) have no grade" in said
    assert "warning: 2 of 6 planned trials of two: b (acme/large) have no grade" in said
    assert "warning: 3 graded trials have no partner" in said


def test_the_tokens_of_one_task_have_no_interval() -> None:
    assert "ratio 1.00 (of one task, so without an interval)" in compared("+", "+").text()


def test_trials_are_paired_by_task_and_attempt_and_the_rest_is_left_out() -> None:
    of_a = [row("a", 1, passed=True, attempt=n) for n in (1, 2, 3)]
    of_b = [row("b", 1, passed=False, attempt=n) for n in (2, 3, 4)]
    of_b[0] = replace(of_b[0], status="infra_error", reward=None)
    (found,) = compare(contenders([job(of_a, "one"), job(of_b, "two")]))
    assert (found.pairs, found.unpaired, found.only_a) == (1, 3, 1)


def test_other_files_of_a_task_are_not_compared() -> None:
    other = [replace(found, task_digest="sha256:other") for found in outcomes("b", "+")]
    with pytest.raises(ConfigError, match=r"these tasks differ between .*: test/task-0; run both"):
        compare(contenders([job(outcomes("a", "+"), "one"), job(other, "two")]))


def test_one_arm_alone_is_no_comparison() -> None:
    with pytest.raises(ConfigError, match="needs two arms"):
        compare(contenders([job(outcomes("a", "+"))]))


def test_arms_without_a_common_trial_are_no_comparison() -> None:
    with pytest.raises(ConfigError, match="has a partner"):
        compare(contenders([job([row("a", 1, passed=True), row("b", 2, passed=True)])]))


def test_several_arms_are_held_to_more() -> None:
    rows = [*outcomes("a", "------"), *outcomes("b", "++++++"), *outcomes("c", "------")]
    first, second = compare(contenders([job(rows)]))
    assert (first.a, first.b, second.b) == ("a (acme/large)", "b (acme/large)", "c (acme/large)")
    assert first.p_adjusted == pytest.approx(2 * first.p_value)
    assert "0.062 after Holm" in first.text()
    assert second.p_adjusted == 1


def test_tokens_that_were_counted_differently_are_not_compared() -> None:
    of_a = [row("a", n, passed=True, tokens=tokens(1000 + n)) for n in range(6)]
    of_b = [row("b", n, passed=True, tokens=tokens(2000 + n)) for n in range(6)]
    (found,) = compare(contenders([job(of_a, "one"), job(of_b, "two")]))
    assert found.tokens_ratio is not None
    assert 1.9 < found.tokens_ratio < 2
    estimated = [replace(one, tokens=tokens(2000, estimated=True)) for one in of_b]
    (found,) = compare(contenders([job(of_a, "one"), job(estimated, "two")]))
    assert (found.tokens_ratio, found.tokens_a) == (None, None)


def test_rows_that_are_not_comparable_are_told() -> None:
    of_b = [replace(one, comparable=False) for one in outcomes("b", "+++")]
    (found,) = compare(contenders([job(outcomes("a", "+++"), "one"), job(of_b, "two")]))
    assert any("ran with other time limits" in warning for warning in found.warnings)


def context(window: int, compactions: int) -> ContextUse:
    return ContextUse(window=window, floor=900, prompt_peak=3000, prompt_sum=9000, compactions=compactions)


def test_an_aggregate_adds_up_what_is_known() -> None:
    rows = [
        row("a", 1, passed=True, steps=4, cost_usd=0.5, context=context(8000, 2)),
        row("a", 1, passed=False, attempt=2, steps=6, cost_usd=0.25, context=context(8000, 4)),
        row("a", 2, passed=True, status="infra_error", tokens=None, reward=None, tampered=("x",)),
    ]
    found = Aggregate.of("a", rows, 4)
    assert (found.planned, found.graded, found.passed, found.rate, found.k) == (4, 2, 1, 0.5, 2)
    assert (found.pass_at_k, found.pass_all_k) == (1, 0)
    assert (found.steps, found.cost_usd, found.compactions) == (5, 0.75, 3)
    assert (found.tokens_per_solved, found.tampered) == (2030, 1)
    assert found.errors == {"infra_error": 1}
    assert Aggregate.of("a", [replace(rows[0], cost_usd=None), rows[1]], 2).cost_usd is None


def test_arms_that_differ_in_their_window_alone_are_one_line() -> None:
    rows = [
        row(f"chimera-window-{window}", n, passed=window > 4000, context=context(window, 1))
        for window in (16_000, 4000)
        for n in range(3)
    ]
    (series,) = by_window([job(rows)])
    assert [(window, point.rate) for window, point in series.points] == [(4000, 0), (16_000, 1)]
    assert [one.label for one in by_suite([job(rows)])] == ["chimera-window-16000", "chimera-window-4000"]


HOSTILE = "<script>alert('|')</script>"


def report() -> FinishedJob:
    rows = [
        row(
            f"chimera-window-{window}",
            n,
            passed=(n + window) % 3 > 0,
            context=context(window, 7),
            cost_usd=0.01,
            model=HOSTILE,
        )
        for window in (4000, 8000)
        for n in range(4)
    ]
    rows[0] = replace(
        rows[0],
        tampered=(HOSTILE,),
        error=TrialError(phase="agent", kind=HOSTILE, message=HOSTILE),
        status="provider_error",
        reward=None,
        passed=False,
    )
    found = job(rows, planned=[*(one.trial for one in rows), "task-9.x.1"])
    arms = {arm: {**values, "model": HOSTILE} for arm, values in found.record.settings["arms"].items()}
    return replace(found, record=replace(found.record, settings={**found.record.settings, "arms": arms}))


def test_a_page_needs_nothing_else_and_shows_what_rows_say_as_text() -> None:
    text = page([report()])
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "http://" not in text
    assert "https://" not in text
    assert "url(" not in text
    assert "default-src 'none'" in text
    assert "prefers-color-scheme:dark" in text


def test_a_page_shows_even_a_status_that_there_is_not_as_text() -> None:
    one = report()
    rows = tuple(replace(found, status=HOSTILE) for found in one.rows)
    assert "<script" not in page([replace(one, rows=rows)])


def test_every_mark_of_a_plot_can_be_reached_and_says_what_it_is() -> None:
    text = page([report()])
    assert text.count('class="plot"') == 4
    marks = text.count('<g class="mark" tabindex="0" role="img" aria-label=')
    # Two windows in three plots; two arms with three classes of tokens.
    assert marks == 2 * 3 + 2 * 3
    assert 'aria-label="chimera, 8,000: ' in text
    assert "task-9.x.1</td>" in text
    assert '<span class="bad">missing</span>' in text


def test_markdown_keeps_its_columns_whatever_a_row_says() -> None:
    lines = markdown([report()]).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 * 2 + 2 * 2
    assert len({line.replace("\\|", "").count("|") for line in table[:4]}) == 1
    assert any("2 of 9 planned trials have no grade" in line for line in lines)
    assert any(line.startswith("## By context window") for line in lines)


def test_the_report_as_json_names_what_is_missing() -> None:
    found = fields([report()])
    assert found["jobs"][0]["missing"] == ["task-9.x.1"]
    assert [one["passed"] for one in found["suites"]] == [one.passed for one in by_suite([report()])]
    assert [point["window"] for point in found["windows"][0]["points"]] == [4000, 8000]
