"""Admission: a turn keeps its cap, small results stay whole, and what is cut can be found."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chimera.core.admission import admit, water_level
from chimera.core.messages import ToolCall, assistant
from chimera.core.outputs import ToolOutput
from chimera.core.tokens import TokenCounter
from tests.core.histories import texts

COUNTER = TokenCounter()


class Store:
    """Keeps texts in memory under the names that a run would give them."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, output: ToolOutput) -> str:
        self.texts.append(output.text)
        return f"@run/outputs/{len(self.texts):04}.txt"


def batch(count: int) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(id=f"call_{n}", name="shell", arguments="{}") for n in range(count))


@given(st.lists(texts(high=120), min_size=1, max_size=12), st.integers(200, 20_000))
def test_a_turn_keeps_its_cap_or_shrinks_each_result_to_a_line(results: list[str], cap: int) -> None:
    message = assistant("", *batch(len(results)))
    store = Store()
    outputs = [ToolOutput(text=text, digest=f"ran {n}") for n, text in enumerate(results)]
    admitted = admit(message, outputs, cap, COUNTER, store)
    assert [m.tool_call_id for m in admitted] == [c.id for c in message.tool_calls]
    lines = [m for m in admitted if m.content.startswith("[ran ")]
    total = COUNTER.message(message) + sum(COUNTER.message(m) for m in admitted if m not in lines)
    # A line each, with what a message costs around it, is the least that a turn can be cut to.
    assert total <= max(cap, COUNTER.message(message) + 42 * len(admitted))
    for output, m in zip(outputs, admitted, strict=True):
        assert m.content == output.text or (
            output.text in store.texts and "in full: @run/outputs/" in m.content
        )


def test_the_largest_is_cut_first_and_small_ones_stay_whole() -> None:
    message = assistant("", *batch(3))
    outputs = [ToolOutput(text=t, digest="ran") for t in ("small one", "word\n" * 5_000, "small two")]
    first, second, third = admit(message, outputs, 1_000, COUNTER, Store())
    assert (first.content, third.content) == ("small one", "small two")
    assert second.content.startswith("word\nword\n")
    assert second.content.endswith("word\nword\n")
    assert "of 25,000 bytes left out; in full: @run/outputs/0001.txt" in second.content
    assert second.digest == "ran; in full: @run/outputs/0001.txt"
    assert COUNTER.message(second) < 1_000


def test_a_result_that_is_already_a_head_and_tail_tells_the_size_of_the_whole() -> None:
    output = ToolOutput(text="a\n" * 3_000, digest="ran", size=9_000_000, kept="@run/outputs/0007.txt")
    (message,) = admit(assistant("", *batch(1)), [output], 300, COUNTER, Store())
    assert "of 9,000,000 bytes left out; in full: @run/outputs/0007.txt" in message.content


def test_a_head_and_tail_that_fits_names_the_whole_all_the_same() -> None:
    output = ToolOutput(text="head\n[... left out ...]\ntail", digest="ran", size=9_000_000, excerpt=True)
    (message,) = admit(assistant("", *batch(1)), [output], 30_000, COUNTER, Store())
    assert message.content == "head\n[... left out ...]\ntail\n[in full: @run/outputs/0001.txt]"
    assert message.digest == "ran; in full: @run/outputs/0001.txt"


def test_an_empty_result_is_said_to_be_empty() -> None:
    (message,) = admit(assistant("", *batch(1)), [ToolOutput(text="", digest="ran")], 300, COUNTER, Store())
    assert message.content == "(no output)"


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=12), st.integers(0, 30_000))
def test_the_water_level_fills_the_room_and_no_more(sizes: list[int], room: int) -> None:
    level = water_level(sizes, room)
    used = sum(min(size, level) for size in sizes)
    assert used <= room
    if max(sizes) > level:
        assert used > room - len(sizes)
