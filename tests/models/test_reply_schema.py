"""Replies held to a schema: how servers are asked for it, and what happens where one cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest

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


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_server_that_knows_no_response_format_is_asked_without(adapter: AdapterType) -> None:
    refusal = refuse(400, "response_format is not supported by this server")
    with Wire(adapter, [refusal, say("{}"), say("{}")]) as wire:
        wire.complete(HELD)
        wire.complete(HELD)
        assert ["response_format" in seen.body for seen in wire.provider.seen] == [True, False, False]
