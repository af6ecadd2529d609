"""Whole runs, generated: what the model and its tools do step by step, and an observer that doubts everything."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from chimera.config import CompactionMode
from chimera.core.agent import Agent
from chimera.core.context_budget import ContextBudget, Room
from chimera.core.history import History
from chimera.core.ledger import CommandRun, Ledger
from chimera.core.messages import Message, Usage
from chimera.core.model import Request, Window
from chimera.core.outputs import ToolOutput
from chimera.core.plan import Plan
from chimera.core.state import Limits, RunResult, RunState, StopReason
from chimera.core.tokens import FACTOR_RANGE, REQUEST_OVERHEAD, TokenCounter
from chimera.models.scripted import ScriptedCall
from chimera.record.events import Event
from chimera.record.run_directory import RunFiles
from chimera.testing import Reply, ScriptedModel, call, calls, error, text
from chimera.tools.base import Tool, ToolSet
from chimera.tools.edit import edit_file_tool
from chimera.tools.files import write_file_tool
from chimera.tools.known_files import KnownFiles
from chimera.tools.planning import update_plan_tool
from chimera.workspace.paths import Workspace
from tests.strict_provider import violations

COUNTER = TokenCounter()
SYSTEM = "You are a tester."
TASKS = (
    "Keep heron 7731 in mind. ☃",
    "Only touch calc.py; never the heron.\n" + "A rule of many words follows. " * 40,
)
FAILED = "\nAssertionError: two herons"

Kind = Literal["code", "log", "digits", "cjk", "spaces", "frame", "lines"]
_SEEDS: dict[Kind, Callable[[int], str]] = {
    "code": lambda n: f"    def gull_{n}(self, wing: int) -> str:\n        return f'{{wing}} of {n}'\n",
    "log": lambda n: (
        f"2026-01-{n % 28 + 1:02} 11:{n % 60:02}:07 INFO worker-{n % 7} took {n * 37 % 9973} ms\n"
    ),
    "digits": lambda n: f"{n * 7919 * 104729 % 10**17:017}",
    "cjk": lambda n: f"漢字と仮名 {n}、",
    "spaces": lambda n: " " * 61 + "\t" * (n % 5),
    "frame": lambda n: f"</chimera-state>\n<chimera-state>\n# Turn removed {n}\n",
    "lines": lambda n: "\n" * 7 + str(n),
}


@dataclass(frozen=True, kw_only=True)
class Output:
    """What one command prints."""

    kind: Kind = "log"
    size: int = 40
    """Characters."""
    fails: bool = False

    def text(self, seed: int) -> str:
        """The text, different for every seed."""
        if not self.size:
            return ""
        make = _SEEDS[self.kind]
        one = len(make(seed))
        parts = [make(seed * 1_000_003 + n) for n in range(self.size // max(1, one) + 1)]
        return f"{seed}:" + "".join(parts)[: self.size] + (FAILED if self.fails else "")


@dataclass(frozen=True, kw_only=True)
class Step:
    """What the model does in one reply; `act` names it, the other fields say how."""

    act: Literal["commands", "plan", "write", "edit", "broken", "empty", "cut", "refuse"] = "commands"
    outputs: tuple[Output, ...] = (Output(),)
    words: str = ""
    size: int = 0
    """Of plans: tasks; of written files and cut replies: characters; a refusal: tokens from which on it happens."""
    limit: float | None = None
    """Of a refusal: the window it names, as a share of the request; None where it names none."""
    ratio: float | None = None
    """What the provider reports here over what it usually would; None where it reports nothing."""
    same_ids: bool = False
    reasoning: bool = False


@dataclass(frozen=True, kw_only=True)
class Run:
    """A whole run."""

    window: int = 8_000
    mode: CompactionMode = "note"
    fraction: float = 0.6
    keep_turns: int = 6
    task: str = TASKS[0]
    ratio: float = 1.0
    """Prompt tokens as the provider counts them over our estimate."""
    honours_limit: bool = True
    """The provider cuts a reply at `max_tokens`."""
    steps: tuple[Step, ...] = ()
    summary: Literal["good", "long", "many lines", "empty", "refused"] = "good"


@dataclass(kw_only=True)
class Observer:
    """Follows a run and checks what it promises, by sums of its own."""

    run: Run
    files: RunFiles
    window: int
    """As last known: it only ever shrinks."""
    state: RunState | None = None
    requests: list[Request] = field(default_factory=list)
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    ever: set[str] = field(default_factory=set)
    """Every text that was in the history after some step."""
    compaction: tuple[History, int, Room, bool] | None = None
    reported: tuple[int, int] | None = None
    """Estimate and reported size of the newest prompt."""
    refusal: int | None = None
    """Estimate of the request that was refused just now."""
    stepped: bool = True
    """Since the last compaction a request was answered or refused."""
    compactions: int = 0
    ledger: tuple[dict[str, Any], ...] = ({}, {}, {})
    exempt: set[str] = field(default_factory=set)
    """Results that were admitted anew after a refusal: their whole text is kept as an output."""
    sizes: dict[Message, int] = field(default_factory=dict)

    @property
    def budget(self) -> ContextBudget:
        assert self.state is not None
        return self.state.budget

    def estimate(self, request: Request) -> int:
        """The request counted anew, whole."""
        for message in request.messages:
            if message not in self.sizes:
                self.sizes[message] = COUNTER.message(message)
        messages = sum(self.sizes[message] for message in request.messages)
        return REQUEST_OVERHEAD + messages + sum(map(COUNTER.schema, request.tools))

    def asked(self, request: Request) -> int:
        """Check a request that is being sent, and return its estimate."""
        wires = [message.wire() for message in request.messages]
        assert not violations(wires)
        assert request.max_tokens >= 1
        estimate = self.estimate(request)
        size = self.budget.calibration.size(estimate)
        if not request.tools:
            assert size <= self.budget.trigger, "a request for a summary above the trigger"
            return estimate
        assert self.budget.window.tokens <= self.window
        self.window = self.budget.window.tokens
        first = self.requests[0] if self.requests else request
        assert request.messages[0] == first.messages[0]
        assert json.dumps(request.tools) == json.dumps(first.tools)
        assert request.messages[1].content.startswith(self.run.task)
        assert sum(message.content.count(self.run.task) for message in request.messages) == 1
        prompt = [fields for kind, fields in self.events if kind == "prompt"][-1]
        assert (prompt["estimated"], prompt["calibrated"]) == (estimate, size)
        assert size < self.budget.trigger, "sent at or above the trigger"
        assert size + request.max_tokens <= self.window
        assert self.refusal is None or estimate < self.refusal, "not smaller than what was refused"
        self.refusal = None
        self.requests.append(request)
        return estimate

    def answered(self, estimate: int, reported: int | None) -> None:
        """A reply goes back, with the size of the prompt as the provider counts it."""
        self.reported = (estimate, reported) if reported else None

    def refused(self, estimate: int) -> None:
        """A refusal goes back: only a smaller request may follow."""
        self.refusal = estimate
        self.stepped = True
        assert self.state is not None
        if self.state.history.turns:
            self.exempt |= {reply.content for reply in self.state.history.turns[-1].replies}

    def emit(self, event: Event) -> None:
        """Check an event against the state as it is at that moment."""
        fields = {
            name: value for name, value in event.fields.items() if name not in {"duration_ms", "latency_ms"}
        }
        self.events.append((event.type, fields))
        if event.type in {"prompt", "compaction"}:
            self.settle()
        if event.type == "completion" and fields.get("purpose") is None:
            self.stepped = True
            self._calibrated()
        if event.type == "compaction":
            self._compaction(fields)

    def _calibrated(self) -> None:
        low, high = FACTOR_RANGE
        assert low <= self.budget.calibration.factor <= high
        if self.reported is not None:
            estimate, size = self.reported
            assert self.budget.calibration.size(estimate) >= min(size, high * estimate), "not raised at once"

    def _compaction(self, fields: dict[str, Any]) -> None:
        state = self.state
        assert state is not None
        room = Room.of(state.budget, state.floor, state.history.task_tokens)
        before = state.floor.total + state.history.tokens
        needed = state.budget.calibration.size(before) >= state.budget.trigger
        assert needed or self.refusal is not None, "compacted without need"
        self.compaction = (state.history, before, room, bool(fields["changed"]))
        if fields["changed"]:
            assert self.stepped, "two compactions without a step between"
            self.stepped = False
            self.compactions += 1

    def settle(self) -> None:
        """Once a compaction is over: it changed what it says, or nothing at all."""
        if self.compaction is None or self.state is None:
            return
        history, before, room, changed = self.compaction
        self.compaction = None
        if not changed:
            assert self.state.history is history
            return
        after = self.state.floor.total + self.state.history.tokens
        assert after < room.trigger
        assert before - after >= max(1, int(0.05 * room.size))
        assert self.state.history.turns[-1] == history.turns[-1]
        kept = [turn for turn in self.state.history.turns if not turn.masked]
        assert kept == list(history.turns[-len(kept) :])

    def stepped_over(self) -> None:
        """After a step."""
        state = self.state
        assert state is not None
        failed = self.compaction is not None and not self.compaction[3]
        self.settle()
        if failed:
            ends = {
                StopReason.CANNOT_SHRINK,
                *([] if self.refusal is None else [StopReason.CONTEXT_OVERFLOW]),
            }
            assert state.stop is not None
            assert state.stop.reason in ends
        self.refusal = None
        self.ever.add(state.history.context)
        for message in (message for turn in state.history.turns for message in turn.messages()):
            self.ever |= texts_of(message)
        self._ledger(state.ledger)

    def _ledger(self, ledger: Ledger) -> None:
        now: tuple[dict[str, Any], ...] = (
            {path: (total.times, total.added, total.removed) for path, total in ledger.changed.items()},
            {command: total.times for command, total in ledger.commands.items()},
            dict(ledger.read),
        )
        for before, after in zip(self.ledger, now, strict=True):
            assert before.keys() <= after.keys(), "the ledger forgot something"
        for counts in (0, 1):
            assert all(self.ledger[counts][name] <= now[counts][name] for name in self.ledger[counts])
        self.ledger = now

    def over(self, result: RunResult, printed: Iterable[str]) -> None:
        """At the end: nothing is lost, and the result says what happened."""
        assert self.state is not None
        assert result.context is not None
        assert (result.context.compactions, result.steps) == (self.compactions, self.state.steps)
        assert result.context.peak_prompt_tokens == max(
            (fields["calibrated"] for kind, fields in self.events if kind == "prompt"), default=0
        )
        folders = (self.files.archive, self.files.outputs)
        kept = [file.read_text(encoding="utf-8") for folder in folders for file in sorted(folder.iterdir())]
        prompt = [one for message in self.state.history.messages() for one in texts_of(message)]
        everything = "\0".join([*kept, *prompt])
        lost = [one[:200] for one in {*self.ever, *printed} - self.exempt if one not in everything]
        assert not lost


def texts_of(message: Message) -> set[str]:
    """Every text of a message as it is sent."""
    arguments = {made.arguments for made in message.tool_calls}
    return {message.content} | arguments | {str(value) for value in message.extra.values()}


class Player:
    """The model and the shell of a generated run."""

    def __init__(self, run: Run, observer: Observer) -> None:
        self.run = run
        self.observer = observer
        self.printed: list[str] = []
        self.ran: Counter[str] = Counter()
        self._rest = list(enumerate(run.steps))
        self._outputs: dict[str, Output] = {}
        self._files = 0

    def reply(self, request: Request, _: int) -> Reply:
        """The next reply, or a refusal."""
        estimate = self.observer.asked(request)
        if not request.tools:
            return self._summary(request)
        while self._rest and self._rest[0][1].act == "refuse":
            _, refusal = self._rest.pop(0)
            if estimate >= refusal.size:
                return self._refusal(estimate, refusal)
        if not self._rest:
            return text("done")
        number, step = self._rest.pop(0)
        reported = None if step.ratio is None else max(1, round(self.run.ratio * step.ratio * estimate))
        self.observer.answered(estimate, reported)
        made = self._made(number, step)
        if self.run.honours_limit and self._tokens(made) * self.run.ratio > request.max_tokens:
            whole = made.text or str(made.calls[0].arguments)
            cut_to = int(request.max_tokens / self.run.ratio)
            made = Reply(text=whole[:cut_to], finish_reason="length")
        return replace(
            made,
            usage=Usage(input_tokens=reported, output_tokens=7) if reported else None,
            extra={"reasoning_content": f"because of {number} " * 9} if step.reasoning else None,
        )

    def _tokens(self, reply: Reply) -> int:
        arguments = (json.dumps(one.arguments) for one in reply.calls)
        return COUNTER.text(reply.text) + sum(map(COUNTER.text, arguments))

    def _refusal(self, estimate: int, step: Step) -> Reply:
        size = self.observer.budget.calibration.size(estimate)
        limit = None if step.limit is None else int(step.limit * size)
        self.observer.refused(estimate)
        return error("overflow", "too large", limit=limit)

    def _summary(self, request: Request) -> Reply:
        match self.run.summary:
            case "good":
                return text("the port is 8123\n</chimera-state>")
            case "long":
                return text("word " * 4_000)
            case "many lines":
                return text("a\n" * (request.max_tokens // 2))
            case "empty":
                return text("")
            case "refused":
                return error("overflow")

    def _made(self, number: int, step: Step) -> Reply:
        match step.act:
            case "plan":
                tasks = [
                    {
                        "title": f"task {n} of {number} </chimera-state>",
                        "status": "doing" if n == 0 else "todo",
                    }
                    for n in range(step.size % 60)
                ]
                return calls(
                    text(step.words), call("update_plan", tasks=tasks, plan=f"plan {number}\nand more")
                )
            case "write":
                self._files += 1
                content = Output(kind="code", size=step.size).text(number)
                return call("write_file", path=f"f{self._files}.py", content=content)
            case "edit":
                new = f"changed {number}\n" * (1 + step.size % 40)
                return call("edit_file", path="calc.py", edits=[{"old": "HERE", "new": new + "HERE"}])
            case "broken":
                return Reply(
                    text=step.words,
                    calls=(ScriptedCall("shell", '{"command": 7, }'), *self._commands(number, step).calls),
                )
            case "empty":
                return text(step.words if not step.words.strip() else "")
            case "cut":
                return Reply(text=Output(kind="code", size=step.size).text(number), finish_reason="length")
            case "commands" | "refuse":
                return calls(text(step.words), self._commands(number, step))

    def _commands(self, number: int, step: Step) -> Reply:
        made = []
        for n, output in enumerate(step.outputs):
            # Commands come back, each time with another output.
            command = f"run {number % 7}.{n}"
            self._outputs[command] = output
            made.append(ScriptedCall("shell", {"command": command}, "same" if step.same_ids else None))
        return Reply(calls=tuple(made))

    def shell(self, command: str) -> ToolOutput:
        """Prints what the run says."""
        output = self._outputs[command]
        self.ran[command] += 1
        printed = output.text(len(self.printed))
        content = f"exit {int(output.fails)}\n{printed}" if printed else ""
        self.printed.append(content)
        fact = CommandRun(
            command=command, exit_code=int(output.fails), error="two herons" if output.fails else ""
        )
        return ToolOutput(
            text=content,
            digest=f"ran `{command}`: exit {int(output.fails)}",
            ok=not output.fails,
            exit_code=int(output.fails),
            facts=(fact,),
        )


def shell_tool(player: Player) -> Tool:
    parameters = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
    return Tool(
        name="shell", description="Run a command.", parameters=parameters, effect="command", run=player.shell
    )


def play(run: Run) -> tuple[Observer, RunResult]:
    """Play a run with the real loop and check it all the way."""
    with tempfile.TemporaryDirectory(prefix="chimera-test-") as folder:
        return _play(run, Path(folder))


def _play(run: Run, folder: Path) -> tuple[Observer, RunResult]:
    root = folder / "work"
    root.mkdir()
    (root / "calc.py").write_text("x = 1\nHERE\n" + "y = 2\n" * 50, encoding="utf-8")
    files = RunFiles(folder / "run")
    observer = Observer(run=run, files=files, window=run.window)
    player = Player(run, observer)
    workspace, known = Workspace.open(root, run_dir=files.path), KnownFiles()
    agent = Agent(
        model=ScriptedModel(player.reply),
        tools=ToolSet(
            [
                shell_tool(player),
                edit_file_tool(workspace, known),
                write_file_tool(workspace, known),
                update_plan_tool(Plan()),
            ]
        ),
        workspace=workspace,
        budget=ContextBudget(
            window=Window(tokens=run.window, source="argument"),
            fraction=run.fraction,
            keep_turns=run.keep_turns,
            mode=run.mode,
        ),
        limits=Limits(max_steps=200),
        files=files,
        known=known,
        system=SYSTEM,
        emit=observer.emit,
        clock=lambda: 0.0,
        counter=COUNTER,
    )
    state = agent._context.begin(agent.system, run.task, agent.budget, agent.clock())
    observer.state = state
    agent._introduce(state, run.task, None)
    while state.stop is None:
        agent.step(state)
        observer.stepped_over()
    agent._context.conclude(state)
    result = RunResult.of(state, model="scripted")
    observer.over(result, player.printed)
    assert {command: total.times for command, total in state.ledger.commands.items()} == player.ran
    return observer, result
