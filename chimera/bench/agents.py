"""Who works on a task: chimera itself, the task's own solution, or nobody."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field

from chimera.api import run
from chimera.bench.isolation import (
    Isolation,
    Network,
    clean_environment,
    command_runner,
    confinement,
    with_places,
)
from chimera.bench.measures import Measures
from chimera.bench.observed import Observation
from chimera.bench.task import BenchTask
from chimera.bench.trajectory import read_trajectory
from chimera.core.model import Model
from chimera.core.recording import Past
from chimera.core.state import RunResult
from chimera.errors import ConfigError
from chimera.workspace.sandbox import Sandbox


class Desk(Struct, frozen=True, kw_only=True):
    """Where an agent works on one trial."""

    folder: Path
    """Private; the agent may use all of it. `tree` lies in it."""
    tree: Path
    """The start tree, to be changed."""
    isolation: Isolation
    logs: Path
    """Where the agent leaves its output. Kept."""
    hidden: Sequence[Path]
    """Folders that an agent's commands must not see; only a sandbox can hide them."""
    network: Network = "none"
    """What its commands can reach, where the isolation can see to that."""
    attempt: int = 1
    """Counted from 1."""


class Work(Struct, frozen=True, kw_only=True):
    """How an agent ended. What it achieved is for the grader to say."""

    stop_reason: str | None = None
    """As of a run. None for an agent that is no run and just ended."""
    fault: str | None = None
    """What broke the agent, if something did."""
    skipped: str | None = None
    """Why it did not even begin, where that says nothing about its skill."""
    run: RunResult | None = None
    measures: Measures | None = None


class BenchAgent(Protocol):
    """Something that can be given a task. `name` and `model` are what the rows show."""

    @property
    def name(self) -> str: ...

    @property
    def model(self) -> str | None: ...

    def check(self, task: BenchTask) -> None:
        """Raise a ConfigError if the agent can never do this task."""
        ...

    def work(self, task: BenchTask, desk: Desk) -> Work:
        """Work on the task in `desk.tree` and return with every process ended that was started."""
        ...


class NoOp(Struct, frozen=True):
    """Does nothing. A task that it solves is broken."""

    name: str = "noop"
    model: str | None = None

    def check(self, task: BenchTask) -> None:
        pass

    def work(self, task: BenchTask, desk: Desk) -> Work:
        return Work()


class Oracle(Struct, frozen=True):
    """Runs the task's own `solution/solve.sh`. A task that it does not solve is broken."""

    name: str = "oracle"
    model: str | None = None

    def check(self, task: BenchTask) -> None:
        if not (task.solution / "solve.sh").is_file():
            raise ConfigError(f"{task.folder}: solution/solve.sh is missing; the oracle runs it")

    def work(self, task: BenchTask, desk: Desk) -> Work:
        solution = desk.folder / "solution"
        shutil.copytree(task.solution, solution, symlinks=True)
        variables = {**task.solution_env, "APP_DIR": str(desk.tree), "SOLUTION_DIR": str(solution)}
        return run_script('exec bash "$SOLUTION_DIR/solve.sh"', "solve.sh", variables, task, desk)


def run_script(command: str, name: str, variables: Mapping[str, str], task: BenchTask, desk: Desk) -> Work:
    """Run one command in the tree, as a whole agent. What it prints is kept; a failure of it is a fault."""
    environment = clean_environment(desk.folder / "home", **variables)
    with (
        confinement(
            desk.isolation,
            desk.folder,
            image=task.folder / "environment",
            network=desk.network,
            variables=environment,
        ) as sandbox,
        command_runner(_placed(task, sandbox, desk), desk.tree, environment) as runner,
    ):
        done = runner.run(command, task.agent_timeout_s)
    (desk.logs / "output.txt").write_bytes(done.output)
    if done.timed_out:
        return Work(stop_reason="time_limit")
    if done.exit_code != 0:
        return Work(fault=f"{name} ended with exit code {done.exit_code}")
    return Work()


def _placed(task: BenchTask, sandbox: Sandbox, desk: Desk) -> Sandbox:
    """The agent's sandbox, with the tree and the solution where scripts written for containers look for them."""
    if task.foreign:
        solution = desk.folder / "solution"
        solution.mkdir(exist_ok=True)
        sandbox = with_places(sandbox, {str(task.workdir): desk.tree, "/solution": solution})
    return sandbox.narrowed(hidden=desk.hidden)


class Chimera(Struct, frozen=True, kw_only=True):
    """chimera with a model and settings, unattended."""

    model_choice: str | Model | None = None
    """As for `chimera.api.run`. An object serves all trials."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `Config`. They win over what a task says."""
    name: str = "chimera"

    @property
    def model(self) -> str | None:
        choice = self.model_choice
        return choice if isinstance(choice, str | None) else choice.name

    def check(self, task: BenchTask) -> None:
        _past(task)

    def work(self, task: BenchTask, desk: Desk) -> Work:
        if desk.isolation == "docker":
            raise ConfigError("chimera's own tools do not run in containers yet; use --isolation namespace")
        meant = {
            "window": task.window,
            "max_steps": task.max_steps,
            "max_seconds": task.agent_timeout_s,
            "mode": "auto" if desk.isolation == "namespace" else "yolo",
            "sandbox": "workspace-write" if desk.isolation == "namespace" else "danger-full-access",
            "allow_net": desk.network == "host",
            "workspace": desk.tree,
        }
        given = {name: value for name, value in self.options.items() if value is not None}
        instruction = task.instruction
        if task.foreign:
            # The tools know the tree by its real path only.
            instruction = re.sub(
                rf"(?<![\w/.-]){re.escape(str(task.workdir))}(?![\w-])", str(desk.tree), instruction
            )
        observation = Observation(task=instruction, rules=task.rules, log=desk.logs / "requests.jsonl")
        result = run(
            instruction,
            model=self.model_choice,
            emit=observation,
            watch=observation.watch,
            past=_past(task),
            # A record of its own for each trial: nothing that was learned in one may help the next.
            state=desk.logs / "state",
            hidden=desk.hidden,
            **{**meant, **given},
        )
        return Work(stop_reason=str(result.stop_reason), run=result, measures=observation.measures())


def _past(task: BenchTask) -> Past | None:
    return read_trajectory(task.folder / "trajectory.json") if task.has_prior_context else None
