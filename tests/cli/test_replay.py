"""`chimera replay`: the report about recorded runs at other windows."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from chimera.cli.cells import width
from chimera.cli.curve import MARGIN, Curve
from chimera.cli.replay import show_replays
from chimera.cli.terminal import Terminal
from chimera.config import state_dir
from chimera.core.tokens import TokenCounter
from chimera.replay import read_recording, recorded_budget, replay
from tests.cli.command import UNCONFINED, Chimera, Script


class Page(Terminal):
    """A terminal of a given width, without colours, whose lines can be read."""

    def __init__(self, columns: int) -> None:
        self.stream = io.StringIO()
        super().__init__(self.stream, {"NO_COLOR": "1"})
        self._columns = columns - 1

    @property
    @override
    def columns(self) -> int:
        return self._columns

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


@pytest.fixture
def run_id(repository: Path, chimera: Chimera, script: Script) -> str:
    text = "".join(f"line {n} of the gull count: {n * 7919}\n" for n in range(2_000))
    (repository / "gulls.txt").write_text(text, encoding="utf-8")
    ranges = [{"path": "gulls.txt", "start_line": 1 + 60 * n, "line_count": 60} for n in range(30)]
    model = script([*({"call": "read_file", "arguments": one} for one in ranges), {"text": "ok"}])
    ended = chimera(
        "run", "Count the \x1b[1mgulls", "--model", model, *UNCONFINED, "--window", "9000", "--output-format", "json"
    )  # fmt: skip
    assert ended.code == 0
    return str(ended.result["run_id"])


def replays(ended: Any) -> list[dict[str, Any]]:
    return [one for run in ended.result["runs"] for one in run["replays"]]


def test_the_json_has_one_replay_for_every_window_share_and_mode(run_id: str, chimera: Chimera) -> None:
    options = ["--window", "6000,64000", "--budget-fraction", "0.6,0.85", "--compaction", "mask,note,mask"]
    ended = chimera("replay", *options, "--output-format", "json")
    (run,) = ended.result["runs"]
    assert (run["run_id"], run["steps"]) == (run_id, 31)
    rows = replays(ended)
    assert [(row["window"], row["budget_fraction"], row["mode"]) for row in rows] == [
        (window, share, mode) for window in (6_000, 64_000) for share in (0.6, 0.85) for mode in ("mask", "note")
    ]  # fmt: skip
    assert list(rows[0]) == [
        "window", "budget_fraction", "budget", "trigger", "mode", "steps", "stop", "compactions", "gap",
        "peak_prompt_tokens", "prompt_tokens_sent", "cacheable_share", "floor_share", "archive_bytes", "curve", "compacted_at",
    ]  # fmt: skip
    assert (rows[0]["budget"], rows[0]["trigger"]) == (3_600, 2_880)
    for row in rows:
        assert row["peak_prompt_tokens"] == max(row["curve"]) < row["trigger"]
        assert row["prompt_tokens_sent"] == sum(row["curve"])
        assert len(row["compacted_at"]) == row["compactions"]
        assert 0 < row["cacheable_share"] <= 1
        assert 0 < row["floor_share"] < 1
        assert (row["archive_bytes"] > 0) is (row["compactions"] > 0)
    small, large = rows[0], rows[-1]
    assert small["compactions"] > large["compactions"] == 0
    assert large["gap"] is None


def test_the_recorded_window_gives_what_the_run_had(run_id: str, chimera: Chimera) -> None:
    shown = chimera("show", run_id, "--output-format", "json").result
    (row,) = replays(chimera("replay", "--window", "9000", "--compaction", "note", "--output-format", "json"))
    assert row["curve"] == [step["prompt_tokens"] for step in shown["steps"]]
    assert row["compactions"] == shown["result"]["context"]["compactions"]


def test_the_report_on_a_pipe_is_a_table_and_a_curve_for_each_replay(run_id: str, chimera: Chimera) -> None:
    options = ["--window", "6000,16000", "--compaction", "note"]
    rows = replays(chimera("replay", *options, "--output-format", "json"))
    shown = chimera("replay", *options)
    assert (shown.code, shown.err) == (0, "")
    assert "\x1b" not in shown.out
    assert f"run {run_id} · 31 steps" in shown.out
    assert "task: Count the \\x1b[1mgulls" in shown.out
    heading, *table = shown.out.split("\n\n")[1].splitlines()
    assert heading.split() == [
        "window", "share", "mode", "steps", "comp.", "gap", "peak", "floor", "re-sent", "cached", "archive", "stop",
    ]  # fmt: skip
    assert len({len(line) for line in (heading, *table)}) == 1
    for line, row in zip(table, rows, strict=True):
        cells = line.split()
        assert cells[0] == f"{row['window']:,}"
        assert cells[3:5] == [str(row["steps"]), str(row["compactions"])]
        assert cells[6] == f"{row['peak_prompt_tokens']:,}"
    for row, curve in zip(rows, shown.out.split("\n\n")[2:], strict=True):
        assert (
            f"trigger T {row['trigger']:,}, budget B {row['budget']:,}, window W {row['window']:,}" in curve
        )
        bars = [line for line in curve.splitlines() if "█" in line]
        largest = [max(row["curve"][n : n + 2]) for n in range(0, 31, 2)]
        assert [int(bar.split()[-1].replace(",", "")) for bar in bars] == largest
        marked = [n for n, bar in enumerate(bars) if "↺" in bar]
        assert marked == sorted({place // 2 for place in row["compacted_at"]})
        assert "2 steps a row" in curve


def test_a_replay_that_stops_says_where(run_id: str, chimera: Chimera) -> None:
    shown = chimera("replay", "--window", "1000", "--compaction", "note").out
    assert (
        shown.splitlines()[-1] == "window 1,000, note: stopped before its first step, cannot_shrink (floor)"
    )
    assert "█" not in shown
    assert replays(chimera("replay", "--window", "1000", "--output-format", "json"))[0]["stop"] == "floor"


def test_curves_can_be_left_out(run_id: str, chimera: Chimera) -> None:
    assert "█" not in chimera("replay", "--no-curve").out
    assert "64,000" in chimera("replay", "--no-curve").out


def test_several_runs_are_named_by_id_beginning_or_folder(
    run_id: str, chimera: Chimera, script: Script
) -> None:
    second = chimera(
        "run", "x", "--model", script([{"text": "ok"}]), *UNCONFINED, "--output-format", "json"
    ).result
    where = second["run_dir"]
    ended = chimera("replay", run_id, where, run_id, "--window", "8000", "--output-format", "json")
    assert [run["run_id"] for run in ended.result["runs"]] == [run_id, second["run_id"]]
    last = chimera("replay", "--window", "8000", "--output-format", "json").result["runs"]
    assert [run["run_id"] for run in last] == [second["run_id"]]
    shown = chimera("replay", run_id, where, "--window", "8000").out
    assert f"run {run_id}" in shown
    assert f"run {second['run_id']} · 1 step\n" in shown


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--window", "4k"], "'4k'"),
        (["--window", "0"], "'0'"),
        (["--window", "-5"], "'-5'"),
        (["--window", "8000,,x"], "'x'"),
        (["--window", ","], "--window is empty"),
        (["--compaction", "summary"], "'summary'"),
        (["--budget-fraction", "1.5"], "'1.5'"),
        (["--budget-fraction", "nan"], "'nan'"),
        (["--budget-fraction", "half"], "'half'"),
        (["1999"], "1999"),
    ],
)
def test_what_cannot_be_played_ends_with_2_and_is_named(
    run_id: str, chimera: Chimera, options: list[str], said: str
) -> None:
    ended = chimera("replay", *options)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    as_json = chimera("replay", *options, "--output-format", "json")
    assert as_json.result["exit_code"] == 2


def test_a_broken_record_ends_with_2(run_id: str, chimera: Chimera) -> None:
    record = Path(state_dir(), "runs", run_id, "events.jsonl")
    record.write_text('{"type":"run_started","task":"x"}\n', encoding="utf-8")
    ended = chimera("replay", run_id)
    assert (ended.code, ended.out) == (2, "")
    assert run_id in ended.err


def test_without_any_run_it_says_so(chimera: Chimera) -> None:
    ended = chimera("replay")
    assert ended.code == 2
    assert "no run is recorded" in ended.err


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_nothing_is_cut_or_wider_than_the_terminal(run_id: str, columns: int) -> None:
    recording = read_recording(Path(state_dir(), "runs", run_id))
    budget = recorded_budget(recording)
    played = [(budget, replay(recording, budget, TokenCounter()))]
    page = Page(columns)
    show_replays(page, recording, played, curves=True)
    assert max(map(width, page.lines)) < columns
    assert not any("…" in line for line in page.lines)
    bars = [line for line in page.lines if "█" in line]
    assert len(bars) == 16
    assert all(bar.rstrip()[-5:].lstrip().replace(",", "").isdecimal() for bar in bars)
    text = " ".join(" ".join(page.lines).split())
    for said in ("re-sent", "archive", f"W {budget.window.tokens:,}", "↺ compacted before it", "steps a row"):
        assert said in text


@pytest.mark.parametrize("columns", [39, 79, None])
def test_a_bar_ends_where_its_size_lies_on_the_ruler(columns: int | None) -> None:
    curve = Curve(window=10_000, budget=6_000, trigger=4_800, columns=columns)
    ruler = curve.ruler
    assert [ruler.find(name) for name in "TBW"] == sorted(ruler.find(name) for name in "TBW")
    assert len(ruler) == curve.cells == min(48, (columns or 80) - MARGIN)
    for name, size in (("T", 4_800), ("B", 6_000), ("W", 10_000)):
        assert curve.bar(size).count("█") == ruler.find(name) + 1
    assert curve.bar(1).count("█") == 1
    assert curve.bar(99_999) == "█" * curve.cells
    assert {len(curve.bar(size)) for size in range(0, 12_000, 500)} == {curve.cells}
