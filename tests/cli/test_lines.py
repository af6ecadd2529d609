from __future__ import annotations

from typing import Any

import pytest

from chimera.cli import lines
from chimera.cli.cells import width
from chimera.cli.terminal import Span


def step(*, cost_usd: float | None = None, **usage: Any) -> lines.Step:
    counted = {"input_tokens": 12_345, "output_tokens": 678, "cached_input_tokens": 10_000, **usage}
    return lines.Step(
        number=12,
        prompt=12_345,
        budget=19_200,
        floor=875,
        compactions=3,
        usage=counted,
        cost_usd=cost_usd,
    )


def plain(spans: tuple[Span, ...]) -> str:
    return "".join(span if isinstance(span, str) else span[0] for span in spans)


def test_a_status_line_on_a_pipe_says_everything_in_words() -> None:
    assert step(cost_usd=0.0123).line(None) == (
        "step 12 · 12,345 tokens, 64% of the budget · floor 875 · 3 compactions · in 12,345 (cached 81%) · out 678 · "
        "cost $0.0123"
    )


@pytest.mark.parametrize("columns", [39, 60, 79, 100, 130])
@pytest.mark.parametrize("cost_usd", [None, 0.0123])
@pytest.mark.parametrize("estimated", [True, False])
def test_a_status_line_fits_and_keeps_its_facts(
    columns: int, *, estimated: bool, cost_usd: float | None
) -> None:
    line = step(estimated=estimated, cost_usd=cost_usd).line(columns)
    assert width(line) <= columns
    for fact in ("12", "64%", "875", "3", "12", "678", "█"):
        assert fact in line
    assert estimated or "81%" in line
    unknown = "unknown" if columns > 40 else "$?"
    assert (unknown if cost_usd is None else "$0.0123") in line


@pytest.mark.parametrize(
    ("share", "drawn"),
    [(0, "░░░░"), (0.1, "░░░░"), (0.5, "██░░"), (0.99, "███░"), (1, "████"), (1.3, "████")],
)
def test_a_bar_is_full_only_where_nothing_is_left(share: float, drawn: str) -> None:
    assert lines.bar(share, 4) == drawn


@pytest.mark.parametrize(
    ("usd", "text"),
    [(None, "unknown"), (0.0123, "$0.0123"), (0.0000001, "$0.0001"), (12.3456, "$12.35")],
)
def test_a_cost_is_never_a_zero_that_means_unknown(usd: float | None, text: str) -> None:
    assert lines.cost_text(usd) == text


@pytest.mark.parametrize(
    ("tokens", "text"),
    [(0, "0"), (999, "999"), (1_000, "1.0k"), (9_999, "10.0k"), (31_204, "31k"), (1_250_000, "1.2M")],
)
def test_short_token_counts(tokens: int, text: str) -> None:
    assert lines.short(tokens) == text


def test_a_call_that_is_cut_still_tells_its_exit_code_and_time() -> None:
    call = {
        "name": "shell",
        "ok": False,
        "digest": "ran `python3 -m unittest discover -s tests -v`: exit 1, 13 lines, 636 bytes",
        "exit_code": 1,
        "duration_ms": 2_140,
    }
    assert plain(lines.call_line(call, 100)) == f"  ✗ {call['digest']} · 2.1 s"
    short = plain(lines.call_line(call, 39))
    assert width(short) <= 39
    assert short.endswith(" · exit 1 · 2.1 s")


def test_a_digest_cannot_break_its_line() -> None:
    call = {"name": "shell", "ok": True, "digest": "ran `a\n\x1b[2Kb`", "duration_ms": 1}
    assert plain(lines.call_line(call, None)) == "  ✓ ran `a \\x1b[2Kb` · 1 ms"


def test_a_compaction_says_what_became_of_the_turns() -> None:
    fields = {
        "changed": True,
        "before": 3_534,
        "after": 2_063,
        "kept_turns": 2,
        "masked_turns": 1,
        "removed_turns": 4,
        "tight": True,
        "archive": "@run/archive/0001.md",
    }
    text = lines.compaction_text(fields)
    assert text == (
        "compacted 3,534 → 2,063 tokens · turns: 2 kept, 1 masked, 4 removed · tight · @run/archive/0001.md"
    )
    wide = {**fields, "before": 123_456, "after": 61_234}
    for columns in (37, 60, 77, 100):
        assert width(lines.compaction_text(wide, columns)) <= columns
    assert lines.compaction_text(wide, 37) == "compacted 123k → 61k · 5 turns cut"
    failed = lines.compaction_text({"changed": False, "before": 10, "after": 9, "failure": "tail"})
    assert failed == "compaction could not help (tail): 10 → 9 tokens at best"


def test_many_changed_files_are_counted() -> None:
    files = [{"path": f"f{n}.py", "added": n, "removed": 0} for n in range(13)]
    rows = list(lines.summary_rows({"run_id": "r", "files_changed": files}))
    assert rows[0] == ("files", "f0.py +0 -0")
    assert rows[-1] == ("", "and 3 more")


@pytest.mark.parametrize(
    ("reason", "detail", "first"),
    [
        ("answered", None, 'chimera resume r "..."'),
        ("max_steps", None, "chimera resume r"),
        ("interrupted", "SIGINT", "chimera resume r"),
        ("cannot_shrink", "tail", "chimera resume r --window TOKENS"),
        ("cannot_shrink", "floor", "chimera floor"),
        ("internal_error", None, "chimera show r"),
    ],
)
def test_what_to_type_next_depends_on_why_it_stopped(reason: str, detail: str | None, first: str) -> None:
    result = {"run_id": "r", "stop_reason": reason, "stop_detail": detail, "files_changed": [{"path": "a"}]}
    commands = [command for command, _ in lines.next_commands(result)]
    assert commands[0] == first
    assert ("chimera undo r" in commands) is (detail != "floor")


def test_a_summary_tells_how_the_last_check_ended() -> None:
    check = {"name": "verify", "ok": False, "digest": "ran `pytest`: exit 1"}
    assert ("check", "FAILED: ran `pytest`: exit 1") in list(lines.summary_rows({}, check))


def test_commands_without_a_name_mean_the_last_run() -> None:
    commands = [
        command for command, _ in lines.next_commands({"run_id": "r", "stop_reason": "answered"}, named=False)
    ]
    assert commands == ['chimera resume "..."', "chimera show"]
