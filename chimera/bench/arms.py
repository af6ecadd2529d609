"""Ways to keep a history in a window, to be compared in the real loop: ours, and others as good as their ideas allow.

All arms keep the system message and the task, cut results at the door as ours does, look at the size of a request
before it is sent, and never part a call from its result. What differs is what they do about a request that is too large:

- none: nothing. Requests grow up to the window, and there the run ends.
- truncate: the oldest turns go, with nothing in their place.
- mask-10: the results of all turns but the newest ten become a placeholder; where that does not fit, of all but the
  newest five, two or one. Calls and reasoning stay, until they alone are too much: then the oldest turns go as well.
  Nothing is put back.
- summary-...: a model writes a summary of all but the newest turns, and of the summary before. The model is scripted.
- peer-...: the compactors of other agents, where they are installed.
- ours-note, ours-mask: chimera's context manager in either mode.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from chimera.bench.peers import PEERS, installed
from chimera.bench.shrunk import SUMMARY_HEAD, SUMMARY_SHARE, lines, outcome, size
from chimera.bench.summarisers import SUMMARISERS, ScriptedSummariser
from chimera.config import CompactionMode
from chimera.core.compaction import Compaction, Compactor, compact
from chimera.core.context_budget import ContextBudget, Room
from chimera.core.history import History, Turn
from chimera.core.messages import Message
from chimera.core.model import Window
from chimera.core.restoration import Restored
from chimera.core.tokens import TokenCounter

PEER = "peer-"
PEER_SUMMARISER = "lossy"
"""Writes the summaries of peers that want one."""
_MASK_LAST = (10, 5, 2, 1)


class Arm(Struct, frozen=True, kw_only=True):
    """One way. `name` is what tables show."""

    name: str
    compactor: Compactor
    mode: CompactionMode = "note"
    whole_window: bool = False
    """Requests may grow up to the window itself; otherwise up to the trigger of the default budget."""

    def budget(self, window: int) -> ContextBudget:
        """How this arm spends a window."""
        budget = ContextBudget(window=Window(tokens=window, source="argument"), mode=self.mode)
        return replace(budget, fraction=1.0, trigger_fraction=1.0) if self.whole_window else budget


def leave(
    history: History, restored: Restored, budget: ContextBudget, room: Room, counter: TokenCounter, /
) -> Compaction:
    """Change nothing, so that the run ends where the window does."""
    return outcome(history, history, room)


def truncate(
    history: History, restored: Restored, budget: ContextBudget, room: Room, counter: TokenCounter, /
) -> Compaction:
    """Take out the oldest turns until the target is met."""
    turns = list(history.turns)
    while len(turns) > 1 and size(history, room, turns) > room.target:
        del turns[0]
    return outcome(history, replace(history, turns=tuple(turns)), room)


def mask_old(
    history: History, restored: Restored, budget: ContextBudget, room: Room, counter: TokenCounter, /
) -> Compaction:
    """Put a placeholder in place of old results; of as few as it takes."""
    turns = history.turns
    for newest in _MASK_LAST:
        turns = (*(_masked(turn, counter) for turn in turns[:-newest]), *turns[-newest:])
        if size(history, room, turns) < room.trigger:
            return outcome(history, replace(history, turns=turns), room)
    return truncate(replace(history, turns=turns), restored, budget, room, counter)


class Summarising(Struct):
    """A compactor that keeps the newest turns and a summary of all that went before. For one run."""

    summarise: ScriptedSummariser
    tokens_read: int = 0
    """What the summariser has read so far: prompts that a model would have to be sent."""

    def __call__(
        self,
        history: History,
        restored: Restored,
        budget: ContextBudget,
        room: Room,
        counter: TokenCounter,
        /,
    ) -> Compaction:
        """Shrink a history."""
        kept: list[Turn] = []
        left = room.share(SUMMARY_SHARE)
        for turn in reversed(history.turns):
            left -= turn.tokens
            if kept and left < 0:
                break
            kept.insert(0, turn)
        gone = history.turns[: len(history.turns) - len(kept)]
        text = "\n".join([history.context, *(line for turn in gone for line in lines(turn))])
        self.tokens_read += counter.text(text)
        summary = self.summarise(text, room.share(SUMMARY_SHARE), counter)
        shorter = counter.with_context(history, SUMMARY_HEAD + summary if summary else "")
        return outcome(history, replace(shorter, turns=tuple(kept)), room)


def arms(facts: Mapping[str, str], rules: Iterable[str] = ()) -> Mapping[str, Arm]:
    """All arms by name, for an instance with these facts (label -> value), which only the summarisers look at."""
    rules = tuple(rules)
    plain: tuple[tuple[str, Compactor], ...] = (("truncate", truncate), ("mask-10", mask_old))
    found = [
        Arm(name="none", compactor=leave, whole_window=True),
        *(Arm(name=name, compactor=compactor) for name, compactor in plain),
        *(
            Arm(name=f"summary-{name}", compactor=Summarising(make(facts, rules)))
            for name, make in SUMMARISERS.items()
        ),
        Arm(name="ours-note", compactor=compact, mode="note"),
        Arm(name="ours-mask", compactor=compact, mode="mask"),
        *(
            Arm(name=f"{PEER}{name}", compactor=PEERS[name](SUMMARISERS[PEER_SUMMARISER](facts, rules)))
            for name in installed()
        ),
    ]
    return MappingProxyType({arm.name: arm for arm in found})


def _masked(turn: Turn, counter: TokenCounter) -> Turn:
    if turn.masked:
        return turn
    return counter.turn(turn.assistant, *map(_placeholder, turn.replies), masked=True)


def _placeholder(reply: Message) -> Message:
    line = f"[{len(reply.content.splitlines())} lines of output left out]"
    longer = reply.role == "tool" and len(line) < len(reply.content)
    return replace(reply, content=line, shows=()) if longer else reply
