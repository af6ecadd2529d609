from __future__ import annotations

import json
from typing import Any

from chimera.core.messages import Message, assistant, system, user
from chimera.models.encoded_messages import EncodedMessages, encoded
from chimera.models.parameters import Parameters

THOUGHT = assistant("so", extra={"reasoning_content": "hm"})


class Counted:
    """Encodes as an adapter does, and counts how often."""

    def __init__(self) -> None:
        self.parameters = Parameters({})
        self.count = 0
        self.messages = EncodedMessages(self.form, lambda: self.parameters.of_messages)

    def form(self, message: Message) -> dict[str, Any]:
        self.count += 1
        return self.parameters.message(message.wire())


def test_a_history_that_grows_is_encoded_once() -> None:
    counted, history = Counted(), [system("s")]
    for n in range(50):
        history.append(user(str(n)))
        assert counted.messages.of(history) == [encoded(message.wire()) for message in history]
    assert counted.count == len(history)


def test_what_a_message_teaches_about_the_server_holds_for_those_before_it() -> None:
    counted, history = Counted(), [user("a"), assistant("b"), THOUGHT]
    expected = counted.parameters.messages([message.wire() for message in history])
    assert [json.loads(piece) for piece in Counted().messages.of(history)] == expected
    assert expected[1]["reasoning_content"] == ""


def test_what_is_no_longer_in_the_history_is_let_go_and_never_taken_for_another() -> None:
    counted = Counted()
    for n in range(100):  # each list of fresh objects may get the addresses of the last one
        assert counted.messages.of([user(str(n))]) == [encoded(user(str(n)).wire())]


def test_half_of_a_character_pair_can_be_sent() -> None:
    assert json.loads(encoded({"content": "a\ud83db"})) == {"content": "a?b"}
