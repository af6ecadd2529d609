from __future__ import annotations

import io

import pytest
from typing_extensions import override

from chimera.cli.cells import width
from chimera.cli.render import Screen
from chimera.cli.terminal import Terminal
from chimera.record.events import Event


class Screenful(io.StringIO):
    """A stream that says it is a terminal; its size is unknown, so 80 columns."""

    @override
    def isatty(self) -> bool:
        return True


class Closed(io.StringIO):
    """A stream whose reader went away."""

    @override
    def write(self, text: str, /) -> int:
        raise BrokenPipeError


STARTED = Event(
    "run_started",
    {
        "model": "openai/m[/bold]",
        "window": 8_000,
        "window_source": "argument",
        "budget": 4_800,
        "trigger": 3_840,
        "floor": {"total": 875},
        "run_id": "20260131-235959-a1b2c3",
        "workspace": "/w",
        "mode": "auto",
        "sandbox": {"level": "workspace-write", "backend": "bwrap", "missing": []},
    },
)
PROMPT = Event("prompt", {"step": 1, "estimated": 900, "calibrated": 960, "parts": {}})
FINISHED = Event(
    "tool_finished",
    {"name": "shell", "ok": True, "digest": "ran `x`: exit 0", "exit_code": 0, "duration_ms": 5},
)


def completion(content: str, *, calls: bool = True) -> Event:
    message = {"role": "assistant", "content": content, "tool_calls": [{"id": "1"}] if calls else []}
    usage = {"input_tokens": 900, "output_tokens": 20, "cached_input_tokens": 0, "cost_usd": None}
    return Event("completion", {"step": 1, "message": message, "usage": usage})


@pytest.mark.parametrize(
    ("environment", "sequences"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)],
)
def test_escape_sequences_only_where_colour_is_wanted(
    environment: dict[str, str], *, sequences: bool
) -> None:
    stream = Screenful()
    Terminal(stream, environment).line(("fine", "green"))
    assert ("\x1b" in stream.getvalue()) is sequences


def test_a_pipe_gets_whole_plain_lines() -> None:
    stream = io.StringIO()
    terminal = Terminal(stream, {})
    terminal.transient("waiting")
    terminal.line(("x" * 300, "red"))
    terminal.block("word " * 100)
    assert stream.getvalue() == "x" * 300 + "\n" + ("word " * 100).rstrip() + "\n"


def test_lines_of_a_terminal_are_cut_and_blocks_wrapped() -> None:
    stream = Screenful()
    terminal = Terminal(stream, {"NO_COLOR": "1"})
    terminal.line("漢" * 100)
    terminal.block("word " * 100, indent="  ")
    lines = stream.getvalue().splitlines()
    assert all(width(line) <= 79 for line in lines)
    assert lines[0].endswith("…")
    assert len(lines) > 6


def test_what_stood_in_the_line_is_wiped_without_escape_sequences() -> None:
    stream = Screenful()
    terminal = Terminal(stream, {"NO_COLOR": "1"})
    terminal.transient("waiting")
    terminal.line("done")
    assert stream.getvalue() == "waiting\r" + " " * 7 + "\rdone\n"


def test_a_stream_without_our_characters_gets_plain_ones() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors="backslashreplace")
    Terminal(stream, {}).line("✓ a · b → c… 漢")
    assert raw.getvalue() == b"+ a - b > c~ \\u6f22\n"


def test_a_stream_that_went_away_is_given_up_silently() -> None:
    terminal = Terminal(Closed(), {})
    terminal.line("a")
    terminal.line("b")


def test_text_of_a_model_is_shown_as_it_is_and_steers_nothing() -> None:
    stream = Screenful()
    screen = Screen(Terminal(stream, {"NO_COLOR": "1"}))
    for event in (
        STARTED,
        PROMPT,
        Event("text", {"text": "see \x1b]0;owned\x07 [red]x[/red]"}),
        completion("…"),
    ):
        screen(event)
    assert "\x1b" not in stream.getvalue()
    assert "see \\x1b]0;owned\\x07 [red]x[/red]" in stream.getvalue()
    assert "openai/m[/bold]" in stream.getvalue()


def test_an_answer_that_arrived_on_a_terminal_counts_as_shown() -> None:
    screen = Screen(Terminal(Screenful(), {}))
    for event in (
        STARTED,
        PROMPT,
        Event("text", {"text": "All done."}),
        completion("All done.", calls=False),
    ):
        screen(event)
    assert screen.answer_shown


def test_on_a_pipe_the_answer_is_left_to_standard_output() -> None:
    stream = io.StringIO()
    screen = Screen(Terminal(stream, {}))
    for event in (
        STARTED,
        PROMPT,
        Event("text", {"text": "All done."}),
        completion("All done.", calls=False),
    ):
        screen(event)
    assert not screen.answer_shown
    assert "All done." not in stream.getvalue()
    screen(Event("message", {"role": "user", "content": "The check failed.\nmore"}))
    assert stream.getvalue().endswith("All done.\n  told the model: The check failed.\n")


def test_a_cost_that_becomes_unknown_stays_unknown() -> None:
    stream = io.StringIO()
    screen = Screen(Terminal(stream, {}))
    screen(STARTED)
    for cost in (0.25, None, 0.25):
        event = completion("", calls=True)
        screen(Event("completion", {**event.fields, "usage": {**event.fields["usage"], "cost_usd": cost}}))
    costs = [
        line.rpartition("cost ")[2] for line in stream.getvalue().splitlines() if line.startswith("step")
    ]
    assert costs == ["$0.2500", "unknown", "unknown"]


def test_verbose_shows_the_end_of_an_output_and_the_parts_of_a_compaction() -> None:
    stream = io.StringIO()
    screen = Screen(Terminal(stream, {}), verbose=True)
    output = "\n".join(f"line {n}" for n in range(20))
    screen(Event("tool_finished", {**FINISHED.fields, "output": output}))
    screen(
        Event("compaction", {"changed": True, "before": 2, "after": 1, "parts": {"fixed": 1_000, "note": 20}})
    )
    assert "    line 19\n" in stream.getvalue()
    assert "line 11\n" not in stream.getvalue()
    assert "after: fixed 1,000, note 20" in stream.getvalue()
