"""No progress is the same calls with the same results, or nothing but failures; a changing poll is progress."""

from __future__ import annotations

from chimera.core.progress import Progress, Verdict


def judge(progress: Progress, *steps: tuple[str, str, bool]) -> list[Verdict]:
    return [progress.judge([("shell", arguments, result, ok)]) for arguments, result, ok in steps]


def test_the_same_call_with_the_same_result_is_nudged_once_then_stopped_within_fifteen_steps() -> None:
    verdicts = judge(Progress(), *[("ls", "a b", True)] * 15)
    assert verdicts.count("nudge") == 1
    assert verdicts.index("nudge") < verdicts.index("stop") <= 15


def test_a_poll_whose_result_changes_is_progress() -> None:
    assert set(judge(Progress(), *[("status", f"{n} of 99", True) for n in range(99)])) == {"progress"}


def test_two_calls_in_turn_are_a_loop_too() -> None:
    steps = [("ls", "a", True), ("pwd", "b", True)] * 10
    assert "stop" in judge(Progress(), *steps)[:15]


def test_nothing_but_failures_for_ten_steps_stops_whatever_their_arguments() -> None:
    verdicts = judge(Progress(), *[(f"try {n}", f"no {n}", False) for n in range(12)])
    assert verdicts.index("stop") == 9
    assert verdicts.count("nudge") == 1


def test_one_success_in_between_counts_again_from_the_start() -> None:
    steps = [(f"try {n}", f"no {n}", n == 6) for n in range(15)]
    assert "stop" not in judge(Progress(), *steps)


def test_running_the_tests_again_after_a_change_is_progress() -> None:
    steps = [
        step
        for n in range(10)
        for step in ((f"edit {n}", f"edited {n}", True), ("pytest", "1 failed", False))
    ]
    assert set(judge(Progress(), *steps)) == {"progress"}
