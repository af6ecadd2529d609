from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

TASKS = Path(__file__).parents[2] / "tasks"
HELLO = TASKS / "basics" / "hello-file"
Chimera = Callable[..., Any]
Script = Callable[[Sequence[dict[str, Any]]], str]

NOTICE = "Mañana 06:15: database read-only\nBack at 07:40 - thanks!\n"


def test_the_oracle_solves_every_task_of_a_suite(chimera: Chimera) -> None:
    ended = chimera(
        "bench", str(TASKS / "basics"), "--agent", "oracle", "--fail-under", "1", "--output-format", "json"
    )
    assert ended.code == 0
    assert {row["reward"] for row in ended.result["rows"]} == {1.0}
    assert ended.result["summary"]["pass_rate"] == 1.0


def test_nobody_solves_none_and_that_is_below_any_rate(chimera: Chimera) -> None:
    ended = chimera("bench", str(HELLO), "--agent", "noop", "--fail-under", "0.1", "--output-format", "json")
    assert ended.code == 1
    assert [row["reward"] for row in ended.result["rows"]] == [0.0]


def test_without_a_rate_a_failed_task_is_a_finished_benchmark(chimera: Chimera) -> None:
    assert chimera("bench", str(HELLO), "--agent", "noop").code == 0


def test_the_table_is_on_standard_output_and_the_progress_beside_it(chimera: Chimera, tmp_path: Path) -> None:
    output = tmp_path / "results"
    ended = chimera("bench", str(HELLO), "--agent", "oracle", "-k", "2", "-o", str(output))
    assert [line.split()[:4] for line in ended.out.splitlines()[1:3]] == [
        ["chimera/hello-file", "1", "graded", "1"],
        ["chimera/hello-file", "2", "graded", "1"],
    ]
    assert "[2/2] hello-file.oracle.2: graded, reward 1\n" in ended.err
    assert f"results: {output}\n" in ended.err
    assert len((output / "results.jsonl").read_text().splitlines()) == 2


def test_results_go_to_the_state_directory_by_default(chimera: Chimera, tmp_path: Path) -> None:
    chimera("bench", str(HELLO), "--agent", "noop")
    (job,) = (tmp_path / "state" / "bench").iterdir()
    assert json.loads((job / "summary.json").read_text())["planned"] == 1


def test_a_scripted_model_is_graded_like_any_other(chimera: Chimera, script: Script) -> None:
    model = script(
        [
            {"call": "write_file", "arguments": {"path": "notices/maintenance.txt", "content": NOTICE}},
            {"text": "Written."},
        ]
    )
    ended = chimera(
        "bench", str(HELLO), "-m", model, "-k", "2", "--window", "30000", "--output-format", "json"
    )
    assert ended.code == 0
    rows = ended.result["rows"]
    assert [(row["reward"], row["steps"], row["model"]) for row in rows] == [(1.0, 2, model)] * 2
    assert [row["context"]["window"] for row in rows] == [30_000, 30_000]


def test_a_trial_without_a_grade_makes_the_benchmark_incomplete(chimera: Chimera, script: Script) -> None:
    model = script([{"error": "auth", "message": "no such key"}])
    ended = chimera("bench", str(HELLO), "-m", model, "--output-format", "json")
    assert ended.code == 3
    assert ended.result["rows"][0]["status"] == "provider_error"
    assert "no such key" in ended.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["/nonexistent", "--agent", "noop"], "'/nonexistent' is not a folder", id="no folder"),
        pytest.param([str(TASKS.parent / "chimera"), "--agent", "noop"], "there is no task in", id="no task"),
        pytest.param([str(HELLO), "--agent", "nobody"], "nobody", id="unknown agent"),
        pytest.param(
            [str(HELLO), "--agent", "noop", "-k", "0"], "'-k': 0 is not in the range", id="no attempt"
        ),
        pytest.param(
            [str(HELLO), "--agent", "noop", "--fail-under", "1.5"],
            "'--fail-under': 1.5 is not in the range",
            id="rate",
        ),
        pytest.param(
            [str(HELLO), "--agent", "noop", "--fail-under", "nan"], "it must be from 0 to 1", id="no rate"
        ),
        pytest.param(
            [str(HELLO), "-m", "scripted:x", "--job-max-cost", "-1"], "-1.0; it must be above 0", id="cost"
        ),
        pytest.param(
            [str(HELLO), "--agent", "noop", "--job-max-cost", "1"], "which costs nothing", id="free agent"
        ),
        pytest.param(
            [str(HELLO), "-m", "scripted:x", "--set", "sandbox=danger-full-access"],
            "sandbox cannot be set: the row says how",
            id="sandbox",
        ),
        pytest.param(
            [str(HELLO), "--agent", "noop", "--html", "/nonexistent/page.html"],
            "there is no folder to write that file to",
            id="page",
        ),
        pytest.param(
            [str(HELLO), "--agent", "oracle", "-m", "x"], "--model says nothing to --agent oracle", id="m"
        ),
        pytest.param(
            [str(HELLO), "-m", "scripted:/nonexistent"], "'/nonexistent' does not exist", id="no script"
        ),
        pytest.param(
            [str(HELLO), "-m", "scripted:x", "--window", "0"], "window is 0; it must be a whole", id="w"
        ),
        pytest.param([str(HELLO), "-m", "openai/gpt-4o"], "needs a key", id="no key"),
    ],
)
def test_a_bad_call_is_told_and_nothing_is_run(
    chimera: Chimera, tmp_path: Path, arguments: list[str], said: str
) -> None:
    ended = chimera("bench", *arguments, "--output-format", "json")
    assert ended.code == 2
    assert said in ended.err
    assert ended.result["exit_code"] == 2
    assert not (tmp_path / "state" / "bench").exists()


def test_a_bad_task_is_told_with_its_file_and_key(chimera: Chimera, tmp_path: Path) -> None:
    shutil.copytree(HELLO, tmp_path / "bad")
    file = tmp_path / "bad" / "task.toml"
    file.write_text(file.read_text().replace("max_steps = 10", "max_steps = 'ten'"))
    ended = chimera("bench", str(tmp_path / "bad"), "--agent", "oracle")
    assert (ended.code, ended.out) == (2, "")
    assert f"{file}: metadata.chimera.max_steps is 'ten'; it must be a whole number, 1 or more" in ended.err


def test_results_are_not_mixed_with_those_of_another_job(chimera: Chimera, tmp_path: Path) -> None:
    arguments = ("bench", str(HELLO), "--agent", "noop", "-o", str(tmp_path / "out"))
    assert chimera(*arguments).code == 0
    ended = chimera(*arguments)
    assert ended.code == 2
    assert "holds results already" in ended.err
