"""The messages of a request as bytes, so that a step encodes what is new and not the whole history."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from chimera.core.messages import Message


def encoded(value: Any) -> bytes:
    """A JSON value as it travels. Half of a character pair, as a user may paste it, has no UTF-8 and is replaced."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


class EncodedMessages:
    """Encodes each message once, as long as it stays in the history and the server takes the same of it.

    Args:
        form: the message as this server takes it.
        state: what `form` depends on beside the message.
    """

    def __init__(self, form: Callable[[Message], Any], state: Callable[[], Hashable]) -> None:
        self._form = form
        self._state = state
        self._known_state = state()
        # By identity: a history holds on to its messages. Holding them here keeps their ids from being used again.
        self._known: dict[int, tuple[Message, bytes]] = {}

    def of(self, messages: Sequence[Message]) -> list[bytes]:
        """Each message in its place."""
        known = self._of_now(messages)
        if self._state() != self._known_state:  # one of them taught something that holds for all
            known = self._of_now(messages)
        return [known[id(message)][1] for message in messages]

    def _of_now(self, messages: Sequence[Message]) -> dict[int, tuple[Message, bytes]]:
        if (state := self._state()) != self._known_state:
            self._known, self._known_state = {}, state
        earlier = self._known
        self._known = {
            id(message): earlier.get(id(message)) or (message, encoded(self._form(message)))
            for message in messages
        }
        return self._known
