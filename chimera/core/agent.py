"""The ReAct loop. Read `run` and `step` first: they are the algorithm."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from chimera import interruption, prompts
from chimera.core.compaction import Compactor, compact
from chimera.core.context import Context
from chimera.core.context_budget import ContextBudget, floor_fields
from chimera.core.ledger import CommandRun, Verification, fact_fields
from chimera.core.messages import ToolCall
from chimera.core.model import Completion, Model
from chimera.core.outputs import ToolOutput
from chimera.core.protocol import NATIVE, ToolProtocol
from chimera.core.recording import Past, learn, recall
from chimera.core.replies import Reply, broken_calls, read_reply
from chimera.core.state import Limits, RunResult, RunState, Stop, StopReason
from chimera.core.summary import Summariser
from chimera.core.tokens import TokenCounter
from chimera.errors import ContextOverflowError, ModelAuthError, ModelError, RecordError, ToolsRefusedError
from chimera.record.events import Emit, Event
from chimera.record.run_directory import RunFiles
from chimera.tools.base import ToolSet, failed
from chimera.tools.known_files import KnownFiles
from chimera.workspace.paths import Workspace

MAX_BAD_COMPLETIONS = 3
"""In a row: empty, cut, or with nothing but broken arguments."""
MAX_VERIFICATIONS = 3
_INLINE_OUTPUT_BYTES = 16 * 1024
_CUT = failed(prompts.CUT, digest="not run, the message was cut")


class Verify(Struct, frozen=True, kw_only=True):
    """The user's check, which decides whether an answer counts."""

    command: str
    run: Callable[[], ToolOutput]
    """Never raises for a command that fails or cannot be started."""


class Agent(Struct, frozen=True, kw_only=True, dict=True):
    """A model, tools and a workspace, and the loop that brings them together. One run at a time."""

    model: Model
    tools: ToolSet
    workspace: Workspace
    budget: ContextBudget
    limits: Limits = field(default_factory=Limits)
    files: RunFiles = field(default_factory=RunFiles.temporary)
    known: KnownFiles = field(default_factory=KnownFiles)
    """What the file tools know of file contents; the same object as theirs, so that a restored file counts as read."""
    verify: Verify | None = None
    system: str = prompts.SYSTEM
    """The system message but for how calls are made, which the protocol says."""
    protocols: tuple[ToolProtocol, ...] = (NATIVE,)
    """How calls travel; each later one is the way out where the one before does not work."""
    emit: Emit = lambda event: None
    clock: Callable[[], float] = time.monotonic
    waited: Callable[[], float] = lambda: 0.0
    """Seconds in which a person was asked, until now: no part of what a call took."""
    meanwhile: Callable[[], None] = lambda: None
    """Work that can wait until a request is on its way. Called any number of times, by models that can tell."""
    counter: TokenCounter = field(default_factory=TokenCounter)
    compactor: Compactor = compact
    """How the history is shrunk; another one only to compare."""

    def run(self, task: str, past: Past | None = None) -> RunResult:
        """Work on a task until something gives a reason to stop. Expected ends are results, never exceptions.

        Args:
            task: what to do; verbatim in every request.
            past: steps of the same task to go on from, instead of a fresh start.
        """
        protocol = self._first_protocol(past)
        text = protocol.system(self.system, self.tools.schemas())
        state = self._context.begin(text, task, self.budget, self.clock(), protocol, counted=past is not None)
        try:
            self._introduce(state, task, past)
            while state.stop is None:
                self.step(state)
            self._context.conclude(state)
        except KeyboardInterrupt as signal:
            state.stop = interrupted(signal)
        except RecordError as fault:
            state.stop = Stop(StopReason.STATE_UNWRITABLE, message=str(fault))
        return RunResult.of(state, model=self.model.name)

    def step(self, state: RunState) -> None:
        """One step: limits, context, one completion, its calls. Sets `state.stop` when there is a reason to."""
        state.stop = self.limits.reached(state, self.clock()) or self._context.fit(state)
        if state.stop is not None:
            return
        state.steps += 1
        completion = self._complete(state)
        if completion is None:
            return
        reply = read_reply(completion, self.tools.names)
        if reply.written and not state.calls and state.protocol is not self.protocols[-1]:
            self._context.answer_back(state, reply.message, prompts.ACTIONS_FROM_NOW)
            state.stop = self._fall_back(state, "The model writes its calls as text")
        elif reply.fault:
            # Even where the run stops with it: it is what a run that is taken up again goes on from.
            self._context.answer_back(state, reply.message, reply.fault)
            state.stop = self._bad_reply(state, reply)
        elif fault := self._bad_reply(state, reply):
            state.stop = fault
        elif reply.message.tool_calls:
            self._run_calls(state, reply)
        else:
            self._answer(state, reply)

    @cached_property
    def _context(self) -> Context:
        return Context(
            counter=self.counter,
            schemas=self.tools.schemas(),
            workspace=self.workspace,
            known=self.known,
            files=self.files,
            emit=self.emit,
            summariser=Summariser(model=self.model, counter=self.counter, emit=self.emit),
            compactor=self.compactor,
            meanwhile=self._use_the_wait,
        )

    def _use_the_wait(self) -> None:
        self.meanwhile()
        self.counter.load()

    def _first_protocol(self, past: Past | None) -> ToolProtocol:
        """The first one, or what a run that is taken up again had changed to because its model wrote its calls as text."""
        changed = past is not None and any(step.answer == prompts.ACTIONS_FROM_NOW for step in past.steps)
        return self.protocols[-1 if changed else 0]

    def _introduce(self, state: RunState, task: str, past: Past | None) -> None:
        if past is not None:
            recall(self._context, state, past)
        self._emit(
            "run_started",
            task=task,
            system=state.history.system.content,
            tools=list(state.protocol.schemas(self.tools.schemas())),
            protocol=state.protocol.name,
            model=self.model.name,
            window=self.budget.window.tokens,
            window_source=self.budget.window.source,
            budget=self.budget.budget,
            trigger=self.budget.trigger,
            floor=floor_fields(state.floor),
            calibration=self.budget.calibration.factor if self.budget.calibration.known else None,
            resumed=past is not None,
        )
        if past is not None and past.message:
            self._emit("message", role="user", source="user", content=past.message)
        if past is not None and past.compact:
            self._context.shorten(state)
        if self.budget.window.source == "unknown":
            self._context.warn(
                state,
                f"The context window of {self.model.name!r} is unknown: assuming {self.budget.window.tokens:,} tokens. "
                "Set it with --window.",
            )

    def _complete(self, state: RunState) -> Completion | None:
        """One completion. A refusal for size gets one smaller request, one of tools another protocol; else the run stops."""
        refused_before = False
        while state.stop is None:
            try:
                return self._send(state)
            except ContextOverflowError as refusal:
                message = f"The provider refused the request for its size even after compaction. {refusal}"
                again = Stop(StopReason.CONTEXT_OVERFLOW, message=message)
                state.stop = again if refused_before else self._context.learn(state, refusal)
                refused_before = True
            except ToolsRefusedError as refusal:
                state.stop = self._fall_back(state, f"The server takes no tools ({refusal})")
            except ModelAuthError as fault:
                state.stop = Stop(StopReason.AUTH_ERROR, message=str(fault))
            except ModelError as fault:
                state.stop = Stop(StopReason.MODEL_ERROR, message=str(fault))
        return None

    def _fall_back(self, state: RunState, why: str) -> Stop | None:
        """Go on with the next protocol and say so; the stop where there is none."""
        following = self.protocols[self.protocols.index(state.protocol) + 1 :]
        if not following:
            message = f"{why}. With --tool-protocol json calls travel as text."
            return Stop(StopReason.MODEL_ERROR, message=message)
        self._context.warn(state, f"{why}: from here on each call is one JSON object (--tool-protocol json).")
        text = following[0].system(self.system, self.tools.schemas())
        return self._context.change_protocol(state, following[0], text)

    def _send(self, state: RunState) -> Completion:
        request = self._context.request(state)
        start = self.clock()
        plain = state.protocol is NATIVE

        def on_text(text: str) -> None:
            self._context.settle(state)
            if plain:
                self._emit("text", text=text)

        try:
            written = self.model.complete(request, on_text)
        finally:
            self._context.settle(state)
        completion = state.protocol.completion(
            written, step=state.steps, names=self.tools.names, again=state.bad_completions > 0
        )
        if not plain and completion.message.content:
            self._emit("text", text=completion.message.content)
        usage = self._context.observe(state, completion.message, completion.usage)
        self._emit(
            "completion",
            step=state.steps,
            message=completion.message.wire(),
            finish_reason=completion.finish_reason,
            usage=asdict(usage),
            latency_ms=round((self.clock() - start) * 1000),
        )
        return completion

    def _bad_reply(self, state: RunState, reply: Reply) -> Stop | None:
        """Count replies that cannot be used; the stop once there are too many in a row."""
        if not (reply.fault or broken_calls(reply)):
            state.bad_completions = 0
            return None
        state.bad_completions += 1
        if state.bad_completions < MAX_BAD_COMPLETIONS:
            return None
        why = reply.fault or "The arguments of its calls were not JSON objects."
        message = f"{MAX_BAD_COMPLETIONS} replies in a row could not be used. The last one: {why}"
        return Stop(StopReason.BAD_COMPLETION, message=message)

    def _run_calls(self, state: RunState, reply: Reply) -> None:
        """Run the calls in order; each gets exactly one result, and the turn joins the history whole."""
        calls = reply.message.tool_calls
        state.calls += len(calls)
        outputs = [
            self._run_call(state, call, name, text, run=not reply.cut or call is calls[-1])
            for call, name, text in zip(calls, reply.names, reply.arguments, strict=True)
        ]
        verdict = state.progress.judge(
            (call.name, text, output.text, output.ok)
            for call, text, output in zip(calls, reply.arguments, outputs, strict=True)
        )
        if verdict == "nudge":
            outputs[-1] = replace(outputs[-1], text=outputs[-1].text + prompts.NUDGE)
        self._context.admit(state, reply.message, outputs)
        if verdict == "stop":
            message = "The same calls kept bringing the same results, or every call failed. See the record of the run."
            state.stop = Stop(StopReason.NO_PROGRESS, message=message)

    def _run_call(
        self, state: RunState, call: ToolCall, name: str, arguments: str, *, run: bool
    ) -> ToolOutput:
        self._emit("tool_started", step=state.steps, id=call.id, name=call.name, arguments=arguments)
        output = self._timed(state, call, lambda: self.tools.run(name, arguments) if run else _CUT)
        learn(state, output)
        return output

    def _timed(self, state: RunState, call: ToolCall, run: Callable[[], ToolOutput]) -> ToolOutput:
        """Run something that has an output, and record the output: inline, or by name where it is long."""
        start = self.clock() - self.waited()
        try:
            output = run()
        except KeyboardInterrupt:
            if name := self.files.keep_left_over():
                size = self.files.output(name).stat().st_size
                about = {"step": state.steps, "id": call.id, "name": call.name}
                self._emit("tool_interrupted", **about, bytes=size, output_file=name)
            raise
        duration_ms = round((self.clock() - self.waited() - start) * 1000)
        size = output.size if output.size is not None else len(output.text.encode())
        output = replace(output, size=size)
        where: dict[str, Any] = {"output": output.text}
        if size > _INLINE_OUTPUT_BYTES:
            output = replace(output, kept=self.files.keep_output(output.text, output.spool), spool=None)
            where = {"output_file": output.kept}
        elif output.spool is not None:
            output.spool.unlink(missing_ok=True)
            output = replace(output, spool=None)
        if output.plan is not None:
            tasks = [{"title": task.title, "status": task.status} for task in output.plan.tasks]
            self._emit("plan", step=state.steps, text=output.plan.text, tasks=tasks)
        self._emit(
            "tool_finished",
            step=state.steps,
            id=call.id,
            name=call.name,
            ok=output.ok,
            bytes=size,
            cut=output.kept is not None,
            exit_code=output.exit_code,
            duration_ms=duration_ms,
            digest=output.digest,
            facts=[fact_fields(fact) for fact in output.facts],
            **where,
        )
        return output

    def _answer(self, state: RunState, reply: Reply) -> None:
        """The model is done. If there is a check, it decides; its failure goes back to the model, a few times."""
        if self.verify is not None and not self._verified(state, reply, self.verify):
            return
        state.answer = reply.message.content
        state.stop = Stop(StopReason.ANSWERED)

    def _verified(self, state: RunState, reply: Reply, verify: Verify) -> bool:
        call = ToolCall(id=f"verify_{state.steps}", name="verify", arguments="{}")
        self._emit("tool_started", step=state.steps, id=call.id, name=call.name, arguments=call.arguments)
        output = self._timed(state, call, verify.run)
        runs = [fact for fact in output.facts if isinstance(fact, CommandRun)]
        error = runs[0].error if runs else output.text
        state.ledger.verification = Verification(command=verify.command, passed=output.ok, error=error)
        if output.ok:
            return True
        state.failed_verifications += 1
        left = MAX_VERIFICATIONS - state.failed_verifications
        if left == 0:
            message = f"The check `{verify.command}` failed {MAX_VERIFICATIONS} times: {error}"
            state.stop = Stop(StopReason.VERIFY_FAILED, message=message)
            return False
        shown = self._context.cut_to_turn(state, reply.message, output)
        text = prompts.verification_failed(verify.command, shown, attempts_left=left)
        self._context.answer_back(state, reply.message, text)
        return False

    def _emit(self, kind: Any, **fields: Any) -> None:
        self.emit(Event(kind, fields))


def interrupted(signal: KeyboardInterrupt) -> Stop:
    """The stop that a signal makes."""
    interruption.seen()
    name = str(signal.args[0]) if isinstance(signal, interruption.Interrupted) and signal.args else "SIGINT"
    return Stop(StopReason.INTERRUPTED, detail=name, message=f"Interrupted by {name}. The record is kept.")
