"""The commands that only look: floor, schema-bench, runs, show, diff."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from chimera.config import state_dir
from tests.cli.command import UNCONFINED, Chimera, Script

FIX: dict[str, Any] = {
    "text": "I fix it.",
    "call": "edit_file",
    "arguments": {"path": "calc.py", "edits": [{"old": "a - b", "new": "a + b"}]},
}
FAIL: dict[str, Any] = {"call": "shell", "arguments": {"command": "echo broken; exit 3"}}


@pytest.fixture
def run_id(repository: Path, chimera: Chimera, script: Script) -> str:
    model = script([FIX, FAIL, {"text": "Fixed."}])
    ended = chimera(
        "run", "Fix \x1b[1madd()\nplease", "--model", model, *UNCONFINED, "--output-format", "json"
    )
    assert ended.code == 0
    return str(ended.result["run_id"])


def record(run_id: str) -> Path:
    return Path(state_dir(), "runs", run_id, "events.jsonl")


def kill(run_id: str) -> None:
    """Cut a record as if its process had died in the middle of a call and of a line."""
    lines = record(run_id).read_text(encoding="utf-8").splitlines(keepends=True)
    cut = max(n for n, line in enumerate(lines) if '"type":"tool_started"' in line) + 1
    record(run_id).write_text("".join([*lines[:cut], '{"seq":99,"ty']), encoding="utf-8")


def test_the_floor_has_the_documented_json_and_needs_no_key(repository: Path, chimera: Chimera) -> None:
    floor = chimera("floor", "--model", "openai/gpt-4o", "--output-format", "json").result
    assert list(floor) == ["window", "budget", "trigger", "floor", "compact_total", "fits"]
    assert (floor["window"], floor["budget"], floor["trigger"]) == (128_000, 76_800, 61_440)
    assert floor["floor"]["total"] == floor["floor"]["system"] + sum(floor["floor"]["tools"].values())
    assert floor["floor"]["total"] <= 1_100
    assert floor["compact_total"] <= floor["floor"]["total"]
    assert floor["fits"] is True


def test_the_floor_is_the_one_of_a_run(repository: Path, chimera: Chimera, script: Script) -> None:
    options = ["--window", "9000", "--tools", "shell,read_file", "--compact-schemas"]
    floor = chimera("floor", *options, "--output-format", "json").result
    ended = chimera(
        "run", "x", "--model", script([{"text": "ok"}]), *UNCONFINED, *options, "--output-format", "json"
    )
    context = ended.result["context"]
    assert floor["floor"] == context["floor"]
    assert (floor["window"], floor["budget"], floor["trigger"]) == (9_000, 5_400, 4_320)


def test_a_floor_that_does_not_fit_is_said(repository: Path, chimera: Chimera) -> None:
    assert chimera("floor", "--window", "1000", "--output-format", "json").result["fits"] is False
    shown = chimera("floor", "--window", "1000")
    assert shown.code == 0
    assert "does not fit" in shown.out
    assert "edit_file" in shown.out
    assert "unknown: --model or --window" in chimera("floor").out


def test_schema_bench_counts_every_tool(repository: Path, chimera: Chimera) -> None:
    counted = chimera("schema-bench", "--output-format", "json").result
    assert list(counted)[:3] == ["tools", "full_tokens", "compact_tokens"]
    assert counted["tools"][0]["name"] == "read_file"
    assert counted["full_tokens"] == sum(tool["full_tokens"] for tool in counted["tools"])
    assert 0 < counted["compact_tokens"] <= counted["full_tokens"]
    table = chimera("schema-bench").out
    assert f"{counted['full_tokens']:,}" in table
    assert "window 32k" in table


def test_runs_lists_the_newest_last(run_id: str, chimera: Chimera, script: Script) -> None:
    chimera("run", "again", "--model", script([FAIL]), *UNCONFINED, "--max-steps", "1")
    listed = chimera("runs")
    first, second = listed.out.splitlines()
    assert first.startswith(run_id)
    assert "answered" in first
    assert "Fix \\x1b[1madd()" in first
    assert "please" not in first
    assert "max_steps" in second
    rows = chimera("runs", "--limit", "1", "--output-format", "json").result["runs"]
    assert [(row["state"], row["steps"], row["task"]) for row in rows] == [("max_steps", 1, "again")]


def test_no_runs_are_no_error(chimera: Chimera) -> None:
    listed = chimera("runs")
    assert (listed.code, listed.out) == (0, "")
    assert "No run is recorded" in listed.err


def test_show_tells_steps_calls_curve_and_end(run_id: str, chimera: Chimera) -> None:
    shown = chimera("show", run_id[:12])
    assert shown.code == 0
    for text in (
        f"run {run_id}",
        "task: Fix \\x1b[1madd()",
        "step 1 · ",
        "I fix it.",
        "✓ edited calc.py +1 -1",
        "✗ ran `echo broken; exit 3`: exit 3",
        "context: tokens of each request against trigger",
        "answered after 3 steps",
        "Fixed.",
    ):
        assert text in shown.out
    assert "\x1b" not in shown.out


def test_show_draws_a_bar_for_each_request_and_marks_compactions(
    repository: Path, chimera: Chimera, script: Script
) -> None:
    looks = [{"call": "shell", "arguments": {"command": f"seq {n}00 {n}99"}} for n in range(1, 10)]
    model = script([*looks, {"text": "ok"}])
    ended = chimera("run", "x", "--model", model, *UNCONFINED, "--window", "6000", "--output-format", "json")
    assert ended.result["context"]["compactions"] >= 1
    report = chimera("show", "--output-format", "json").result
    sizes = [step["prompt_tokens"] for step in report["steps"]]
    assert max(sizes) == ended.result["context"]["peak_prompt_tokens"]
    assert sum(len(step["compactions"]) for step in report["steps"]) == ended.result["context"]["compactions"]
    curve = chimera("show").out.partition("context: ")[2]
    bars = [line for line in curve.splitlines() if "█" in line]
    assert [int(bar.split()[-1].replace(",", "")) for bar in bars] == sizes
    assert sum("↺" in bar for bar in bars) == ended.result["context"]["compactions"]
    longest, shortest = max(bars, key=lambda bar: bar.count("█")), min(bars, key=lambda bar: bar.count("█"))
    assert int(longest.split()[-1].replace(",", "")) > int(shortest.split()[-1].replace(",", ""))


def test_a_run_that_died_is_shown_as_such(run_id: str, chimera: Chimera) -> None:
    kill(run_id)
    assert " died " in chimera("runs").out
    shown = chimera("show")
    assert "shell: no result is recorded" in shown.out
    assert "The run died after 2 steps" in shown.out
    assert chimera("show", "--output-format", "json").result["result"] is None


def test_diff_is_the_patch_of_the_run_and_of_nothing_else(
    run_id: str, repository: Path, chimera: Chimera
) -> None:
    (repository / "later.py").write_text("mine\n", encoding="utf-8")
    patch = chimera("diff", run_id)
    assert patch.code == 0
    assert "-    return a - b\n+    return a + b\n" in patch.out
    assert "later.py" not in patch.out
    assert chimera("diff", "--stat").out == "calc.py +1 -1\n"
    (repository / "calc.py").write_text("def add(a, b):\n    return a - b\n", encoding="utf-8")
    subprocess.run(["git", "apply"], cwd=repository, input=patch.out.encode(), check=True)
    assert "a + b" in (repository / "calc.py").read_text(encoding="utf-8")


def test_the_diff_of_a_run_that_died_is_against_the_workspace_as_it_is(
    run_id: str, repository: Path, chimera: Chimera
) -> None:
    kill(run_id)
    patch = chimera("diff")
    assert "+    return a + b" in patch.out
    assert "as it is now" in patch.err


def test_an_unknown_run_ends_with_2_and_names_the_known(run_id: str, chimera: Chimera) -> None:
    ended = chimera("diff", "1999")
    assert ended.code == 2
    assert run_id in ended.err


def test_a_record_that_is_no_record_is_told(run_id: str, chimera: Chimera) -> None:
    record(run_id).write_bytes(b"\x00" * 64 + json.dumps({"type": "run_started"}).encode() + b"\n[1]\n")
    assert chimera("show", run_id).code == 0
    assert chimera("runs").code == 0
    record(run_id).unlink()
    assert chimera("show", run_id).code == 2
    assert "cannot be read" in chimera("runs").err
