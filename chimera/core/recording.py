"""A run as it can be taken up again: completions and what answered them, and how they become a state once more."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from chimera.core.context import Context
from chimera.core.history import Turn
from chimera.core.ledger import Verification
from chimera.core.messages import ToolCall, user
from chimera.core.model import Completion
from chimera.core.outputs import ToolOutput
from chimera.core.replies import read_reply
from chimera.core.state import RunState

LOST = (
    "[The run was interrupted while this call was running. Its effect is unknown and it was not repeated: "
    "check what is there before you do it again.{changes}]"
)
PRINTED = "[What it had printed until then: all of it is in {name}.]"
NOT_RUN = "[The run was interrupted before this call began. It was not run.]"


class RecordedStep(Struct, frozen=True, kw_only=True):
    """One completion and all that answered it."""

    completion: Completion
    outputs: tuple[ToolOutput | None, ...] = ()
    """One per call, in call order. None: no result was recorded, so the call is never run again."""
    started: tuple[bool, ...] = ()
    """Per call: whether it had begun."""
    printed: tuple[ToolOutput | None, ...] = ()
    """Per call: what it had printed when it was interrupted."""
    answer: str | None = None
    """The user message that the loop added after it: a nudge, a failed verification."""
    follow_up: str = ""
    """What the user said after it, when the run was taken up again."""
    verification: Verification | None = None
    ratio: float | None = None
    """Prompt tokens that the provider reported over our estimate at the time; None where it reported none."""


class Past(Struct, frozen=True, kw_only=True):
    """What a run goes on from."""

    steps: tuple[RecordedStep, ...]
    """All recorded steps, oldest first."""
    first_message: str = ""
    """What the user had added before there was any step."""
    message: str = ""
    """What the user says now; empty to go on as before."""
    changes: str = ""
    """What is known to have changed since the last checkpoint, for calls whose results were lost."""
    compact: bool = False
    """Shorten the history before the first request, however small it is."""


def answered(steps: Sequence[RecordedStep]) -> bool:
    """Whether the model's last word is an answer, so that only a message gives it something to do."""
    if not steps:
        return False
    reply = read_reply(steps[-1].completion)
    return not (reply.message.tool_calls or reply.fault or steps[-1].answer or steps[-1].follow_up)


def recall(context: Context, state: RunState, past: Past) -> None:
    """Bring a fresh state to where the recorded steps had left it, every call answered, and say the new message.

    Nothing is compacted here: the first `fit` of the loop does that, from the whole history.
    """
    if past.first_message:
        say(context, state, past.first_message)
    for step in past.steps:
        reply = read_reply(step.completion)
        state.unanswered = None
        if step.verification is not None:
            state.ledger.verification = step.verification
        if reply.message.tool_calls:
            calls = reply.message.tool_calls
            outputs = [
                output or _missing(call, begun, past.changes, printed)
                for call, output, begun, printed in zip(
                    calls, step.outputs, step.started, step.printed, strict=True
                )
            ]
            for output in outputs:
                learn(state, output)
            context.admit(state, reply.message, outputs)
        elif answer := step.answer or reply.fault:
            # Only an answer is checked; any other message that the loop itself answers was of no use.
            message = replace(reply.message, failed=step.verification is None)
            context.add_answer(state, message, answer)
        else:
            state.unanswered = reply.message
        if step.follow_up:
            say(context, state, step.follow_up)
    if past.message:
        say(context, state, past.message)


def learn(state: RunState, output: ToolOutput) -> None:
    """Take over the facts and the plan of an output."""
    for fact in output.facts:
        state.ledger.add(fact)
    if output.plan is not None:
        state.plan = output.plan


def say(context: Context, state: RunState, message: str) -> None:
    """Add a message of the user behind everything there is, wherever it may legally stand."""
    state.follow_up = message
    if state.unanswered is not None:
        context.add_exchange(state, state.unanswered, message)
        state.unanswered = None
    elif state.history.turns:
        *older, newest = state.history.turns
        turn = _with_message(context, newest, message)
        state.history = replace(state.history, turns=(*older, turn))
    else:
        state.history = context.counter.with_context(state.history, message)


def _with_message(context: Context, turn: Turn, message: str) -> Turn:
    *before, last = turn.replies
    if last.role == "user":
        return context.counter.turn(turn.assistant, *before, user(f"{last.content}\n\n{message}"))
    return context.counter.turn(turn.assistant, *turn.replies, user(message))


def _missing(call: ToolCall, begun: bool, changes: str, printed: ToolOutput | None) -> ToolOutput:
    text = LOST.format(changes=f" {changes}" if changes else "") if begun else NOT_RUN
    what = "interrupted, effect unknown" if begun else "not run"
    if printed is None:
        return ToolOutput(text=text, digest=f"{call.name}: {what}", ok=False)
    text = "\n".join((text, PRINTED.format(name=printed.kept), printed.text))
    return ToolOutput(
        text=text, digest=f"{call.name}: {what}", ok=False, size=printed.size, kept=printed.kept
    )
