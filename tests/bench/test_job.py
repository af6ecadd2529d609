from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from chimera.bench.agents import BenchAgent, Chimera, Desk, NoOp, Oracle, Work
from chimera.bench.job import Arm, Job, arm_names, new_output
from chimera.bench.report import Report
from chimera.bench.row import Phase, Row
from chimera.bench.task import BenchTask
from chimera.bench.trial import Trial
from chimera.errors import ConfigError, RecordError
from chimera.testing import ScriptedModel, call

MakeTask = Callable[..., BenchTask]


def job(tasks: list[BenchTask], agent: BenchAgent, output: Path, *, attempts: int = 1) -> Job:
    return Job(tasks=tuple(tasks), arms=(Arm.of(agent),), output=output, isolation="copy", attempts=attempts)


def lines(output: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (output / "results.jsonl").read_text().splitlines()]


@dataclass(frozen=True)
class Raising:
    """Works like the oracle for some trials, then raises."""

    fault: BaseException
    after: int = 0
    done: list[str] = field(default_factory=list)
    name: str = "raising"
    model: str | None = None

    def check(self, task: BenchTask) -> None:
        pass

    def work(self, task: BenchTask, desk: Desk) -> Work:
        if len(self.done) >= self.after:
            raise self.fault
        self.done.append(task.name)
        return Oracle().work(task, desk)


def test_every_planned_trial_has_one_row_on_disk(make_task: MakeTask, tmp_path: Path) -> None:
    tasks = [make_task(), make_task({"solution/solve.sh": "echo 5 >answer.txt"}, name="other")]
    seen: list[tuple[str, int]] = []
    output = tmp_path / "out"

    def count(row: Row) -> None:
        seen.append((row.trial, len(lines(output))))

    report = Job(
        tasks=tuple(tasks),
        arms=(Arm.of(Oracle()),),
        output=output,
        isolation="copy",
        attempts=2,
        on_row=count,
    ).run()
    names = ["mini.oracle.1", "mini.oracle.2", "other.oracle.1", "other.oracle.2"]
    assert seen == list(zip(names, range(1, 5), strict=True))
    assert lines(output) == [json.loads(json.dumps(row.fields())) for row in report.rows]
    assert sorted(path.name for path in (output / "trials").iterdir()) == names
    assert json.loads((output / "summary.json").read_text()) == report.summary()
    assert (report.passed, report.pass_rate) == (2, 0.5)


def test_a_row_has_every_field_in_the_order_of_the_documentation(make_task: MakeTask, tmp_path: Path) -> None:
    job([make_task()], NoOp(), tmp_path / "out").run()
    (row,) = lines(tmp_path / "out")
    assert list(row) == [
        *(
            "schema",
            "trial",
            "task",
            "task_digest",
            "suite",
            "attempt",
            "agent",
            "model",
            "isolation",
            "status",
        ),
        *("seed", "arm", "version", "network", "comparable", "started", "tries"),
        *("reward", "passed", "stop_reason", "tampered", "error", "claimed_done", "files_changed"),
        *("lines_added", "lines_removed", "steps", "tokens", "summariser_tokens", "cost_usd", "context"),
        *("invariants", "rework", "seconds", "run_dir"),
    ]
    assert (row["schema"], row["suite"], row["cost_usd"], row["tokens"]) == (1, "suite", None, None)


def test_a_folder_with_results_is_not_written_to_again(make_task: MakeTask, tmp_path: Path) -> None:
    task = make_task()
    job([task], NoOp(), tmp_path / "out").run()
    before = lines(tmp_path / "out")
    with pytest.raises(ConfigError, match="holds results already"):
        job([task], NoOp(), tmp_path / "out").run()
    assert lines(tmp_path / "out") == before


def test_an_output_folder_that_cannot_be_is_told(make_task: MakeTask, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="results cannot be written"):
        job([make_task()], NoOp(), tmp_path / "file" / "out").run()


def test_the_output_folder_cannot_hold_the_trees_of_the_trials(make_task: MakeTask) -> None:
    with pytest.raises(ConfigError, match="holds the folder for temporary files"):
        job([make_task()], NoOp(), Path("/")).run()


def test_a_task_without_a_solution_stops_the_oracle_before_anything_is_run(
    make_task: MakeTask, tmp_path: Path
) -> None:
    tasks = [make_task(), make_task({"solution/solve.sh": None}, name="other")]
    with pytest.raises(ConfigError, match=r"other: solution/solve\.sh is missing"):
        job(tasks, Oracle(), tmp_path / "out").run()
    assert not (tmp_path / "out").exists()


def test_an_interruption_ends_the_job_and_leaves_a_row(make_task: MakeTask, tmp_path: Path) -> None:
    agent = Raising(KeyboardInterrupt("SIGINT"), after=1)
    report = job([make_task()], agent, tmp_path / "out", attempts=3).run()
    assert [row.status for row in report.rows] == ["graded", "interrupted"]
    assert [row["status"] for row in lines(tmp_path / "out")] == ["graded", "interrupted"]
    assert report.exit_code() == 130
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["finished"] == 2


def test_an_interrupted_run_ends_the_job_as_well(make_task: MakeTask, tmp_path: Path) -> None:
    def interrupt(request: object, number: int) -> object:
        raise KeyboardInterrupt("SIGINT")

    model = ScriptedModel(interrupt, window=32_000)  # type: ignore[arg-type]
    report = job([make_task()], Chimera(model_choice=model), tmp_path / "out", attempts=2).run()
    assert [row.status for row in report.rows] == ["interrupted"]
    assert report.rows[0].stop_reason == "interrupted"
    assert report.exit_code() == 130


def test_a_bug_in_an_agent_is_a_failed_trial_and_the_job_goes_on(make_task: MakeTask, tmp_path: Path) -> None:
    agent = Raising(ZeroDivisionError("oops"), after=1)
    report = job([make_task()], agent, tmp_path / "out", attempts=3).run()
    assert [(row.status, row.reward) for row in report.rows] == [
        ("graded", 1),
        ("agent_error", 0),
        ("agent_error", 0),
    ]
    assert report.exit_code() == 3
    last = lines(tmp_path / "out")[-1]
    assert last["error"] == {
        "phase": "agent",
        "kind": "failed",
        "message": "ZeroDivisionError: oops (see fault.txt)",
    }
    trace = (tmp_path / "out" / "trials" / "mini.raising.3" / "fault.txt").read_text()
    assert "raise self.fault" in trace


def test_a_bug_outside_the_agent_costs_one_trial_its_grade(make_task: MakeTask, tmp_path: Path) -> None:
    def break_once(trial: Trial, phase: Phase) -> None:
        if (trial.attempt, phase) == (1, "verify"):
            raise ZeroDivisionError("oops")

    arms = (Arm.of(NoOp()),)
    report = Job(
        tasks=(make_task(),),
        arms=arms,
        output=tmp_path / "out",
        isolation="copy",
        attempts=2,
        on_phase=break_once,
    ).run()
    assert [(row.status, row.reward) for row in report.rows] == [("infra_error", None), ("graded", 0)]
    assert "ZeroDivisionError: oops" in (tmp_path / "out/trials/mini.noop.1/fault.txt").read_text()


def test_what_one_run_learns_the_next_does_not_know(make_task: MakeTask, tmp_path: Path) -> None:
    replies = [call("shell", command="ls")] * 4
    model = ScriptedModel(replies, window=32_000)
    report = job(
        [make_task()], Chimera(model_choice=model, options={"max_steps": 2}), tmp_path / "out", attempts=2
    ).run()
    first, second = report.rows
    assert first.context is not None
    assert first.context == second.context
    assert first.run_dir != second.run_dir


def test_a_new_output_folder_is_new_every_time(tmp_path: Path) -> None:
    assert new_output(tmp_path) != new_output(tmp_path)
    assert new_output(tmp_path).parent == tmp_path / "bench"


def test_a_report_of_no_rows_can_still_be_shown() -> None:
    report = Report(rows=(), planned=2, interrupted=True)
    assert "no trial was graded" in report.table()
    assert report.summary()["pass_rate"] is None


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (["chimera-window-4000", "a=b"], ["chimera-window-4000", "a=b"]),
        (["c-model-acme/large3.2", "c-model-acme/small"], ["c-model-acme-large3.2", "c-model-acme-small"]),
        (["../../x", "/etc/passwd", "a\0b c"], ["-x", "-etc-passwd", "a-b-c"]),
        (["c-pytest -q", "c-pytest  -q"], ["c-pytest--q", "c-pytest--q~2"]),
        (["é" * 3 + "x" * 500], ["-" + "x" * 119]),
    ],
)
def test_an_arm_has_a_name_that_a_folder_can_have(wanted: list[str], names: list[str]) -> None:
    assert arm_names(wanted) == tuple(names)
