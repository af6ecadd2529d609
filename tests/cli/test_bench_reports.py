from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from chimera.bench.new_task import write_task

pytestmark = pytest.mark.slow

TASKS = Path(__file__).parents[2] / "tasks"
HELLO = TASKS / "basics" / "hello-file"
Chimera = Callable[..., Any]
Script = Callable[[Sequence[dict[str, Any]]], str]

NOTICE = "Mañana 06:15: database read-only\nBack at 07:40 - thanks!\n"
SOLVES: list[dict[str, Any]] = [
    {"call": "write_file", "arguments": {"path": "notices/maintenance.txt", "content": NOTICE}},
    {"text": "Written."},
]


@pytest.fixture
def run(tmp_path: Path, chimera: Chimera, script: Script) -> Path:
    """A job of one trial that passed."""
    folder = tmp_path / "run"
    ended = chimera(
        "bench", str(HELLO), "-m", script(SOLVES), "-o", str(folder), "--keep", "all", "--isolation", "copy"
    )
    assert ended.code == 0
    return folder


def test_a_job_can_be_reported_on_in_every_form(chimera: Chimera, run: Path, tmp_path: Path) -> None:
    ended = chimera("bench", "report", str(run), "--html", str(tmp_path / "page.html"))
    assert ended.code == 0
    assert "| basics | chimera | 1/1 | 1 | 100.0% [20.7, 100.0] |" in ended.out
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    ended = chimera("bench", "report", str(run), "--output-format", "json")
    assert ended.result["suites"][0]["rate"] == 1


def test_a_report_on_half_a_job_says_so_by_its_exit_code(chimera: Chimera, run: Path) -> None:
    record = json.loads((run / "job.json").read_text())
    (run / "job.json").write_text(json.dumps({**record, "planned": [*record["planned"], "more"]}))
    ended = chimera("bench", "report", str(run))
    assert ended.code == 3
    assert "1 of 2 planned trials have no grade" in ended.out


def test_a_job_in_the_state_directory_is_known_by_its_name(chimera: Chimera, tmp_path: Path) -> None:
    chimera("bench", str(HELLO), "--agent", "noop", "--isolation", "copy")
    (job,) = (tmp_path / "state" / "bench").iterdir()
    assert chimera("bench", "report", job.name).code == 0
    assert chimera("bench", "report", "no-such-job").code == 2


def test_two_jobs_can_be_compared(chimera: Chimera, run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    chimera("bench", str(HELLO), "--agent", "noop", "-o", str(other), "--isolation", "copy")
    ended = chimera("bench", "compare", str(run), str(other), "--output-format", "json")
    (found,) = ended.result["comparisons"]
    assert (ended.code, found["pairs"], found["difference"]) == (0, 1, -1)
    assert "McNemar exact p 1 (A only 1, B only 0)" in chimera("bench", "compare", str(run), str(other)).out
    assert chimera("bench", "compare", str(run)).code == 2


def test_arms_of_a_sweep_are_trials_of_one_job(chimera: Chimera, script: Script, tmp_path: Path) -> None:
    ended = chimera(
        *("bench", str(HELLO), "-m", script(SOLVES), "--sweep", "compact_schemas=false,true"),
        *("--isolation", "copy", "--set", "compaction=mask"),
        *("--window", "8000", "--output-format", "json", "-o", str(tmp_path / "out")),
    )
    assert [(row["arm"], row["context"]["window"], row["passed"]) for row in ended.result["rows"]] == [
        ("chimera-compact_schemas-false", 8000, True),
        ("chimera-compact_schemas-true", 8000, True),
    ]
    full, compact = (row["context"]["floor"] for row in ended.result["rows"])
    assert compact < full
    arms = json.loads((tmp_path / "out" / "job.json").read_text())["settings"]["arms"]
    assert arms["chimera-compact_schemas-true"]["compact_schemas"] is True
    assert arms["chimera-compact_schemas-true"]["compaction"] == "mask"
    assert "scripted" in arms["chimera-compact_schemas-true"]["model"]
    (found,) = chimera("bench", "compare", str(tmp_path / "out"), "--output-format", "json").result[
        "comparisons"
    ]
    assert (found["pairs"], found["difference"]) == (1, 0)


def test_what_was_left_behind_can_be_graded_with_other_tests(
    chimera: Chimera, tmp_path: Path, script: Script
) -> None:
    folder = write_task("acme/sums", tmp_path / "suite")
    model = script(
        [
            {"call": "write_file", "arguments": {"path": "sum.txt", "content": "26\n"}},
            {"text": "Done."},
        ]
    )
    run = tmp_path / "run"
    chimera("bench", str(folder), "-m", model, "-o", str(run), "--isolation", "copy", "-k", "2")
    tests = folder / "tests" / "test_outputs.py"
    tests.write_text(tests.read_text().replace('"25', '"26'))
    ended = chimera(
        "bench", "regrade", str(run), str(folder), "--isolation", "copy", "--output-format", "json"
    )
    assert ended.code == 0
    assert [row["reward"] for row in ended.result["rows"]] == [1, 1]
    assert ended.result["changed"][0] == "sums.chimera.1: graded 0 -> graded 1"
    old, new = (json.loads((tmp_path / name / "job.json").read_text()) for name in ("run", "run-regraded"))
    assert old["tasks"] != new["tasks"]
    assert new["settings"]["regraded_from"] == "run"
    assert json.loads((run / "results.jsonl").read_text().splitlines()[0])["reward"] == 0


def test_a_tree_that_was_not_kept_cannot_be_graded_again(chimera: Chimera, tmp_path: Path) -> None:
    run = tmp_path / "run"
    chimera("bench", str(HELLO), "--agent", "oracle", "-o", str(run), "--isolation", "copy")
    ended = chimera("bench", "regrade", str(run), str(HELLO), "--isolation", "copy")
    assert ended.code == 3
    assert "its working tree was not kept; run with --keep all" in ended.out


def test_trajectories_are_written_step_by_step(chimera: Chimera, run: Path, tmp_path: Path) -> None:
    moved = run.rename(tmp_path / "moved")
    ended = chimera("bench", "export", str(moved), str(tmp_path / "atif"), "--atif")
    assert ended.code == 0
    found = json.loads((tmp_path / "atif" / "hello-file.chimera.1.json").read_text())
    assert [step["step_id"] for step in found["steps"]] == [1, 2, 3, 4]
    assert [step["source"] for step in found["steps"]] == ["system", "user", "agent", "agent"]
    (call,) = found["steps"][2]["tool_calls"]
    assert call["arguments"]["content"] == NOTICE
    (result,) = found["steps"][2]["observation"]["results"]
    assert result["source_call_id"] == call["tool_call_id"]
    assert "notices/maintenance.txt" in result["content"]
    assert found["steps"][3]["message"] == "Written."
    assert found["final_metrics"]["total_steps"] == 2


def test_a_job_is_written_as_harbor_reads_it(chimera: Chimera, run: Path, tmp_path: Path) -> None:
    target = tmp_path / "harbor"
    assert chimera("bench", "export", str(run), str(target), "--harbor").code == 0
    trial = json.loads((target / "hello-file.chimera.1" / "result.json").read_text())
    assert trial["verifier_result"] == {"rewards": {"reward": 1.0}}
    assert trial["agent_result"]["n_output_tokens"] > 0
    assert (target / "hello-file.chimera.1" / "verifier" / "reward.txt").read_text() == "1\n"
    assert (target / "hello-file.chimera.1" / "agent" / "trajectory.json").exists()
    assert json.loads((target / "result.json").read_text())["n_total_trials"] == 1
    assert chimera("bench", "export", str(run), str(target), "--harbor").code == 2
    assert chimera("bench", "export", str(run), str(tmp_path / "x")).code == 2


def test_a_new_task_is_in_order(chimera: Chimera, tmp_path: Path) -> None:
    ended = chimera("bench", "new", "acme/sums", "--in", str(tmp_path / "suite"))
    assert ended.code == 0
    folder = str(tmp_path / "suite" / "sums")
    assert folder in ended.out
    ended = chimera("bench", "check", folder, "--lint", "--output-format", "json")
    assert (ended.code, ended.result["passed"]) == (0, True)
    (tmp_path / "suite" / "sums" / "NOTES.md").unlink()
    ended = chimera("bench", "check", folder, "--lint")
    assert ended.code == 4
    assert "acme/sums: FAILED\n  NOTES.md: is missing" in ended.out


def test_tasks_can_be_listed_and_chosen(chimera: Chimera) -> None:
    everything = chimera("bench", "list", str(TASKS), "--output-format", "json").result["tasks"]
    basics = chimera("bench", "list", str(TASKS), "--suite", "basics", "--exclude", "hello-*").out
    assert "chimera/off-by-one" in basics
    assert "chimera/hello-file" not in basics
    hard = chimera("bench", "list", str(TASKS), "--tag", "hard", "--output-format", "json").result["tasks"]
    assert 0 < len(hard) < len(everything)
    ended = chimera("bench", "list", str(TASKS), "--suite", "none")
    assert ended.code == 2
    assert f"none of the {len(everything)} tasks is chosen; suites: basics" in ended.err
