"""Requests are looked at on their way to the model, and events are added up."""

from __future__ import annotations

from typing import Any

import pytest

from chimera import prompts
from chimera.bench.measures import Invariants, RunMeter, Shrinking
from chimera.bench.observed import ObservedModel
from chimera.core.messages import Message, ToolCall, Usage, assistant, system, tool_result, user
from chimera.core.model import Request
from chimera.core.tokens import TokenCounter
from chimera.errors import ContextOverflowError
from chimera.record.events import Event
from chimera.testing import Reply, ScriptedModel, error, text

CALL = ToolCall(id="c1", name="shell", arguments="{}")
SOUND = (system("s"), user("the task: no colours"), assistant("", CALL), tool_result("c1", "exit 0"))


def observed(*replies: Reply, limit: int = 10_000) -> tuple[ObservedModel, list[dict[str, Any]]]:
    log: list[dict[str, Any]] = []
    model = ObservedModel(
        inner=ScriptedModel(replies or [text("done")] * 9),
        counter=TokenCounter(),
        task="the task",
        rules=("no colours",),
        limit=limit,
        log=lambda request: log.append(dict(request)),
    )
    return model, log


def ask(model: ObservedModel, *messages: Message, max_tokens: int = 100) -> None:
    model.complete(Request(messages=messages, max_tokens=max_tokens), lambda text: None)


def broken(**counts: int) -> Invariants:
    sound = {"illegal": 0, "over_window": 0, "task_missing": 0, "rules_missing": 0}
    return Invariants(requests=1, **{**sound, **counts})


@pytest.mark.parametrize(
    ("messages", "max_tokens", "expected"),
    [
        pytest.param(SOUND, 100, broken(), id="sound"),
        pytest.param(SOUND[:3], 100, broken(illegal=1), id="a call without its result"),
        pytest.param((*SOUND[:2], SOUND[3]), 100, broken(illegal=1), id="a result without its call"),
        pytest.param(SOUND, 10_000, broken(over_window=1), id="no room for the completion"),
        pytest.param(
            (SOUND[0], user("task: no colours")), 100, broken(task_missing=1), id="another beginning"
        ),
        pytest.param((SOUND[0], user("the task")), 100, broken(rules_missing=1), id="a rule is gone"),
    ],
)
def test_each_kind_of_breach_is_counted(
    messages: tuple[Message, ...], max_tokens: int, expected: Invariants
) -> None:
    model, _ = observed()
    ask(model, *messages, max_tokens=max_tokens)
    assert model.invariants == expected


def test_what_the_provider_counted_decides_whether_a_request_fitted() -> None:
    model, _ = observed(Reply(text="done", usage=Usage(input_tokens=9_950)))
    ask(model, *SOUND)
    assert model.invariants.over_window == 1


def test_a_size_that_was_refused_is_not_to_be_sent_again() -> None:
    model, log = observed(error("overflow", limit=50), text("done"), text("done"))
    with pytest.raises(ContextOverflowError):
        ask(model, *SOUND)
    ask(model, *SOUND[:2])
    assert model.invariants.over_window == 0
    ask(model, *SOUND)
    assert model.invariants.over_window == 1
    assert [request.get("error") for request in log] == ["ContextOverflowError", None, None]


def test_the_shared_prefix_is_counted_and_where_it_breaks() -> None:
    model, log = observed()
    ask(model, *SOUND[:2])
    ask(model, *SOUND)
    assert log[1]["prefix_shared"] == log[0]["tokens"] == model.cacheable
    assert model.prefix_breaks == 0
    ask(model, SOUND[0], user("the task: no colours, and a note"), *SOUND[2:])
    assert model.prefix_breaks == 1
    assert log[2]["messages"][2:] == log[1]["messages"][2:]


def test_a_request_for_a_summary_is_noted_and_not_judged() -> None:
    model, log = observed()
    ask(model, system(prompts.SUMMARY_SYSTEM), user("Write the notes."))
    assert model.invariants.requests == 0
    assert [request["purpose"] for request in log] == ["summary"]


def test_the_meter_adds_up_summaries_compactions_and_how_far_the_estimate_was_off() -> None:
    meter = RunMeter()
    usage = {"input_tokens": 800, "output_tokens": 20, "estimated": False}
    sizes = {
        "before": 900,
        "after": 300,
        "removed_turns": 4,
        "masked_turns": 1,
        "kept_turns": 2,
        "tight": False,
    }
    meter(Event("compaction", {"changed": True, "step": 3, "parts": {}, **sizes}))
    meter(Event("compaction", {"changed": False, "step": 4, **sizes}))
    meter(Event("prompt", {"calibrated": 1_000}))
    meter(Event("completion", {"usage": usage}))
    meter(Event("completion", {"usage": usage, "purpose": "summary"}))
    assert meter.shrinkings == [Shrinking(step=3, **sizes)]  # type: ignore[arg-type]
    assert (meter.vain_compactions, meter.summariser_tokens, meter.estimate_error) == (1, 820, 0.25)
