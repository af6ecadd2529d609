"""Replies held to a schema: how servers are asked for it, and what happens where one cannot."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from chimera.errors import ModelError
from tests.provider import refuse, say
from tests.wire import ADAPTERS, HELLO, AdapterType, Wire

SCHEMA = {"anyOf": [{"type": "object", "properties": {"tool": {"const": "shell"}}, "required": ["tool"]}]}
HELD = replace(HELLO, tools=(), reply_schema=SCHEMA)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_the_schema_travels_as_a_response_format_and_no_tools_with_it(adapter: AdapterType) -> None:
    with Wire(adapter, [say("{}")]) as wire:
        wire.complete(HELD)
        assert wire.body["response_format"]["type"] == "json_schema"
        assert wire.body["response_format"]["json_schema"]["schema"] == SCHEMA
        assert "tools" not in wire.body


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "response_format is not supported by this server"),
        (400, "Invalid schema for response_format 'action': schema must be of 'type: \"object\"'"),
        (400, "This response_format type is unavailable now"),
        (400, "Failed to initialize samplers: failed to parse grammar"),
        (422, "json_schema: additional keys are forbidden"),
        (500, "invalid JSON schema in format"),
    ],
    ids=lambda value: str(value)[:20],
)
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_server_that_does_not_take_the_schema_is_asked_without(
    adapter: AdapterType, status: int, text: str
) -> None:
    refusal = refuse(status, text)
    with Wire(adapter, [refusal, say("{}"), say("{}")]) as wire:
        wire.complete(HELD)
        wire.complete(HELD)
        assert ["response_format" in seen.body for seen in wire.provider.seen] == [True, False, False]


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_where_no_schema_was_sent_a_word_of_grammar_changes_nothing(adapter: AdapterType) -> None:
    with Wire(adapter, [refuse(400, "failed to parse grammar")]) as wire:
        with pytest.raises(ModelError, match="grammar"):
            wire.complete(HELLO)
        assert wire.told == []
