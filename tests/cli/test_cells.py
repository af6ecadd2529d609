from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.cli.cells import Flow, Pieces, escaped, fit, one_line, width, wrap

WORDS = st.text(st.sampled_from("ab 漢é\u0301\n。「"), max_size=80)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("a\x1b[31mb", "a\\x1b[31mb", id="escape sequence"),
        pytest.param("a\x9bb", "a\\x9bb", id="C1"),
        pytest.param("a\rb\x07", "a\\x0db\\x07", id="return and bell"),
        pytest.param("a\u202eb", "a\\u202eb", id="direction override"),
        pytest.param("a\U000e0041b", "a\\U000e0041b", id="tag"),
        pytest.param("a\u200bb\u2060\ufeffc", "a\\u200bb\\u2060\\ufeffc", id="zero width"),
        pytest.param("a\U000e0100b", "a\\U000e0100b", id="variation selector that hides bytes"),
        pytest.param("pass\u200dword", "pass\\u200dword", id="joiner between letters"),
        pytest.param(
            "\U0001f469\u200d\U0001f52c ❤\ufe0f", "\U0001f469\u200d\U0001f52c ❤\ufe0f", id="emoji stay"
        ),
        pytest.param("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e", id="joining scripts stay"),
        pytest.param("a\tb\nc", "a\tb\nc", id="tab and newline stay"),
        pytest.param("[bold]x[/bold] é 漢", "[bold]x[/bold] é 漢", id="plain text stays"),
    ],
)
def test_what_could_steer_a_terminal_becomes_visible(text: str, shown: str) -> None:
    assert escaped(text) == shown
    assert escaped(shown) == shown


def test_one_line_is_one_line() -> None:
    assert one_line("a\n\n  b\tc\r\n") == "a b c\\x0d"


def test_wide_characters_take_two_cells_and_combining_ones_none() -> None:
    assert width("漢字") == 4
    assert width("e\u0301") == 1
    assert fit("漢字漢字", 5) == "漢字…"
    assert fit("漢字漢字", 8) == "漢字漢字"


@given(text=st.text(max_size=60), columns=st.integers(0, 30))
def test_a_cut_text_is_never_wider_than_its_columns(text: str, columns: int) -> None:
    assert width(fit(text, columns)) <= columns


@given(text=WORDS, columns=st.integers(2, 20))
def test_wrapping_keeps_every_word_and_never_exceeds_the_columns(text: str, columns: int) -> None:
    lines = wrap(text, columns)
    assert all(width(line) <= columns for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


@given(
    text=st.text(
        st.sampled_from("a1#❤⚠\U0001f469\U0001f52c\u200d\ufe0f\ufe0e\u20e3\x1b\u202e\n"), max_size=12
    ),
    cuts=st.lists(st.integers(0, 12), max_size=12),
)
def test_text_is_escaped_the_same_however_it_is_cut_into_pieces(text: str, cuts: list[int]) -> None:
    pieces, edges = Pieces(), [0, *sorted(cuts), len(text)]
    for _ in range(2):
        shown = "".join(pieces.add(text[a:b]) for a, b in pairwise(edges)) + pieces.end()
        assert shown == escaped(text)


def test_text_without_blanks_arrives_as_it_comes_and_breaks_where_it_may() -> None:
    flow = Flow()
    assert flow.add("漢字を読む。「は", 80) == "漢字を読む。"
    assert flow.add("い」", 80) == "「は"
    assert flow.end(80) == "い」"
    assert flow.add("see 漢字, ok", 8) + flow.end(8) == "see 漢\n字, ok"
    assert wrap("見出し: 漢字漢字", 12) == ["見出し: 漢字", "漢字"]
    assert wrap("漢字。漢字", 5) == ["漢", "字。", "漢字"]


@given(text=WORDS, columns=st.integers(2, 20), cuts=st.lists(st.integers(0, 80), max_size=6))
def test_a_flow_is_the_same_however_it_is_cut_into_pieces(text: str, columns: int, cuts: list[int]) -> None:
    def shown(pieces: list[str]) -> str:
        flow = Flow()
        return "".join(flow.add(piece, columns) for piece in pieces) + flow.end(columns)

    edges = [0, *sorted(cuts), len(text)]
    pieces = [text[a:b] for a, b in pairwise(edges)]
    whole = shown([text])
    assert shown(pieces) == whole
    assert all(width(line) <= columns for line in whole.split("\n"))
    assert "".join(whole.split()) == "".join(text.split())
