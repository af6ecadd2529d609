"""What makes two messages the same."""

from __future__ import annotations

import pytest

from chimera.core.ledger import FileRead
from chimera.core.messages import Message, ToolCall, assistant, tool_result, user

CALL = ToolCall(id="1", name="shell", arguments="{}")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (user("a"), user("a"), True),
        (user("a"), user("b"), False),
        (user("a"), assistant("a"), False),
        (assistant("a", CALL), assistant("a", CALL), True),
        (assistant("a", CALL), assistant("a"), False),
        (assistant("a", extra={"thinking": "b"}), assistant("a", extra={"thinking": "b"}), True),
        (assistant("a", extra={"thinking": "b"}), assistant("a"), False),
        (tool_result("1", "a"), tool_result("2", "a"), False),
        (
            tool_result("1", "a"),
            tool_result("1", "a", digest="d", kept=True, failed=True, shows=(FileRead(path="p", first=1, last=1, total=1),)),
            True,
        ),
    ],
)  # fmt: skip
def test_messages_are_the_same_when_the_same_is_sent(one: Message, other: Message, *, same: bool) -> None:
    assert (one == other, one != other) == (same, not same)
    assert (hash(one) == hash(other)) or not same
    assert one != one.wire()
