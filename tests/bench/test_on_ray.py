"""Trials on a local Ray cluster, where ray is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from chimera.bench.agents import Oracle
from chimera.bench.job import Arm, Job
from chimera.bench.on_ray import OnRay
from chimera.bench.report import Report
from chimera.bench.task import BenchTask
from chimera.errors import ConfigError
from tests.bench.agents_for_tests import Dying

MakeTask = Callable[..., BenchTask]
HERE = importlib.util.find_spec("ray") is not None


def played(task: BenchTask, agent: Oracle | Dying, output: Path) -> Report:
    return Job(
        tasks=(task,),
        arms=(Arm.of(agent),),
        output=output,
        isolation="copy",
        attempts=3,
        jobs=2,
        executor="ray",
    ).run()


@pytest.mark.skipif(HERE, reason="ray is installed")
def test_without_ray_the_extra_is_named() -> None:
    with pytest.raises(ConfigError, match=r"needs ray: pip install '"):
        OnRay(2, lambda trial, phase: None)


@pytest.mark.skipif(not HERE, reason="ray is not installed")
@pytest.mark.filterwarnings("ignore")
def test_trials_on_ray_are_graded_and_a_lost_one_costs_its_own_row(
    make_task: MakeTask, tmp_path: Path
) -> None:
    report = played(make_task(), Oracle(), tmp_path / "out")
    assert [(row.attempt, row.reward) for row in report.rows] == [(1, 1), (2, 1), (3, 1)]
    lost = played(make_task(name="other"), Dying(), tmp_path / "lost")
    assert [row.status for row in lost.rows] == ["graded", "infra_error", "graded"]
    assert lost.exit_code() == 3
