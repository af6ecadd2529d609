"""The compactors of other agents as arms, where they are installed. Nothing of chimera needs them.

They shrink the turns behind system message and task, which our loop keeps for them; trigger, window and counter are ours,
everything else is their own default unless it says otherwise here. A summary is written by a scripted summariser, the same
as for our summary arms.

- langchain: `SummarizationMiddleware` of LangChain 1.x. It keeps the newest quarter of the room, as our summary arms do: its
  default, the newest twenty messages, is more than small windows hold.
- chimera-agent: `compact` of the package of that name, with what its loop restores: files read and written, the task list.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from chimera.bench.shrunk import SUMMARY_HEAD, SUMMARY_SHARE, outcome
from chimera.bench.summarisers import ScriptedSummariser
from chimera.core.compaction import Compaction
from chimera.core.context_budget import ContextBudget, Room
from chimera.core.history import History, Turn
from chimera.core.restoration import Restored
from chimera.core.tokens import TokenCounter
from chimera.errors import ConfigError

_MOST_NAMED = 60
"""Files that chimera-agent lists at most, of each kind."""


class PeerCompactor(Protocol):
    """A compactor of another agent."""

    tokens_read: int
    """What its summariser was given so far."""

    def __call__(
        self,
        history: History,
        restored: Restored,
        budget: ContextBudget,
        room: Room,
        counter: TokenCounter,
        /,
    ) -> Compaction: ...


def add_folder(folder: Path) -> None:
    """Look for peers in a folder as well, behind all that is installed (`pip install --target FOLDER ...`).

    Raises:
        ConfigError: there is no such folder.
    """
    if not folder.is_dir():
        raise ConfigError(f"--peers {str(folder)!r} is no folder")
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def installed() -> dict[str, str]:
    """The peers that are here, by name, with their versions."""
    found = {name: _distribution(name) for name in PEERS}
    return {name: one.version for name, one in found.items() if one is not None}


def _distribution(name: str) -> importlib.metadata.Distribution | None:
    return next(iter(importlib.metadata.distributions(name=name)), None)


def _tail(history: History, messages: int) -> tuple[Turn, ...]:
    """The newest turns that hold so many messages at least: a turn is never parted."""
    kept: list[Turn] = []
    for turn in reversed(history.turns):
        if messages <= 0:
            break
        kept.insert(0, turn)
        messages -= len(turn.messages())
    return tuple(kept)


class LangChain(Struct):
    """The summarisation middleware of LangChain, asked whenever our loop finds a request too large. For one run."""

    summarise: ScriptedSummariser
    tokens_read: int = 0

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
        core = importlib.import_module("langchain_core.messages")
        fakes = importlib.import_module("langchain_core.language_models.fake_chat_models")
        middleware = importlib.import_module("langchain.agents.middleware").SummarizationMiddleware(
            model=fakes.FakeListChatModel(responses=["never asked"]),
            trigger=("tokens", 1),
            keep=("tokens", max(1, room.share(SUMMARY_SHARE))),
            token_counter=lambda messages: sum(counter.text(_text(message)) for message in messages),
            summarizer=lambda messages: self._summary(messages, room, counter),
        )
        messages = [core.HumanMessage(history.context)] if history.context else []
        messages += [self._message(core, message) for turn in history.turns for message in turn.messages()]
        changed = middleware.before_model({"messages": messages}, None)
        if changed is None:
            return outcome(history, history, room)
        # A mark that removes everything, the summary, and what is kept.
        _, summary, *kept = changed["messages"]
        shorter = counter.with_context(history, f"{SUMMARY_HEAD}{summary.content}")
        return outcome(history, replace(shorter, turns=_tail(history, len(kept))), room)

    def _summary(self, messages: Sequence[Any], room: Room, counter: TokenCounter) -> str:
        text = "\n".join(map(_text, messages))
        self.tokens_read += counter.text(text)
        return self.summarise(text, room.share(SUMMARY_SHARE), counter)

    @staticmethod
    def _message(core: Any, message: Any) -> Any:
        match message.role:
            case "assistant":
                calls = [
                    {"id": call.id, "name": call.name, "args": json.loads(call.arguments)}
                    for call in message.tool_calls
                ]
                return core.AIMessage(message.content, tool_calls=calls)
            case "tool":
                return core.ToolMessage(message.content, tool_call_id=message.tool_call_id)
            case _:
                return core.HumanMessage(message.content)


def _text(message: Any) -> str:
    """A message of LangChain as a summariser reads it."""
    calls = [
        f"called {call['name']} {call['args'].get('path') or call['args'].get('command') or json.dumps(call['args'])}"
        for call in getattr(message, "tool_calls", ())
    ]
    return "\n".join([str(message.content), *calls])


class ChimeraAgent(Struct):
    """`compact` of chimera-agent. It writes a note of its own and asks no summariser."""

    summarise: ScriptedSummariser
    tokens_read: int = 0

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
        module = _original()
        ledger = restored.ledger
        state = module.RunState(
            tasks=[f"{task.title} ({task.status})" for task in restored.plan.tasks],
            plan=restored.plan.text,
            read_progress=[f"read {path}" for path in islice(reversed(ledger.read), _MOST_NAMED)],
            write_progress=[f"changed {path}" for path in islice(reversed(ledger.changed), _MOST_NAMED)],
        )
        earlier = [{"role": "user", "content": history.context}] if history.context else []
        turns = [message.wire() for turn in history.turns for message in turn.messages()]
        before = [history.system.wire(), *earlier, *turns]
        after, changed = module.compact(before, state=state)
        if not changed:
            return outcome(history, history, room)
        kept = sum(any(message is one for one in turns) for message in after)
        notes = [message["content"] for message in after[1:] if not any(message is one for one in before)]
        shorter = counter.with_context(history, SUMMARY_HEAD + "\n\n".join(notes))
        return outcome(history, replace(shorter, turns=_tail(history, kept)), room)


def _original() -> ModuleType:
    """The module of chimera-agent with `compact`. Its package has the name of ours, so the file is loaded by itself."""
    name = "chimera_agent_context_budget"
    if name in sys.modules:
        return sys.modules[name]
    package = _distribution("chimera-agent")
    assert package is not None
    path = Path(str(package.locate_file("chimera/core/context_budget.py")))
    # What the file imports of its own package: a type for annotations, and a logger.
    gateway, telemetry = ModuleType("chimera.providers.gateway"), ModuleType("chimera.telemetry")
    gateway.MessageLike = dict  # type: ignore[attr-defined]
    telemetry.get_logger = logging.getLogger  # type: ignore[attr-defined]
    stubs = {one.__name__: one for one in (ModuleType("chimera.providers"), gateway, telemetry)}
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.update({**stubs, name: module})
    try:
        spec.loader.exec_module(module)
    finally:
        for stub in stubs:
            del sys.modules[stub]
    return module


PEERS: Mapping[str, Callable[[ScriptedSummariser], PeerCompactor]] = MappingProxyType(
    {"langchain": LangChain, "chimera-agent": ChimeraAgent}
)
"""By the name of their package."""
