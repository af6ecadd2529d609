"""`trajectory.json` of a task: what was done before the start, in ATIF, and how a run goes on from there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from chimera.core.ledger import CommandRun, Fact, FileChanged, FileRead
from chimera.core.messages import ToolCall, assistant
from chimera.core.model import Completion
from chimera.core.outputs import ToolOutput
from chimera.core.recording import Past, RecordedStep
from chimera.errors import ConfigError

ATIF = "ATIF-v1.4"
"""What readers of all later versions take as well."""


class PastStep(Struct, frozen=True, kw_only=True):
    """A tool call that lies before the start, and what it came to. The start tree already shows its effect."""

    name: str
    arguments: Mapping[str, Any]
    output: str


def write_trajectory(task: str, steps: Sequence[PastStep]) -> str:
    """The text of a `trajectory.json`: one message of the agent for each call."""
    told: list[dict[str, Any]] = [{"source": "user", "message": task}]
    for number, step in enumerate(steps):
        call = {
            "tool_call_id": f"past{number}",
            "function_name": step.name,
            "arguments": dict(step.arguments),
        }
        result = {"source_call_id": f"past{number}", "content": step.output}
        told.append(
            {"source": "agent", "message": "", "tool_calls": [call], "observation": {"results": [result]}}
        )
    trajectory = {
        "schema_version": ATIF,
        "session_id": "before-the-start",
        "agent": {"name": "chimera", "version": "0"},
        "steps": [{"step_id": number, **step} for number, step in enumerate(told, 1)],
    }
    return json.dumps(trajectory, indent=1, ensure_ascii=False) + "\n"


def read_trajectory(path: Path) -> Past:
    """What a run goes on from.

    Messages of the agent are taken over with their calls and results, and so is what the user said behind them. System
    message and task are the run's own, whatever the file says.

    Raises:
        ConfigError: the file is no trajectory, or a call in it has no result.
    """
    try:
        steps = json.loads(path.read_text(encoding="utf-8"))["steps"]
        taken = _Past()
        for step in steps:
            taken.take(step)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as fault:
        raise ConfigError(f"{path}: no ATIF trajectory that a run can go on from: {fault!r}") from fault
    return Past(steps=tuple(taken.steps))


def past_of(steps: Iterable[PastStep]) -> Past:
    """The same, of steps at hand."""
    return Past(
        steps=tuple(
            _recorded(
                "",
                [ToolCall(id=f"past{n}", name=s.name, arguments=json.dumps(dict(s.arguments)))],
                [s.output],
            )
            for n, s in enumerate(steps)
        )
    )


class _Past(Struct):
    """Steps as they are read, oldest first."""

    steps: list[RecordedStep] = field(default_factory=list)

    def take(self, step: Mapping[str, Any]) -> None:
        source, message = step["source"], step.get("message") or ""
        if source == "agent":
            calls = [
                ToolCall(
                    id=call["tool_call_id"],
                    name=call["function_name"],
                    arguments=json.dumps(call["arguments"]),
                )
                for call in step.get("tool_calls") or ()
            ]
            if calls or message:
                self.steps.append(_recorded(message, calls, list(_contents(calls, step))))
        elif source == "user" and self.steps and message:
            last = self.steps[-1]
            said = f"{last.follow_up}\n\n{message}" if last.follow_up else message
            self.steps[-1] = replace(last, follow_up=said, answer=None)


def _contents(calls: Sequence[ToolCall], step: Mapping[str, Any]) -> Iterator[str]:
    found = {
        result["source_call_id"]: result["content"]
        for result in (step.get("observation") or {}).get("results", ())
    }
    for call in calls:
        content = found[call.id]
        yield content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _recorded(message: str, calls: Sequence[ToolCall], outputs: Sequence[str]) -> RecordedStep:
    made = []
    for call, output in zip(calls, outputs, strict=True):
        facts, digest = _facts(call, output)
        made.append(ToolOutput(text=output, digest=digest, facts=facts))
    return RecordedStep(
        completion=Completion(
            message=assistant(message, *calls), finish_reason="tool_calls" if calls else "stop"
        ),
        outputs=tuple(made),
        started=(True,) * len(made),
        printed=(None,) * len(made),
        answer=None if calls else "Go on.",
    )


def _facts(call: ToolCall, output: str) -> tuple[tuple[Fact, ...], str]:
    """What is known from a call of one of our tools, and the line that may stand for its result."""
    arguments = json.loads(call.arguments)
    lines = len(output.splitlines())
    match call.name:
        case "shell":
            command = str(arguments["command"])
            return (CommandRun(command=command, exit_code=0),), f"ran `{command}`: exit 0"
        case "read_file":
            path, last = str(arguments["path"]), lines - 1
            read = FileRead(path=path, first=1, last=last, total=last)
            return (read,), f"read {path} lines 1-{last} of {last}"
        case "write_file":
            path, added = str(arguments["path"]), str(arguments["content"]).count("\n")
            changed = FileChanged(path=path, added=added, removed=0, line=1, created=True)
            return (changed,), f"created {path} +{added} -0"
        case _:
            return (), f"{call.name}: {lines} lines"
