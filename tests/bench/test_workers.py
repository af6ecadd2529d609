from __future__ import annotations

import errno
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from chimera.bench.agents import BenchAgent, Chimera, Desk, NoOp, Oracle, Work
from chimera.bench.job import Arm, Job
from chimera.bench.results import read_rows
from chimera.bench.row import Phase, Row
from chimera.bench.task import BenchTask
from chimera.bench.trial import Trial
from chimera.bench.workers import InProcesses, InTurn
from chimera.config import process_environment
from chimera.core.messages import Usage
from chimera.core.state import RunResult, Stop, StopReason
from chimera.errors import ConfigError
from chimera.testing import Reply, ScriptedModel
from tests.bench.agents_for_tests import Base, Dying, Flaky, Picky, Sleeping, Telling

pytestmark = pytest.mark.slow

MakeTask = Callable[..., BenchTask]


def job(task: BenchTask, agent: BenchAgent, output: Path, **known: Any) -> Job:
    return Job(
        **{
            "tasks": (task,),
            "arms": (Arm.of(agent),),
            "output": output,
            "isolation": "copy",
            "first_delay_s": 0.0,
            **known,
        }
    )


def plain(row: Row) -> dict[str, Any]:
    return {key: value for key, value in row.fields().items() if key not in {"seconds", "run_dir", "started"}}


def test_trials_at_once_come_to_the_same_as_trials_in_turn(make_task: MakeTask, tmp_path: Path) -> None:
    task = make_task()
    phases: list[tuple[str, str]] = []

    def phase(trial: Trial, phase: Phase) -> None:
        phases.append((trial.name, phase))

    serial = job(task, Oracle(), tmp_path / "serial", attempts=3).run()
    at_once = job(task, Oracle(), tmp_path / "at-once", attempts=3, jobs=3, on_phase=phase).run()
    assert [plain(row) for row in at_once.rows] == [plain(row) for row in serial.rows]
    assert [row.attempt for row in at_once.rows] == [1, 2, 3]
    assert sorted(phases) == sorted(
        (f"mini.oracle.{n}", phase) for n in (1, 2, 3) for phase in ("setup", "agent", "verify")
    )
    assert at_once.exit_code(1.0) == 0


def test_a_process_that_is_killed_costs_one_trial(make_task: MakeTask, tmp_path: Path) -> None:
    report = job(make_task(), Dying(), tmp_path / "out", attempts=3, jobs=2, infra_retries=1).run()
    assert [row.status for row in report.rows] == ["graded", "infra_error", "graded"]
    assert report.rows[1].tries == 2
    assert report.rows[1].error is not None
    assert "ended with exit code -9" in report.rows[1].error.message
    assert report.rows[1].error.phase == "agent"
    trials = tmp_path / "out" / "trials"
    desks = [Path((trials / name / "desk.txt").read_text()) for name in ("mini.dying.2~1", "mini.dying.2")]
    assert [desk.exists() for desk in desks] == [False, False]
    assert report.exit_code() == 3


def test_an_interruption_ends_every_process_and_leaves_rows(make_task: MakeTask, tmp_path: Path) -> None:
    mark = f"600.{secrets.randbelow(10**9):09}"
    begun = tmp_path / "begun"
    begun.mkdir()

    def interrupt(row: Row) -> None:
        if row.status == "graded":
            raise KeyboardInterrupt("SIGINT")

    agent = Sleeping(mark=mark, begun=begun)
    report = job(make_task(), agent, tmp_path / "out", attempts=4, jobs=2, on_row=interrupt).run()
    assert [row.status for row in report.rows] == ["graded", "interrupted"]
    assert report.exit_code() == 130
    assert [row.status for row in read_rows(tmp_path / "out")] == ["graded", "interrupted"]
    assert [file for file in Path("/proc").glob("[0-9]*/cmdline") if mark in content(file)] == []


def content(file: Path) -> str:
    try:
        return file.read_bytes().decode(errors="replace")
    except OSError:
        return ""


def test_a_process_that_is_ended_as_it_starts_was_interrupted(make_task: MakeTask, tmp_path: Path) -> None:
    workers = InProcesses(2, lambda trial, phase: None)
    for trial in job(make_task(), NoOp(), tmp_path / "out", attempts=2)._trials(tmp_path / "out"):
        workers.start(trial)
    workers.stop()
    assert {workers.next().row.status for _ in range(2)} <= {"interrupted", "graded"}
    assert not workers.busy
    workers.close()


def test_a_setting_that_cannot_be_ends_the_job_from_another_process(
    make_task: MakeTask, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="there is no such model"):
        job(make_task(), Picky(), tmp_path / "out", attempts=2, jobs=2).run()


def test_an_agent_that_no_other_process_can_have_is_told(make_task: MakeTask, tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Local(Base):
        name: str = "local"

        def work(self, task: BenchTask, desk: Desk) -> Work:
            return Work()

    with pytest.raises(
        ConfigError, match=r"agent 'local' cannot be handed to another process .*; use --jobs 1"
    ):
        job(make_task(), Local(), tmp_path / "out", jobs=2).run()


def test_a_secret_is_known_to_another_process_and_not_to_be_read_from_it(
    make_task: MakeTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = secrets.token_hex(16)
    monkeypatch.setenv("SOME_API_KEY", secret)
    (row,) = job(make_task(), Telling(), tmp_path / "out", jobs=2).run().rows
    assert row.error is not None
    assert row.error.message == f"known: {secret}; started with it: False"
    assert process_environment()["SOME_API_KEY"] == secret


def flaky(tmp_path: Path, **known: Any) -> Flaky:
    (tmp_path / "tried").mkdir()
    return Flaky(tried=tmp_path / "tried", **known)


def test_a_trial_that_failed_for_the_provider_is_begun_again(make_task: MakeTask, tmp_path: Path) -> None:
    report = job(
        make_task(), flaky(tmp_path, failures=2), tmp_path / "out", attempts=2, infra_retries=2
    ).run()
    assert [(row.attempt, row.status, row.reward) for row in report.rows] == [
        (1, "graded", 1),
        (2, "graded", 1),
    ]
    assert sorted(row.tries for row in report.rows) == [2, 2]
    assert report.summary()["retried"] == 2
    assert len(read_rows(tmp_path / "out")) == 2
    assert len((tmp_path / "out" / "results.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("reason", "retries", "tries"),
    [(StopReason.MODEL_ERROR, 0, 1), (StopReason.MODEL_ERROR, 2, 3), (StopReason.AUTH_ERROR, 2, 1)],
)
def test_a_provider_that_stays_broken_is_no_grade(
    make_task: MakeTask, tmp_path: Path, reason: StopReason, retries: int, tries: int
) -> None:
    agent = flaky(tmp_path, failures=99, reason=reason)
    (row,) = job(make_task(), agent, tmp_path / "out", infra_retries=retries).run().rows
    assert (row.status, row.tries, row.reward) == ("provider_error", tries, None)


def test_each_new_try_waits_twice_as_long(make_task: MakeTask, tmp_path: Path) -> None:
    waited: list[float] = []
    workers = InTurn(lambda trial, phase: None, waited.append)
    (trial,) = job(make_task(), NoOp(), tmp_path / "out")._trials(tmp_path / "out")
    workers.start(trial, 4.0)
    assert (workers.free, workers.busy) == (False, True)
    assert workers.next().row.status == "graded"
    assert waited == [4.0]


@dataclass(frozen=True)
class Breaking(Base):
    """Breaks in a way of its own."""

    name: str = "breaking"
    fault: Exception = field(default_factory=OSError)

    def work(self, task: BenchTask, desk: Desk) -> Work:
        raise self.fault


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        pytest.param(OSError(errno.ENOSPC, "No space left on device"), "infra_error", id="disk full"),
        pytest.param(OSError(errno.EMFILE, "Too many open files"), "infra_error", id="descriptors"),
        pytest.param(MemoryError(), "infra_error", id="memory"),
        pytest.param(FileNotFoundError(errno.ENOENT, "No such file"), "agent_error", id="its own mistake"),
        pytest.param(ValueError("no"), "agent_error", id="bug"),
    ],
)
def test_a_fault_of_the_machine_is_not_one_of_the_agent(
    make_task: MakeTask, tmp_path: Path, fault: Exception, status: str
) -> None:
    (row,) = job(make_task(), Breaking(fault=fault), tmp_path / "out").run().rows
    assert row.status == status
    assert row.error is not None
    assert row.error.phase == "agent"


def test_no_trial_begins_once_the_job_has_cost_enough(make_task: MakeTask, tmp_path: Path) -> None:
    reply = Reply(text="4", usage=Usage(input_tokens=10, output_tokens=1, cost_usd=0.25))
    model = ScriptedModel([reply] * 9, window=32_000)
    report = job(make_task(), Chimera(model_choice=model), tmp_path / "out", attempts=5, max_cost=0.4).run()
    assert len(report.rows) == 2
    assert report.exit_code() == 5
    again = job(
        make_task(), Chimera(model_choice=model), tmp_path / "out", attempts=5, max_cost=0.6, resume=True
    ).run()
    assert len(again.rows) == 3
    assert again.exit_code() == 5


@dataclass(frozen=True)
class Costly(Base):
    """Never gets through to its provider, and pays for it."""

    name: str = "costly"

    def work(self, task: BenchTask, desk: Desk) -> Work:
        spent = Usage(input_tokens=10, output_tokens=1, cost_usd=0.25)
        stop = Stop(StopReason.MODEL_ERROR, message="out of order")
        return Work(stop_reason=str(stop.reason), run=RunResult.of_stop(stop, usage=spent))


def test_what_a_try_cost_that_is_begun_again_counts_as_well(make_task: MakeTask, tmp_path: Path) -> None:
    report = job(make_task(), Costly(), tmp_path / "out", attempts=3, infra_retries=9, max_cost=0.9).run()
    (row,) = report.rows
    assert (row.status, row.tries, report.exit_code()) == ("provider_error", 2, 5)


def test_other_limits_make_rows_that_are_not_comparable(make_task: MakeTask, tmp_path: Path) -> None:
    task = make_task({"solution/solve.sh": "sleep 60\n"}, toml="[agent]\ntimeout_sec = 100\n")
    (row,) = job(task, Oracle(), tmp_path / "out", timeout_multiplier=0.002).run().rows
    assert (row.comparable, row.stop_reason, row.task_digest) == (False, "time_limit", task.digest)
    assert job(task, NoOp(), tmp_path / "plain").run().rows[0].comparable
