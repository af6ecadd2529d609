"""The parameters of a request, and what a server turned out not to take of them.

Only a parameter that a refusal names is renamed or dropped, once, and that is remembered for the model's life.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from chimera.models.faults import ProviderFault

# Compiled when a server first refuses something.
_REFUSES = (
    r"unsupported|(not|n't) (be )?(support|permit|allow|accept)|unknown|unrecogni[sz]ed|unexpected"
    r"|extra (inputs|fields)|no longer"
)
# How servers say that they hold no reply to a schema, or not to this one.
_NO_SCHEMA = r"response_?format|json.?schema|\bgrammars?\b|structured.?outputs?|guided.?(decod|json)|schema.{0,40}\bformat\b"
_MISSES = r"missing|required|must be (passed|provided|present|set)|passed back"
_RENAMED = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
# Fields of messages by which providers send reasoning, and want it back or do not.
_REASONING_FIELDS = ("reasoning_content", "reasoning_details", "reasoning", "thinking_blocks")


class Parameters:
    """Options of one model as they are sent, less what its server refused."""

    def __init__(
        self, options: Mapping[str, Any], *, bound: str = "max_tokens", omitted: Iterable[str] = ()
    ) -> None:
        """Options as the user gave them.

        Args:
            options: parameters by name.
            bound: the name under which the server takes the bound of a completion.
            omitted: parameters that the server is known not to take.
        """
        self._options = dict(options)
        self._bound = bound
        self._dropped = set(omitted)
        self._renames: dict[str, str] = {}
        self._dropped_fields: set[str] = set()
        self._wants_reasoning = False
        self._holds_replies = False
        self.drops_all = False
        """Whatever the model does not support is to be left out: a refusal spoke of parameters and named none."""

    def sent(self, max_tokens: int, *, reply_schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The parameters of a request beside its messages and tools."""
        whole = {self._bound: max_tokens, "stream_options": {"include_usage": True}} | self._options
        if reply_schema is not None:
            self._holds_replies = self._holds_replies or bool(reply_schema)
            form = {"name": "action", "schema": reply_schema}
            whole["response_format"] = {"type": "json_schema", "json_schema": form}
        if "max_completion_tokens" in self._options:
            whole.pop("max_tokens", None)
        renamed = {self._renames.get(name, name): value for name, value in whole.items()}
        return {name: value for name, value in renamed.items() if name not in self._dropped}

    @property
    def of_messages(self) -> tuple[frozenset[str], bool]:
        """What decides how a message is sent: changes when this server turns out to take less, or to want more."""
        return frozenset(self._dropped_fields), self._wants_reasoning

    def message(self, wire: Mapping[str, Any]) -> dict[str, Any]:
        """A message with the reasoning fields that this server takes.

        Servers that want reasoning back want it with every message of the model, so once one has come, it is sent
        with all of them, empty where there was none. Signed thinking blocks are their own matter and need no filling.
        """
        kept = {name: value for name, value in wire.items() if name not in self._dropped_fields}
        if "reasoning_content" in kept and "thinking_blocks" not in kept:
            self._wants_reasoning = True
        if self._wants_reasoning and kept["role"] == "assistant":
            kept.setdefault("reasoning_content", "")
        return kept

    def messages(self, wires: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """All messages of a request, each as `message` says once it has seen them all."""
        wires = list(wires)
        before = self.of_messages
        kept = [self.message(wire) for wire in wires]
        return kept if self.of_messages == before else [self.message(wire) for wire in wires]

    def learn(self, fault: ProviderFault, *, unsupported: bool = False) -> str | None:
        """Take back what a refusal names. The notice for the user, or None where there is nothing to change.

        Args:
            fault: what the server said.
            unsupported: the refusal is surely about parameters, whatever its words.
        """
        words = fault.text.lower()
        if notice := self._learn_schema(fault, words):
            return notice
        if fault.status not in {400, 422}:
            return None
        if notice := self._learn_reasoning(words):
            return notice
        if not unsupported and not re.search(_REFUSES, words):
            return None
        places = {
            name: found.start() for name in self.sent(0, reply_schema={}) if (found := _named(name, words))
        }
        if places:
            return self._give_up(min(places, key=lambda name: (places[name], -len(name))))
        if unsupported and not self.drops_all:
            self.drops_all = True
            return f"parameters that this model does not support are not sent: {fault.text}"
        return None

    def _learn_schema(self, fault: ProviderFault, words: str) -> str | None:
        """A server that cannot do with a schema may still be asked without, whatever it says is wrong with it."""
        held = self._holds_replies and "response_format" not in self._dropped
        if not (held and fault.status in {400, 422, 500, 501} and re.search(_NO_SCHEMA, words)):
            return None
        self._dropped.add("response_format")
        return (
            f"the server does not hold replies to a schema, and is not asked to any more: {fault.text[:200]}"
        )

    def _give_up(self, name: str) -> str:
        other = _RENAMED.get(name)
        if other and other not in self._renames and other not in self._dropped:
            self._renames[name] = other
            return f"the server does not take {name}; {other} is sent instead"
        self._dropped.add(name)
        return f"the server does not take {name}; it is not sent"

    def _learn_reasoning(self, words: str) -> str | None:
        for name in _REASONING_FIELDS:
            if name in self._dropped_fields or not _named_field(name, words):
                continue
            if name == "reasoning_content" and re.search(_MISSES, words) and not self._wants_reasoning:
                self._wants_reasoning = True
                return (
                    f"the server wants {name} with every message of its own; it is sent, empty where unknown"
                )
            if re.search(_REFUSES, words):
                self._dropped_fields.add(name)
                if name == "reasoning_content":
                    self._wants_reasoning = False
                return f"the server does not take {name} back; it is not sent"
        return None


def _named_field(name: str, words: str) -> bool:
    """Whether a refusal names a field of messages. The bare word "reasoning" is one only in quotes or in a path."""
    before = r"[.'\"`]" if name == "reasoning" else r"(?<!\w)"
    return re.search(rf"{before}{name}(?!\w)", words) is not None


def _named(name: str, words: str) -> re.Match[str] | None:
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", words)
