"""The judge of requests finds what it is there to find."""

from __future__ import annotations

from typing import Any

import pytest

from tests.strict_provider import violations

SYSTEM = {"role": "system", "content": "s"}
USER = {"role": "user", "content": "u"}


def asked(*ids: str, text: str | None = None, name: str = "shell", arguments: str = "{}") -> dict[str, Any]:
    calls = [{"id": one, "function": {"name": name, "arguments": arguments}} for one in ids]
    return (
        {"role": "assistant", "content": text, "tool_calls": calls}
        if ids
        else {"role": "assistant", "content": text}
    )


def result(call_id: str, content: str = "r") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def test_legal_requests_pass() -> None:
    assert not violations([SYSTEM, USER])
    assert not violations([SYSTEM, USER, asked("a", "b"), result("a"), result("b"), asked(text="ok"), USER])
    assert not violations([SYSTEM, USER, asked("a"), result("a"), USER])


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([USER], id="no system message"),
        pytest.param([SYSTEM, USER, USER], id="two user messages"),
        pytest.param([SYSTEM, USER, SYSTEM], id="two system messages"),
        pytest.param([SYSTEM, USER, asked(text="a"), asked(text="b"), USER], id="two replies"),
        pytest.param([SYSTEM, USER, asked("a")], id="no result"),
        pytest.param([SYSTEM, USER, asked("a", "b"), result("a")], id="half the results"),
        pytest.param([SYSTEM, USER, asked("a", "b"), result("b"), result("a")], id="results out of order"),
        pytest.param([SYSTEM, USER, asked("a"), USER, result("a")], id="something between"),
        pytest.param([SYSTEM, USER, result("a")], id="a result without call"),
        pytest.param([SYSTEM, USER, asked("a"), result("a"), result("a")], id="a result twice"),
        pytest.param([SYSTEM, USER, asked("a", "a"), result("a"), result("a")], id="an id twice"),
        pytest.param([SYSTEM, USER, asked(text="ok")], id="a reply at the end"),
        pytest.param([SYSTEM, USER, asked(text=None), USER], id="an empty reply"),
        pytest.param([SYSTEM, USER, asked("a", text=" \n"), result("a")], id="blank text"),
        pytest.param([SYSTEM, USER, asked("a"), result("a", "")], id="an empty result"),
        pytest.param([SYSTEM, USER, asked("a", arguments="[]"), result("a")], id="arguments that are a list"),
        pytest.param([SYSTEM, USER, asked("a", arguments="{"), result("a")], id="broken arguments"),
        pytest.param([SYSTEM, USER, asked("a", name="no name"), result("a")], id="an illegal name"),
        pytest.param([SYSTEM, {"role": "user", "content": "\ud800"}], id="half a surrogate pair"),
    ],
)
def test_each_violation_is_found(messages: list[dict[str, Any]]) -> None:
    assert violations(messages)
