from __future__ import annotations

import io
import json
import threading
from typing import Any

import pytest
from typing_extensions import override

from chimera.cli import lines
from chimera.cli.cells import width
from chimera.cli.render import Screen, show_summary
from chimera.cli.terminal import Terminal
from chimera.cli.waiting import Waiting
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


def test_a_tab_in_a_line_takes_the_cells_that_it_is_counted_for() -> None:
    stream = Screenful()
    Terminal(stream, {"NO_COLOR": "1"}).line("\t" * 10 + "x" * 100)
    (line,) = stream.getvalue().splitlines()
    assert "\t" not in line
    assert width(line) == 79


def test_what_stood_in_the_line_is_wiped_without_escape_sequences() -> None:
    stream = Screenful()
    terminal = Terminal(stream, {"NO_COLOR": "1"})
    terminal.transient("waiting")
    terminal.line("done")
    assert stream.getvalue() == "waiting\r" + " " * 9 + "\rdone\n"


def test_the_echo_of_a_ctrl_c_is_wiped_with_what_stood_before_it() -> None:
    stream = Screenful()
    terminal = Terminal(stream, {"NO_COLOR": "1"})
    terminal.transient("漢" * 100)
    stream.write("^C")
    terminal.line("stopped")
    assert seen(stream) == ["stopped", ""]
    assert all(width(part) <= 79 for part in stream.getvalue().split("\r"))


def test_what_follows_an_interrupted_question_has_a_line_of_its_own() -> None:
    stream = Screenful()
    terminal = Terminal(stream, {"NO_COLOR": "1"})

    def interrupt() -> None:
        with terminal.question("Well? "):
            stream.write("^C")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    terminal.transient("5 s · waiting")
    terminal.line("stopped")
    assert seen(stream) == ["Well? ^C", "stopped", ""]


def test_a_stream_without_our_characters_gets_plain_ones() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors="backslashreplace")
    Terminal(stream, {}).line("✓ a · b → c… 漢")
    assert raw.getvalue() == b"+ a - b > c~ \\u6f22\n"


def test_what_a_stream_cannot_encode_is_measured_as_it_is_shown() -> None:
    class Narrow(io.TextIOWrapper):
        @override
        def isatty(self) -> bool:
            return True

    raw = io.BytesIO()
    terminal = Terminal(Narrow(raw, encoding="ascii", errors="backslashreplace"), {"NO_COLOR": "1"})
    terminal.line("漢" * 100)
    terminal.block("漢字 " * 40, indent="  ")
    assert max(map(len, raw.getvalue().splitlines())) <= 79


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


def test_an_emoji_that_arrives_in_pieces_is_one() -> None:
    stream = Screenful()
    screen = Screen(Terminal(stream, {"NO_COLOR": "1"}))
    for piece in ("\U0001f469", "\u200d", "\U0001f52c ", "1", "\ufe0f", "\u20e3", " ⚠", "\ufe0f"):
        screen(Event("text", {"text": piece}))
    screen(completion("…", calls=False))
    assert seen(stream)[0] == "\U0001f469\u200d\U0001f52c 1\ufe0f\u20e3 ⚠\ufe0f"


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


def test_a_script_costs_nothing() -> None:
    stream = io.StringIO()
    screen = Screen(Terminal(stream, {}))
    screen(Event("run_started", {**STARTED.fields, "model": "scripted:model.yaml"}))
    screen(completion("", calls=True))
    assert "cost $0.00" in stream.getvalue()
    assert (
        dict(lines.summary_rows({"model": "scripted:model.yaml", "usage": {"input_tokens": 1}}))["cost"]
        == "$0.00"
    )
    assert (
        dict(lines.summary_rows({"model": "openai/scripted", "usage": {"input_tokens": 1}}))["cost"]
        == "unknown"
    )


def test_counts_of_a_run_go_on_with_its_next_message() -> None:
    stream = io.StringIO()
    terminal = Terminal(stream, {})
    earlier = None
    for _ in range(2):
        screen = Screen(terminal, earlier=earlier)
        screen(STARTED)
        screen(Event("compaction", {"changed": True, "before": 2, "after": 1}))
        event = completion("", calls=True)
        screen(Event("completion", {**event.fields, "usage": {**event.fields["usage"], "cost_usd": 0.25}}))
        earlier = screen
    (last,) = stream.getvalue().splitlines()[-1:]
    assert "2 compactions" in last
    assert "cost $0.5000" in last
    assert stream.getvalue().count("mode auto") == 1


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


def seen(stream: io.StringIO) -> list[str]:
    """The lines as they stand on the screen in the end."""
    shown = []
    for line in stream.getvalue().split("\n"):
        cells = ""
        for part in line.split("\r"):
            cells = part + cells[len(part) :]
        shown.append(cells.rstrip())
    return shown


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_takes_its_time_is_counted_in_one_line() -> None:
    stream, clock = Screenful(), Clock()
    terminal = Terminal(stream, {"NO_COLOR": "1"})
    waiting = Waiting(terminal, clock=clock)
    waiting.begin("waiting for the model")
    shown = []
    for seconds in (0.5, 1.0, 61.5):
        clock.now = 100 + seconds
        waiting.tick()
        shown += seen(stream)
    waiting.end()
    waiting.tick()
    terminal.line("done")
    assert shown == [
        "waiting for the model",
        "1 s · waiting for the model",
        "1 min 01 s · waiting for the model",
    ]
    assert seen(stream) == ["done", ""]


def test_a_reply_that_falls_silent_is_waited_for_below_it() -> None:
    stream, clock = Screenful(), Clock()
    terminal = Terminal(stream, {"NO_COLOR": "1"})
    waiting = Waiting(terminal, clock=clock)
    waiting.begin("waiting")
    terminal.flow("I write the file now.")
    waiting.heard()
    clock.now += 3
    waiting.tick()
    assert seen(stream) == ["I write the file"]
    clock.now += 2
    waiting.tick()
    assert seen(stream) == ["I write the file now.", "5 s · waiting"]
    terminal.flow("More of it.")
    terminal.end_flow()
    terminal.end_flow()
    assert seen(stream) == ["I write the file now.", "More of it.", ""]


@pytest.mark.parametrize("stream", [Screenful(), io.StringIO()], ids=["terminal", "pipe"])
def test_nothing_is_counted_behind_a_question(stream: io.StringIO) -> None:
    clock = Clock()
    terminal = Terminal(stream, {"NO_COLOR": "1"})
    waiting = Waiting(terminal, clock=clock)
    with terminal.question("Well? "):
        waiting.begin("waiting")
        clock.now += 9
        waiting.tick()
    assert stream.getvalue() == "Well? "
    clock.now += 5
    waiting.tick()
    assert ("5 s · waiting" in stream.getvalue()) is stream.isatty()


def test_the_line_is_rewritten_by_itself_while_the_context_lasts() -> None:
    class Rewritten(Screenful):
        def __init__(self) -> None:
            super().__init__()
            self.often = threading.Semaphore(0)

        @override
        def write(self, text: str, /) -> int:
            self.often.release()
            return super().write(text)

    stream, clock = Rewritten(), Clock()
    with Waiting(Terminal(stream, {}), clock=clock, every_s=0.001) as waiting:
        waiting.begin("waiting")
        clock.now += 5
        for _ in range(3):
            assert stream.often.acquire(timeout=60)
    assert "chimera-waiting" not in {thread.name for thread in threading.enumerate()}
    assert "5 s · waiting" in stream.getvalue()


def edited(**fields: Any) -> tuple[Event, Event]:
    arguments = {"path": "a.py", "edits": [{"old": "keep\none [x]\n\x1b[2J", "new": "keep\ntwo 漢\n"}]}
    return (
        Event("tool_started", {"id": "1", "name": "edit_file", "arguments": json.dumps(arguments)}),
        Event("tool_finished", {**FINISHED.fields, "id": "1", "name": "edit_file", **fields}),
    )


def test_an_edit_is_shown_as_a_diff_on_a_terminal_only() -> None:
    stream = Screenful()
    screen = Screen(Terminal(stream, {"NO_COLOR": "1"}))
    for event in edited():
        screen(event)
    assert seen(stream)[1:-1] == [
        "      keep",
        "    - one [x]",
        "    - \\x1b[2J",
        "    @ no newline at the end",
        "    + two 漢",
    ]
    others: list[tuple[io.StringIO, dict[str, Any]]] = [(Screenful(), {"ok": False}), (io.StringIO(), {})]
    for other, fields in others:
        screen = Screen(Terminal(other, {"NO_COLOR": "1"}))
        for event in edited(**fields):
            screen(event)
        assert "two" not in seen(other)[-2]
        assert len(seen(other)) == 2


def test_a_long_edit_is_cut_and_says_by_how_much() -> None:
    content = "".join(f"{n}\n" for n in range(100))
    arguments = json.dumps({"path": "n", "content": content})
    started = Event("tool_started", {"id": "1", "name": "write_file", "arguments": arguments})
    finished = Event("tool_finished", {**FINISHED.fields, "id": "1", "name": "write_file"})
    for verbose, last in ((False, "    … 84 more lines"), (True, "    + 99")):
        stream = Screenful()
        screen = Screen(Terminal(stream, {"NO_COLOR": "1"}), verbose=verbose)
        screen(started)
        screen(finished)
        assert seen(stream)[-2] == last


def test_the_end_names_the_check_and_what_to_type_as_it_can_be_copied() -> None:
    result = {"run_id": "20261130-052318-0f6c61", "stop_reason": "answered", "steps": 2, "files_changed": []}
    stream = Screenful()
    show_summary(
        Terminal(stream, {"NO_COLOR": "1"}), result, {"name": "verify", "ok": True, "digest": "ran `x`"}
    )
    assert "  check    passed: ran `x`" in seen(stream)
    assert '  next     chimera resume 20261130-052318-0f6c61 "..."  say what is next' in seen(stream)
    assert "           chimera show 20261130-052318-0f6c61          what it did" in seen(stream)
