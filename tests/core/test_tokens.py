"""The counter: everything that is sent is counted, once, without network, whatever the text."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.core.messages import ToolCall, assistant, system, tool_result, user
from chimera.core.tokens import MARGIN, Calibration, TokenCounter, cautious_count

COUNTER = TokenCounter()


def test_the_shipped_vocabulary_is_used_and_not_the_cautious_estimate() -> None:
    assert COUNTER.text("hello world") == 2


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        pytest.param("<|endoftext|>", 2, 20, id="special tokens are plain text"),
        pytest.param(" " * 1_000_000, 5_000, 200_000, id="a million spaces"),
        pytest.param("漢字" * 1_000, 1_000, 6_000, id="CJK"),
        pytest.param(
            "".join(random.Random(1).choices("ABCDefgh0123+/", k=100_000)), 50_000, 90_000, id="base64"
        ),
        pytest.param("", 0, 0, id="nothing"),
        pytest.param("\ud800", 1, 10, id="a lone surrogate"),
    ],
)
def test_odd_texts_are_counted(text: str, low: int, high: int) -> None:
    assert low <= COUNTER.text(text) <= high


def test_calls_arguments_ids_and_reasoning_are_counted() -> None:
    bare = COUNTER.message(assistant("hello"))
    call = ToolCall(id="call_1", name="shell", arguments=json.dumps({"command": "word " * 500}))
    assert COUNTER.message(assistant("hello", call)) > bare + 500
    assert COUNTER.message(assistant("hello", extra={"reasoning_content": "word " * 300})) > bare + 300
    assert COUNTER.message(tool_result("call_1", "x")) > COUNTER.message(user("x"))


def test_schemas_are_counted_in_the_compact_form_in_which_they_are_sent() -> None:
    schema = {
        "type": "function",
        "function": {"name": "t", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}},
    }
    assert COUNTER.schema(schema) == COUNTER.text(json.dumps(schema, separators=(",", ":")))
    assert COUNTER.schema(schema) < COUNTER.text(json.dumps(schema, indent=1))


def test_the_floor_is_the_system_message_and_each_tool() -> None:
    schemas = [
        {"type": "function", "function": {"name": name, "description": "d " * size}}
        for name, size in (("a", 10), ("b", 500))
    ]
    floor = COUNTER.floor(system("You are a tester."), schemas)
    assert floor.total == floor.system + floor.tools["a"] + floor.tools["b"]
    assert floor.tools["b"] > 500


def test_slicing_costs_less_than_one_token_in_a_thousand() -> None:
    source = Path(__file__).read_text(encoding="utf-8") * 20
    counted = COUNTER.text(source)  # first, so that the shipped vocabulary is the one that is loaded
    import tiktoken  # noqa: TID251

    exact = len(tiktoken.get_encoding("cl100k_base").encode_ordinary(source))
    assert exact <= counted <= exact * 1.001 + 1


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(Path(__file__).read_text(encoding="utf-8"), id="source"),
        pytest.param(json.dumps([{"id": n, "name": f"item {n}"} for n in range(200)]), id="JSON"),
        pytest.param("The quick brown fox jumps over the lazy dog. " * 50, id="prose"),
        pytest.param("漢字とかな、混ぜて書く。" * 50, id="CJK"),
    ],
)
def test_the_estimate_without_a_vocabulary_errs_upwards(text: str) -> None:
    assert cautious_count(text) >= COUNTER.text(text) * 0.9


def test_a_report_above_the_estimate_raises_the_factor_at_once() -> None:
    assert Calibration().observe(1_000, 1_400).factor == pytest.approx(1.4 * MARGIN)


def test_a_report_below_the_estimate_lowers_the_factor_smoothly() -> None:
    seen = 0.7 * MARGIN
    once = Calibration(known=True).observe(1_000, 700)
    assert once.factor == pytest.approx((1 + seen) / 2)
    assert once.observe(1_000, 700).factor == pytest.approx((1 + 3 * seen) / 4)


@pytest.mark.parametrize("ratio", [0.6, 0.85, 1.0, 1.25, 1.6])
def test_the_error_is_at_most_three_percent_upwards_from_the_fourth_step_on(ratio: float) -> None:
    calibration = Calibration()
    for step in range(1, 40):
        estimate = 1_000 + 500 * step
        reported = round(ratio * estimate)
        error = (calibration.size(estimate) - reported) / reported
        if step > 3:
            assert -0.001 <= error <= 0.03
        calibration = calibration.observe(estimate, reported)


def test_the_first_report_replaces_the_start_value() -> None:
    assert Calibration().observe(1_000, 700) == Calibration(0.7 * MARGIN, known=True)


def test_the_factor_stays_in_its_range_and_ignores_nonsense() -> None:
    assert Calibration().observe(1_000, 9_000).factor == 2.0
    factor = Calibration()
    for _ in range(60):
        factor = factor.observe(1_000, 1)
    assert factor.factor == pytest.approx(0.5, abs=0.01)
    assert Calibration(1.3).observe(0, 500) == Calibration(1.3)
    assert Calibration(1.3).observe(500, 0) == Calibration(1.3)


@given(st.integers(0, 10**6), st.floats(0.5, 2.0))
def test_size_and_estimate_are_inverse(size: int, factor: float) -> None:
    calibration = Calibration(factor)
    assert calibration.size(calibration.estimate(size)) <= size + 1
    assert calibration.size(calibration.estimate(size) + 1) >= size


@given(st.text(), st.booleans())
def test_no_text_has_more_tokens_than_its_bound(text: str, special: bool) -> None:
    message = user(text + "<|endoftext|>\ud800" * special)
    assert COUNTER.message(message) <= COUNTER.bound(message)


class Remembered:
    """What earlier runs counted."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def get(self, text: str) -> int | None:
        return self.counts.get(text)

    def put(self, text: str, tokens: int) -> None:
        self.counts[text] = tokens


def test_the_floor_is_counted_by_the_first_run_and_remembered_for_others() -> None:
    memory = Remembered()
    counter = TokenCounter(memory)
    tool = {"function": {"name": "t", "description": "does it"}}
    floor = counter.floor(system("be brief"), [tool])
    assert floor == TokenCounter().floor(system("be brief"), [tool])
    assert len(memory.counts) == 2
    memory.counts = {text: tokens + 1000 for text, tokens in memory.counts.items()}
    assert counter.floor(system("be brief"), [tool]).total == floor.total + 2000
