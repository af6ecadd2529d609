"""A workspace with an agent over it: real tools in a real folder, a scripted model, and a strict look at every request."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from chimera.core.agent import Agent, Verify
from chimera.core.context_budget import ContextBudget
from chimera.core.model import Request, Window
from chimera.core.state import RunResult
from chimera.record.events import Event
from chimera.record.run_directory import RunFiles
from chimera.testing import Reply, ScriptedModel, call
from chimera.tools.base import ToolSet
from chimera.tools.default import default_tools
from chimera.tools.known_files import KnownFiles
from chimera.workspace.environment import child_environment
from chimera.workspace.paths import Workspace
from chimera.workspace.process import CommandRunner
from chimera.workspace.sandbox import Sandbox

TASK = "Keep the purple heron 7731 in mind.\n\n  - rule one: never touch calc.py ☃"

Script = Iterable[Reply] | Callable[[Request, int], Reply]


class Bench:
    """A workspace with an agent over it, and what the model and the listener saw."""

    def __init__(self, path: Path) -> None:
        self.root = path / "work"
        self.root.mkdir()
        (self.root / "calc.py").write_text("def add(a, b):\n    return a - b\n")
        self.files = RunFiles(path / "run")
        self.workspace = Workspace.open(self.root, run_dir=self.files.path)
        environment = child_environment({"PATH": "/usr/bin:/bin", "HOME": str(path)})
        sandbox = Sandbox(level="danger-full-access", backend="none", missing=())
        self.runner = CommandRunner(
            root=self.root, sandbox=sandbox, environment=environment, spool_dir=self.files.spool
        )
        self.known = KnownFiles()
        self.tools = default_tools(self.workspace, self.runner, known=self.known)
        self.events: list[Event] = []
        self.requests: list[Request] = []

    def run(
        self,
        script: Script,
        *,
        window: int = 32_000,
        task: str = TASK,
        verify: str | None = None,
        **parts: Any,
    ) -> RunResult:
        model = ScriptedModel(script)
        self.requests = model.requests
        parts["known"] = self.known
        parts.setdefault("budget", ContextBudget(window=Window(tokens=window, source="argument")))
        if verify is not None:
            shell = next(tool for tool in self.tools if tool.name == "shell")
            parts["verify"] = Verify(command=verify, run=lambda: shell.run(command=verify))
        agent = Agent(
            model=model,
            tools=ToolSet(self.tools),
            workspace=self.workspace,
            files=self.files,
            emit=self.events.append,
            **parts,
        )
        result = agent.run(task)
        self.check_requests(task)
        return result

    def check_requests(self, task: str) -> None:
        """Every request is legal, holds the task once at its place, and never changes system message or tools."""
        for request in self.requests:
            assert request.messages[0] == self.requests[0].messages[0]
            assert request.tools == self.requests[0].tools
            assert request.messages[1].content.startswith(task)
            assert sum(m.content.count(task) for m in request.messages) == 1
            assert request.max_tokens > 0
            check_legal(request)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [dict(event.fields) for event in self.events if event.type == kind]


def check_legal(request: Request) -> None:
    pending: list[str] = []
    previous = "system"
    for message in (m.wire() for m in request.messages[1:]):
        if message["role"] == "tool":
            assert message["tool_call_id"] == pending.pop(0)
        else:
            assert not pending
            assert message["role"] != previous
        if message["role"] == "assistant":
            pending = [c["id"] for c in message.get("tool_calls", [])]
            assert message["content"] or pending
            assert all(
                isinstance(json.loads(c["function"]["arguments"]), dict)
                for c in message.get("tool_calls", [])
            )
        previous = message["role"]
    assert not pending
    assert previous in {"user", "tool"}
    json.dumps([m.wire() for m in request.messages], ensure_ascii=False).encode()


def noise(n: int, lines: int = 60) -> Reply:
    """A command whose output never repeats."""
    return call(
        "shell", command=f"for i in $(seq {lines}); do echo line $i of run {n} $((i * {n + 7919})); done"
    )
