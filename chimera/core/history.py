"""The history of a run as turns, so that a tool result can never lose its call.

A history is: the system message; one user message that begins with the task; turns. Whoever shortens it removes or
masks whole turns. What is sent is `History.messages()`.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from chimera.core.messages import Message, user


class Turn(Struct, frozen=True, kw_only=True):
    """One assistant message and all that answers it: the unit that is kept, masked or removed."""

    assistant: Message
    replies: tuple[Message, ...]
    """One result per call in call order, then at most one user message; a user message alone if there is no call."""
    tokens: int
    """Estimate of all its messages, counted once, uncalibrated."""
    masked: bool = False
    """True once its results are one line each."""

    def __post_init__(self) -> None:
        calls = [call.id for call in self.assistant.tool_calls]
        results = [reply.tool_call_id for reply in self.replies if reply.role == "tool"]
        rest = self.replies[len(results) :]
        legal = calls == results and len(set(calls)) == len(calls) and len(rest) <= 1
        if not (self.replies and legal and all(reply.role == "user" for reply in rest)):
            raise ValueError(f"a turn must answer each call once, in order: calls {calls}, results {results}")
        if not (self.assistant.content or calls):
            raise ValueError("an assistant message needs text or calls")

    def messages(self) -> tuple[Message, ...]:
        """All its messages in order."""
        return (self.assistant, *self.replies)


class History(Struct, frozen=True, kw_only=True):
    """Everything that is sent but the tools."""

    system: Message
    task: str
    """The user's task, verbatim, for the whole run."""
    context: str = ""
    """After a compaction: restored state and note. It follows the task in the same message."""
    turns: tuple[Turn, ...] = ()
    task_tokens: int
    """Estimate of the first user message with the task alone (K), uncalibrated."""
    opening_tokens: int
    """Estimate of the first user message, task and context, uncalibrated."""

    @property
    def opening(self) -> Message:
        """The first user message. Its text begins with the task, byte for byte."""
        return user(f"{self.task}\n\n{self.context}" if self.context else self.task)

    @property
    def tokens(self) -> int:
        """Estimate of all messages but the system message, uncalibrated."""
        return self.opening_tokens + sum(turn.tokens for turn in self.turns)

    def messages(self) -> tuple[Message, ...]:
        """The messages of a request, legal for a strict provider."""
        return (self.system, self.opening, *(message for turn in self.turns for message in turn.messages()))

    def with_turn(self, turn: Turn) -> History:
        """This history and one more turn."""
        return replace(self, turns=(*self.turns, turn))
