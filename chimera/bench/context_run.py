"""One run of the context track: a generated task, a scripted policy, an arm and a window, in the real loop.

Loop, tools, files, shell and hidden tests are the real ones. Only the model is scripted, and every request is looked at.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from chimera.bench.arms import Summarising, arms
from chimera.bench.generators.catalogue import GENERATORS
from chimera.bench.generators.instance import Instance
from chimera.bench.isolation import private_folder
from chimera.bench.observed import ObservedModel
from chimera.bench.peers import LangChain
from chimera.bench.policies.policy import PolicyModel
from chimera.bench.search_path import search_path
from chimera.bench.trajectory import past_of
from chimera.core.agent import Agent
from chimera.core.outputs import ToolOutput
from chimera.core.state import Limits, RunResult, StopReason
from chimera.core.tokens import TokenCounter
from chimera.overriding import override
from chimera.record.run_directory import RunFiles
from chimera.tools.base import Tool, ToolSet
from chimera.tools.default import default_tools
from chimera.tools.known_files import KnownFiles
from chimera.workspace.paths import Workspace
from chimera.workspace.process import CommandRunner
from chimera.workspace.sandbox import Sandbox

INFINITE = 1_000_000
"""A window in which nothing is ever compacted."""
_GRADE_TIMEOUT_S = 60


class Cell(Struct, frozen=True, order=True):
    """What is varied."""

    task: str
    policy: str
    arm: str
    window: int
    seed: int


class Outcome(Struct, frozen=True, kw_only=True):
    """What came of one run. Sizes in tokens, as our counter counts what was really sent."""

    cell: Cell
    suite: str
    solved: bool
    """The hidden tests pass; or the floor left no room and the run said so before its first call."""
    stop_reason: str
    stop_detail: str | None
    steps: int
    sent: int
    """All requests added up, a summariser's included."""
    summariser: int
    """The part of `sent` that a summariser would have read."""
    cacheable: int
    """The part of `sent` that was a prefix of the request before."""
    peak: int
    compactions: int
    rewrites: int
    orphans: int
    """Requests with a result without its call, or a call without its result."""
    over_window: int
    """Requests that with their completion would not fit the window."""
    task_missing: int
    """Requests without the whole task at its place."""
    rules_missing: int
    """Requests without one of the rules of the task."""
    false_done: bool
    """It answered that all was done, and it was not."""

    def fields(self) -> dict[str, Any]:
        """The outcome as JSON values."""
        values = asdict(self)
        return {**asdict(values.pop("cell")), **values}


class RememberingCounter(TokenCounter):
    """Counts the same as its base, and each text once in a process: in a sweep the same texts come again and again."""

    @override
    def text(self, text: str) -> int:
        return _count(text)


@functools.lru_cache(maxsize=50_000)
def _count(text: str) -> int:
    return TokenCounter().text(text)


@functools.lru_cache(maxsize=32)
def instance_of(task: str, seed: int) -> Instance:
    """The instance of a task and seed."""
    return GENERATORS[task](seed)


def play(cell: Cell) -> Outcome:
    """Play one run and grade it."""
    instance = instance_of(cell.task, cell.seed)
    arm = arms({fact.label: fact.value for fact in instance.facts}, instance.rules)[cell.arm]
    counter = RememberingCounter()
    model = ObservedModel(
        inner=PolicyModel(policy=cell.policy, counter=counter),
        counter=counter,
        task=instance.instruction,
        rules=instance.rules,
        limit=cell.window,
    )
    with private_folder("context") as desk:
        _lay_out(instance.files, desk / "app")
        with _parts(desk, instance) as parts:
            agent = Agent(
                model=model,
                budget=arm.budget(cell.window),
                limits=Limits(max_steps=instance.max_steps),
                counter=counter,
                compactor=arm.compactor,
                clock=lambda: 0.0,
                **parts,
            )
            result = agent.run(instance.instruction, past_of(instance.past) if instance.past else None)
        passed = _passes(instance, desk)
    read = arm.compactor.tokens_read if isinstance(arm.compactor, Summarising | LangChain) else 0
    return _outcome(cell, instance, model, result, passed=passed, read=read)


def _outcome(
    cell: Cell, instance: Instance, model: ObservedModel, result: RunResult, *, passed: bool, read: int
) -> Outcome:
    context = result.context
    floor_stop = result.stop_reason is StopReason.CANNOT_SHRINK and result.stop_detail in {"floor", "task"}
    return Outcome(
        cell=cell,
        suite=instance.suite,
        solved=passed or (instance.extra_tools > 0 and floor_stop and result.steps == 0),
        stop_reason=str(result.stop_reason),
        stop_detail=result.stop_detail,
        steps=result.steps,
        sent=model.sent + read,
        summariser=read,
        cacheable=model.cacheable,
        peak=model.peak,
        compactions=context.compactions if context else 0,
        rewrites=context.history_rewrites if context else 0,
        orphans=model.illegal,
        over_window=model.over_window,
        task_missing=model.task_missing,
        rules_missing=model.rules_missing,
        false_done=result.stop_reason is StopReason.ANSWERED and not passed,
    )


@contextmanager
def _parts(desk: Path, instance: Instance) -> Iterator[dict[str, Any]]:
    """Real tools over a folder: the parts of an agent that do not vary."""
    app, files = desk / "app", RunFiles(desk / "run")
    runner = CommandRunner(
        root=app,
        sandbox=Sandbox(level="danger-full-access", backend="none", missing=()),
        environment={"PATH": search_path(), "HOME": str(desk), "LC_ALL": "C.UTF-8", "TZ": "UTC"},
        spool_dir=files.spool,
    )
    workspace, known = Workspace.open(app, run_dir=files.path), KnownFiles()
    tools = default_tools(workspace, runner, known=known)
    try:
        yield {
            "tools": ToolSet([*tools, *_extra_tools(instance.extra_tools)]),
            "workspace": workspace,
            "files": files,
            "known": known,
        }
    finally:
        runner.close()


def _lay_out(files: Mapping[str, str], folder: Path) -> None:
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def _passes(instance: Instance, desk: Path) -> bool:
    """Whether the hidden tests pass on what is in the folder now. The policies are our own: no second tree is needed."""
    tests = {
        p.removeprefix("tests/"): t for p, t in instance.folder_files().items() if p.startswith("tests/")
    }
    _lay_out(tests, desk / "tests")
    done = subprocess.run(
        [sys.executable, "-S", "-s", "-P", "-B", "test_outputs.py", "Outputs"],
        cwd=desk / "tests",
        env={"APP_DIR": str(desk / "app"), "PATH": search_path(), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        timeout=_GRADE_TIMEOUT_S,
        check=False,
    )
    return done.returncode == 0


def _extra_tools(count: int) -> Iterator[Tool]:
    """Tools that nobody needs, of about 170 tokens each."""
    topics = ("invoice", "shipment", "customer", "contract", "warehouse", "tariff", "voucher", "claim")
    verbs = ("list", "create", "cancel")
    for number in range(count):
        topic, verb = topics[number // len(verbs) % len(topics)], verbs[number % len(verbs)]
        properties = {
            name: {
                "type": "string",
                "description": f"The {name.replace('_', ' ')} of the {topic}, as the office writes it.",
            }
            for name in ("identifier", "valid_from", "valid_until", "cost_centre", "remark")
        }
        yield Tool(
            name=f"{verb}_{topic}",
            description=f"{verb.capitalize()} a {topic} in the office system. Takes effect at the next booking run.",
            parameters={"type": "object", "properties": properties, "required": ["identifier"]},
            effect="read",
            run=lambda **_: ToolOutput(text="nothing booked", digest="booked nothing"),
        )
