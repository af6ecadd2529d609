"""Grading: the hidden tests against the pristine tree, in surroundings built from nothing."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

from msgspec import Struct

from chimera.bench.isolation import (
    Isolation,
    clean_environment,
    command_runner,
    confinement,
    private_folder,
    with_places,
)
from chimera.bench.task import BenchTask
from chimera.bench.tree import make_graded_tree
from chimera.errors import ToolError
from chimera.workspace.process import CommandResult
from chimera.workspace.sandbox import Sandbox

_MAX_REPORT_BYTES = 4096
_RUN_TESTS = 'umask 022; exec bash "$TESTS_DIR/test.sh"'


class Verdict(Struct, frozen=True, kw_only=True):
    """What grading came to."""

    reward: float | None
    """From 0 to 1; None when there is none to trust."""
    tampered: tuple[str, ...]
    """Paths that the agent must leave alone and did not. They were graded as the task has them."""
    fault: str | None = None
    """Why there is no reward."""


def grade(task: BenchTask, worked: Path, *, isolation: Isolation, logs: Path) -> Verdict:
    """Grade what an agent left in `worked`, and keep the grader's output in `logs`.

    The tests are copied to their place only now, read-only where the isolation can do that. Everything that still runs
    when `test.sh` has ended is ended before the reward is read.

    Raises:
        SandboxUnavailableError: the isolation cannot be had.
    """
    logs.mkdir(parents=True, exist_ok=True)
    with private_folder("grade") as desk:
        app, tests, verifier = desk / "app", desk / "tests", desk / "logs" / "verifier"
        tampered = make_graded_tree(task, worked, app)
        shutil.copytree(task.tests, tests, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        verifier.mkdir(parents=True)
        environment = clean_environment(
            desk / "home",
            **{
                **task.verifier_env,
                "APP_DIR": str(app),
                "TESTS_DIR": str(tests),
                "LOGS_DIR": str(desk / "logs"),
            },
        )
        try:
            with (
                confinement(isolation, desk, image=task.tests, variables=environment) as sandbox,
                command_runner(_placed(task, sandbox, desk), app, environment) as runner,
            ):
                done = runner.run(_RUN_TESTS, task.verifier_timeout_s)
        except ToolError as fault:
            return Verdict(reward=None, tampered=tampered, fault=str(fault))
        (logs / "output.txt").write_bytes(done.output)
        for name in ("reward.txt", "reward.json", "canary.txt"):
            if (text := _report(verifier / name)) is not None:
                (logs / name).write_text(text, encoding="utf-8")
        return _verdict(task, done, logs, tampered)


def _placed(task: BenchTask, sandbox: Sandbox, desk: Path) -> Sandbox:
    """The grader's sandbox: the tests cannot be written, and lie where scripts written for containers look for them."""
    if not task.foreign:
        return sandbox.narrowed(read_only=[desk / "tests"])
    places = {str(task.workdir): desk / "app", "/tests": desk / "tests", "/logs": desk / "logs"}
    return with_places(sandbox, places).narrowed(read_only=[desk / "tests"])


def _verdict(task: BenchTask, done: CommandResult, logs: Path, tampered: tuple[str, ...]) -> Verdict:
    reward = _reward_of_json(_report(logs / "reward.json"))
    if reward is None:
        reward = _reward(_report(logs / "reward.txt"))
    fault = None
    if done.timed_out:
        fault = f"test.sh did not end within {task.verifier_timeout_s:g} s"
    elif reward is None:
        fault = f"test.sh (exit code {done.exit_code}) left no reward from 0 to 1 in $LOGS_DIR/verifier/reward.txt"
    elif task.must_fail_canary:
        fault = _disagreement(reward, done.exit_code, _report(logs / "canary.txt"))
    return Verdict(reward=None if fault else reward, tampered=tampered, fault=fault)


def _disagreement(reward: float, exit_code: int | None, canary: str | None) -> str | None:
    """What shows that the reward is not the outcome of the tests."""
    said = (canary or "").strip()
    if said != "failed":
        return f"the test that must fail is reported as {said or 'missing'!r}, so the others prove nothing"
    if (reward == 1) != (exit_code == 0):
        return f"the reward is {reward:g} and test.sh ended with exit code {exit_code}: they disagree"
    return None


def _report(path: Path) -> str | None:
    """A small regular file that a grader wrote, as text."""
    if path.is_symlink() or not path.is_file():
        return None
    with path.open("rb") as stream:
        return stream.read(_MAX_REPORT_BYTES).decode("utf-8", "replace")


def _reward_of_json(text: str | None) -> float | None:
    """The part `reward` of an object of numbers; the task format lets it win over the plain file."""
    try:
        value = json.loads(text or "")
    except ValueError:
        return None
    return _reward(str(value["reward"])) if isinstance(value, dict) and "reward" in value else None


def _reward(text: str | None) -> float | None:
    try:
        reward = float(text or "")
    except ValueError:
        return None
    return reward if math.isfinite(reward) and 0 <= reward <= 1 else None
