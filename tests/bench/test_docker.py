from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chimera.bench.agents import Chimera, NoOp
from chimera.bench.isolation import available_isolation, real_network
from chimera.bench.row import Row
from chimera.bench.task import BenchTask
from chimera.errors import ConfigError, SandboxUnavailableError
from chimera.testing import ScriptedModel, text

MakeTask = Callable[..., BenchTask]
RunTrial = Callable[..., Row]

STAND_IN = """#!/bin/bash
# Does what the engine would, without one: a container is this machine.
echo "$*" >>{log}
case $1 in
    version) echo 99.0 ;;
    exec)
        shift 2
        while [ "$1" = --env ]; do export "$2"; shift 2; done
        shift
        exec "$@" ;;
esac
"""


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts a program called docker first on PATH; gives the file that it writes its calls to."""

    def install(script: str) -> Path:
        (tmp_path / "bin").mkdir()
        log = tmp_path / "calls.txt"
        program = tmp_path / "bin" / "docker"
        program.write_text(script.replace("{log}", str(log)))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
        return log

    return install


def test_without_the_program_docker_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailableError, match="needs the docker program, which is not on PATH; use"):
        available_isolation("docker")


def test_without_an_engine_docker_is_refused(docker: Callable[[str], Path]) -> None:
    docker("#!/bin/sh\necho 'Cannot connect to the daemon' >&2\nexit 1\n")
    with pytest.raises(SandboxUnavailableError) as fault:
        available_isolation("docker")
    assert str(fault.value) == (
        "docker is installed, but no engine answers; start one, or use --isolation namespace or copy: "
        "Cannot connect to the daemon"
    )


def test_with_an_engine_agent_and_grader_have_containers_of_their_own(
    docker: Callable[[str], Path], make_task: MakeTask, run_trial: RunTrial
) -> None:
    log = docker(STAND_IN)
    assert available_isolation("docker") == "docker"
    task = make_task({"environment/Dockerfile": "FROM a\n", "tests/Dockerfile": "FROM b\n"})
    row = run_trial(task, "docker")
    assert (row.status, row.reward, row.isolation) == ("graded", 1, "docker")
    assert run_trial(task, "docker", NoOp(), folder="noop").reward == 0
    calls = log.read_text().splitlines()[1:7]
    assert [call.split()[0] for call in calls] == ["build", "run", "exec", "rm", "build", "run"]
    assert calls[0].endswith(str(task.folder / "environment"))
    assert calls[4].endswith(str(task.folder / "tests"))
    assert "--network none" in calls[1]
    assert str(task.folder) not in calls[1]
    assert "PATH=" not in calls[2]


def test_an_image_that_cannot_be_built_is_no_grade(
    docker: Callable[[str], Path], make_task: MakeTask, run_trial: RunTrial
) -> None:
    docker("#!/bin/sh\ncase $1 in build) echo 'no such image' >&2; exit 1 ;; esac\n")
    row = run_trial(make_task(), "docker")
    assert row.status == "infra_error"
    assert row.error is not None
    assert "cannot be built: no such image" in row.error.message


def test_chimera_itself_does_not_run_in_containers(
    docker: Callable[[str], Path], make_task: MakeTask, run_trial: RunTrial
) -> None:
    docker(STAND_IN)
    with pytest.raises(ConfigError, match="do not run in containers yet"):
        run_trial(make_task(), "docker", Chimera(model_choice=ScriptedModel([text("4")], window=32_000)))


def test_no_network_is_only_promised_where_it_can_be_kept() -> None:
    assert (real_network("namespace", None), real_network("namespace", "host")) == ("none", "host")
    assert (real_network("copy", None), real_network("copy", "host")) == ("host", "host")
    with pytest.raises(ConfigError, match="--network none cannot be kept with isolation copy"):
        real_network("copy", "none")
