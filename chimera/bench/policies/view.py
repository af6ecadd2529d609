"""What a prompt shows to somebody who reads it for the first time: the task, the notes behind it, calls and results."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from chimera.core.messages import Message
from chimera.core.restoration import FRAME_OPEN

_SUMMARY = "Summary of earlier turns:"
# A fact on a line of its own: as printed, as `read_file` numbers it, as `search` finds it, or as a list item.
_FACT = re.compile(
    r"^(?:(?:@run/|\w[\w.-]*/)\S+:\d+: |\w[\w.-]*:\d+: )?(?:\d+\t)?(?:- )?(?P<label>[a-z][a-z0-9 .]*[a-z0-9]): (?P<value>\S.*)$"
)
_FILE = {verb: re.compile(rf"^- {verb} (?P<path>[^\s:]+)", re.MULTILINE) for verb in ("changed", "read")}
_MORE_FILES = {
    verb: re.compile(rf"^- also {verb} in (?P<folder>[^:\n]+): (?P<names>.+)$", re.MULTILINE)
    for verb in _FILE
}
_RAN = re.compile(r"^- ran `(?P<command>[^`]+)`", re.MULTILINE)
# A result of which something is missing, as admission, masking and the masking arm say it.
_PARTIAL = re.compile(r"(?:in full|its beginning): @run/|^\[\d+ lines of output left out\]$")
_REFUSED = ("Nothing was changed", "was not replaced", "There is no", "failed:")


class Call(Struct, frozen=True):
    """A call that a policy makes or sees."""

    name: str
    arguments: Mapping[str, Any]

    @property
    def path(self) -> str:
        return str(self.arguments.get("path", ""))


class Exchange(Struct, frozen=True):
    """A call in the prompt and its result as it still stands there."""

    call: Call
    result: str
    depth: int
    """Characters of the prompt behind it."""

    @property
    def refused(self) -> bool:
        return any(mark in self.result for mark in _REFUSED)


class Known(Struct, frozen=True):
    """A value that can be read in the prompt."""

    value: str
    depth: int
    """Characters of the prompt behind it."""


class View(Struct, frozen=True, kw_only=True):
    """One prompt, read."""

    task: str
    notes: str
    """What stands behind the task: restored state, or a summary."""
    exchanges: tuple[Exchange, ...]
    """Oldest first."""
    known: Mapping[str, Known]
    """Label -> value, as last said."""
    size: int
    """Characters of the whole prompt."""

    @classmethod
    def of(cls, messages: Sequence[Message]) -> View:
        """Read a prompt."""
        opening = messages[1].content if len(messages) > 1 else ""
        start = min((at for mark in (FRAME_OPEN, _SUMMARY) if (at := opening.find(mark)) >= 0), default=None)
        task, notes = (opening, "") if start is None else (opening[:start], opening[start:])
        sizes = [_size(message) for message in messages]
        size, behind = sum(sizes), sum(sizes)
        known: dict[str, Known] = {}
        exchanges: list[Exchange] = []
        asked: dict[str, Call] = {}
        for message, own in zip(messages, sizes, strict=True):
            behind -= own
            if message.role == "assistant":
                asked = {call.id: Call(call.name, _arguments(call.arguments)) for call in message.tool_calls}
            elif message.role == "tool":
                call = asked[message.tool_call_id or ""]
                exchanges.append(Exchange(call, message.content, behind))
                known |= {label: Known(value, behind) for label, value in _facts(message.content)}
            elif notes and message.content is opening:
                known |= {label: Known(value, behind) for label, value in _facts(notes)}
        return cls(task=task, notes=notes, exchanges=tuple(exchanges), known=known, size=size)

    def changed(self, folder: str) -> list[int]:
        """Numbers of the files `FOLDER/NN...` that were changed as far as the prompt tells, in order of the change."""
        named = [*reversed(_noted("changed", self.notes)), *(exchange.call.path for exchange in self.edits)]
        numbers = [_number(path) for path in named if path.startswith(f"{folder}/")]
        return [number for number in numbers if number is not None]

    def has_changed(self, path: str) -> bool:
        """Whether the prompt tells that a file was changed."""
        return path in _noted("changed", self.notes) or any(one.call.path == path for one in self.edits)

    def has_run(self, command: str) -> bool:
        """Whether the prompt tells that a command was run."""
        return command in _RAN.findall(self.notes) or self.last("shell", command=command) is not None

    def has_read(self, path: str) -> bool:
        """Whether the prompt tells that a file was read, shown or not."""
        return path in _noted("read", self.notes) or self.last("read_file", path=path) is not None

    @property
    def edits(self) -> Iterator[Exchange]:
        """The calls that changed a file."""
        return (e for e in self.exchanges if e.call.name in {"write_file", "edit_file"} and not e.refused)

    def last(self, name: str, **arguments: Any) -> Exchange | None:
        """The newest call of a tool with these among its arguments."""
        for exchange in reversed(self.exchanges):
            if exchange.call.name == name and arguments.items() <= exchange.call.arguments.items():
                return exchange
        return None

    def tried(self, call: Call, within: int) -> bool:
        """Whether the same call is among the newest ones: once with its whole result, or twice."""
        same = [e for e in self.exchanges[-within:] if e.call.name == call.name]
        results = [e.result for e in same if e.call.arguments == call.arguments]
        return len(results) > 1 or any(not _PARTIAL.search(result) for result in results)


@functools.lru_cache(maxsize=256)
def _noted(verb: str, notes: str) -> tuple[str, ...]:
    """The files that notes name as changed, or as read, in the order of the notes: the newest first."""
    more = [
        name if match["folder"] == "." else f"{match['folder']}/{name}"
        for match in _MORE_FILES[verb].finditer(notes)
        for name in match["names"].split(", ")
    ]
    return (*_FILE[verb].findall(notes), *more)


def _number(path: str) -> int | None:
    stem = path.rpartition("/")[2].partition(".")[0]
    return int(stem) if stem.isdigit() else None


def _size(message: Message) -> int:
    return len(message.content) + sum(len(call.arguments) for call in message.tool_calls)


@functools.lru_cache(maxsize=4096)
def _facts(text: str) -> tuple[tuple[str, str], ...]:
    found = (_FACT.match(line) for line in text.splitlines())
    return tuple((match["label"], match["value"].strip()) for match in found if match)


def _arguments(text: str) -> dict[str, Any]:
    value = json.loads(text)
    return value if isinstance(value, dict) else {}
