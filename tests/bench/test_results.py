from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from chimera.bench.agents import BenchAgent, Desk, NoOp, Oracle, Work
from chimera.bench.job import Arm, Job, Redo
from chimera.bench.results import open_results, read_record, read_rows
from chimera.bench.task import BenchTask, load_task
from chimera.config import process_environment
from chimera.errors import ConfigError

pytestmark = pytest.mark.slow

MakeTask = Callable[..., BenchTask]


@dataclass(frozen=True)
class Counting:
    """Solves what it is told to, by attempt; breaks or does nothing in the others. Remembers what it was asked."""

    solves: tuple[int, ...] = ()
    breaks: tuple[int, ...] = ()
    asked: list[int] = field(default_factory=list)
    name: str = "counting"
    model: str | None = None

    def check(self, task: BenchTask) -> None:
        pass

    def work(self, task: BenchTask, desk: Desk) -> Work:
        self.asked.append(desk.attempt)
        if desk.attempt in self.breaks:
            return Work(fault="broken")
        return Oracle().work(task, desk) if desk.attempt in self.solves else Work()


def job(task: BenchTask, agent: BenchAgent, output: Path, **known: Any) -> Job:
    arms = known.pop("arms", (Arm.of(agent),))
    return Job(tasks=(task,), arms=arms, output=output, **{"isolation": "copy", "attempts": 3, **known})


def lines(output: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (output / "results.jsonl").read_text().splitlines()]


def test_a_finished_job_that_is_resumed_runs_nothing(make_task: MakeTask, tmp_path: Path) -> None:
    task, agent = make_task(), Counting(solves=(1,))
    first = job(task, agent, tmp_path / "out").run()
    again = job(task, agent, tmp_path / "out", resume=True).run()
    assert agent.asked == [1, 2, 3]
    assert again.rows == first.rows
    assert len(lines(tmp_path / "out")) == 3


@pytest.mark.parametrize(
    ("redo", "asked"),
    [
        pytest.param(None, [], id="plain"),
        pytest.param("errored", [2], id="errored"),
        pytest.param("failed", [2, 3], id="failed"),
        pytest.param("all", [1, 2, 3], id="all"),
    ],
)
def test_redo_runs_these_again_and_the_newest_row_counts(
    make_task: MakeTask, tmp_path: Path, redo: Redo | None, asked: list[int]
) -> None:
    task, agent = make_task(), Counting(solves=(1,), breaks=(2,))
    job(task, agent, tmp_path / "out").run()
    better = Counting(solves=(1, 2, 3))
    report = job(task, better, tmp_path / "out", resume=True, redo=redo).run()
    assert better.asked == asked
    assert [row.passed for row in report.rows] == [n == 1 or n in asked for n in (1, 2, 3)]
    assert read_rows(tmp_path / "out") == report.rows
    assert [(tmp_path / "out" / "trials" / f"mini.counting.{n}~1").exists() for n in (1, 2, 3)] == [
        n in asked for n in (1, 2, 3)
    ]


def test_an_interrupted_trial_is_run_again(make_task: MakeTask, tmp_path: Path) -> None:
    task = make_task()

    def interrupt(row: object) -> None:
        raise KeyboardInterrupt("SIGINT")

    assert job(task, NoOp(), tmp_path / "out", on_row=interrupt).run().interrupted
    report = job(task, NoOp(), tmp_path / "out", resume=True).run()
    assert [row.attempt for row in report.rows] == [1, 2, 3]
    assert [line["status"] for line in lines(tmp_path / "out")] == ["graded"] * 3


def test_a_torn_last_line_is_as_if_it_were_not_there(make_task: MakeTask, tmp_path: Path) -> None:
    task = make_task()
    whole = job(task, NoOp(), tmp_path / "out").run()
    path = tmp_path / "out" / "results.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[:-20])
    assert read_rows(tmp_path / "out") == whole.rows[:2]
    agent = Counting(name="noop")
    report = job(task, agent, tmp_path / "out", resume=True).run()
    assert agent.asked == [3]
    assert [row.attempt for row in report.rows] == [1, 2, 3]
    assert len(lines(tmp_path / "out")) == 3


def test_a_damaged_line_is_named(make_task: MakeTask, tmp_path: Path) -> None:
    job(make_task(), NoOp(), tmp_path / "out").run()
    path = tmp_path / "out" / "results.jsonl"
    path.write_bytes(b'{"schema": 1}\n' + path.read_bytes())
    with pytest.raises(ConfigError, match="line 1 is damaged"):
        read_rows(tmp_path / "out")


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        pytest.param({"status": "<b>"}, "status is '<b>'", id="status"),
        pytest.param({"isolation": ["copy"]}, "isolation is ['copy']", id="isolation"),
        pytest.param({"steps": "<b>"}, "steps is '<b>'", id="steps"),
        pytest.param({"passed": 1}, "passed is 1", id="passed"),
        pytest.param({"seconds": {"agent": "1"}}, "seconds is", id="seconds"),
        pytest.param({"tampered": [1]}, "tampered is", id="tampered"),
        pytest.param({"trial": "../../out"}, "trial is '../../out', which is no name", id="a path"),
        pytest.param({"error": {"phase": "agent", "kind": 1, "message": "x"}}, "kind is 1", id="within"),
        pytest.param({"further": 1}, "further", id="unknown"),
    ],
)
def test_a_row_of_somebody_else_is_looked_at_before_it_is_believed(
    make_task: MakeTask, tmp_path: Path, planted: dict[str, Any], said: str
) -> None:
    job(make_task(), NoOp(), tmp_path / "out", attempts=1).run()
    (row,) = lines(tmp_path / "out")
    (tmp_path / "out" / "results.jsonl").write_text(json.dumps({**row, **planted}) + "\n")
    with pytest.raises(ConfigError, match="line 1 is damaged") as fault:
        read_rows(tmp_path / "out")
    assert said in str(fault.value)


@pytest.mark.parametrize(
    "line", ["[]", "1", "null", "{", "[" * 100_000], ids=["list", "1", "null", "torn", "deep"]
)
def test_a_line_that_is_no_object_is_damaged(make_task: MakeTask, tmp_path: Path, line: str) -> None:
    job(make_task(), NoOp(), tmp_path / "out", attempts=1).run()
    (tmp_path / "out" / "results.jsonl").write_text(line + "\n")
    with pytest.raises(ConfigError, match="line 1 is damaged"):
        read_rows(tmp_path / "out")


@pytest.mark.parametrize(
    "settings", [{}, {"arms": []}, {"arms": {"a": 1}, "attempts": 1}, {"arms": {}, "attempts": "1"}, None]
)
def test_a_job_file_that_lacks_something_cannot_be_read(
    make_task: MakeTask, tmp_path: Path, settings: object
) -> None:
    job(make_task(), NoOp(), tmp_path / "out", attempts=1).run()
    path = tmp_path / "out" / "job.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "settings": settings}))
    with pytest.raises(ConfigError, match=r"job\.json: cannot be read"):
        read_record(tmp_path / "out")


def test_a_job_that_was_killed_as_it_began_can_be_begun(make_task: MakeTask, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "results.jsonl").touch()
    with pytest.raises(ConfigError, match=r"job\.json is missing"):
        job(make_task(), NoOp(), tmp_path / "out", resume=True).run()
    with (
        open_results(tmp_path / "out", resume=False),
        pytest.raises(ConfigError, match="another process writes results"),
    ):
        job(make_task(), NoOp(), tmp_path / "out").run()
    assert job(make_task(), NoOp(), tmp_path / "out").run().exit_code() == 0
    with pytest.raises(ConfigError, match="holds results already"):
        job(make_task(), NoOp(), tmp_path / "out").run()


@pytest.mark.parametrize(
    ("other", "said"),
    [
        pytest.param({"attempts": 4}, "attempts: 4 now, 3 then", id="attempts"),
        pytest.param({"timeout_multiplier": 2.0}, "timeout_multiplier: 2.0 now, 1.0 then", id="limits"),
        pytest.param({"arms": (Arm.of(Oracle()),)}, "arms: {'oracle'", id="agent"),
        pytest.param(
            {"arms": (Arm(name="noop", agent=NoOp(), settings={"window": 8000}),)},
            "'window': 8000",
            id="window",
        ),
    ],
)
def test_a_job_is_not_gone_on_with_otherwise(
    make_task: MakeTask, tmp_path: Path, other: dict[str, Any], said: str
) -> None:
    task = make_task()
    job(task, NoOp(), tmp_path / "out").run()
    before = lines(tmp_path / "out")
    with pytest.raises(ConfigError) as fault:
        job(task, NoOp(), tmp_path / "out", resume=True, **other).run()
    assert said in str(fault.value)
    assert lines(tmp_path / "out") == before


def test_a_task_that_changed_is_another_one(make_task: MakeTask, tmp_path: Path) -> None:
    task = make_task()
    job(task, NoOp(), tmp_path / "out").run()
    (task.folder / "instruction.md").write_text("Write 5.\n")
    with pytest.raises(ConfigError, match="task test/mini: 'sha256:"):
        job(load_task(task.folder), NoOp(), tmp_path / "out", resume=True).run()


def test_how_many_at_once_and_what_is_kept_may_change(make_task: MakeTask, tmp_path: Path) -> None:
    task = make_task()
    job(task, NoOp(), tmp_path / "out").run()
    report = job(task, NoOp(), tmp_path / "out", resume=True, jobs=2, keep="none", infra_retries=5).run()
    assert report.exit_code() == 0


def test_two_processes_do_not_write_the_same_results(make_task: MakeTask, tmp_path: Path) -> None:
    task = make_task()
    job(task, NoOp(), tmp_path / "out").run()
    with (
        open_results(tmp_path / "out", resume=True),
        pytest.raises(ConfigError, match="another process writes results"),
    ):
        job(task, NoOp(), tmp_path / "out", resume=True).run()


def test_there_must_be_something_to_go_on_with(make_task: MakeTask, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no benchmark: job\.json is missing"):
        job(make_task(), NoOp(), tmp_path / "out", resume=True).run()


def test_a_job_says_what_it_was_begun_with(make_task: MakeTask, tmp_path: Path) -> None:
    task = make_task()
    job(task, NoOp(), tmp_path / "out").run()
    record = read_record(tmp_path / "out")
    assert record.tasks == {task.name: task.digest}
    assert record.planned == ("mini.noop.1", "mini.noop.2", "mini.noop.3")
    assert record.settings == {
        "arms": {"noop": {"agent": "noop", "model": None}},
        "attempts": 3,
        "isolation": "copy",
        "network": "none",
        "timeout_multiplier": 1.0,
    }
    assert record.differences(replace(record, host={}, git={})) == []


def test_a_killed_job_that_is_resumed_has_every_row_once(make_task: MakeTask, tmp_path: Path) -> None:
    output = tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "chimera",
        "bench",
        str(make_task().folder),
        "--agent",
        "oracle",
        "-k",
        "5",
    ]
    command += ["--isolation", "copy", "-o", str(output), "-j", "2"]
    environment = {**process_environment(), "CHIMERA_STATE_DIR": str(tmp_path / "state")}
    killed = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)
    while not (output / "results.jsonl").exists() or not lines_written(output):
        assert killed.poll() is None
        time.sleep(0.01)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    before = lines_written(output)
    assert 1 <= before < 5
    done = subprocess.run(
        [*command, "--resume"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [row["trial"] for row in sorted(lines(output), key=lambda row: row["attempt"])] == [
        f"mini.oracle.{n}" for n in range(1, 6)
    ]
    assert f"[1/{5 - before}] " in done.stderr


def lines_written(output: Path) -> int:
    return (output / "results.jsonl").read_bytes().count(b"\n")
