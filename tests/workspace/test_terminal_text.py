"""What a person would see of command output."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.workspace.terminal_text import escaped, plain_text, visible


@pytest.mark.case("C5", "C8")
@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        pytest.param(b"", "", id="nothing"),
        pytest.param("grün €\n\tx\n".encode(), "grün €\n\tx\n", id="plain text is untouched"),
        pytest.param(b"\x1b[1;31mred\x1b[0m", "red", id="colours"),
        pytest.param(b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b", "ab", id="window title and link"),
        pytest.param(b"\x1bPq#0;2\nrows\x1b\\a\x1b(Bb\x1b7", "ab", id="device strings and short sequences"),
        pytest.param(b"\x1b]0;never ended\nnext", "\nnext", id="an unended title stops at its line"),
        pytest.param(b"a\x1b", "a", id="a sequence cut at the end"),
        pytest.param(b"10%\r50%\r100%\n", "100%\n", id="progress"),
        pytest.param(b"long state\rdone\n", "done state\n", id="a shorter state leaves the rest"),
        pytest.param(b"long state\r\x1b[Kdone\n", "done\n", id="erased to the end"),
        pytest.param(b"50%\x1b[2K\x1b[1G100%\n", "100%\n", id="erased line and column one"),
        pytest.param(b"a\r\nb\r\n", "a\nb\n", id="line ends of Windows"),
        pytest.param(b"N\bNA\bA _\bx", "NA x", id="overstrike"),
        pytest.param(b"\b\bab\bc", "ac", id="backspaces stop at the margin"),
        pytest.param(b"bell\x07\n", "bell\n", id="bell"),
        pytest.param(b"\xf0\x28\x00\xffabc", "\ufffd(\\x00\ufffdabc", id="bad bytes stay visible"),
        pytest.param("a\u009b31mb".encode(), "a\\x9b31mb", id="C1 controls"),
        pytest.param("\ufdd0\r\ufdd1x".encode(), "\ufffdx", id="noncharacters cannot steer"),
    ],
)
def test_output_is_shown_as_a_person_would_see_it(raw: bytes, shown: str) -> None:
    assert plain_text(raw) == shown


@pytest.mark.case("C8")
def test_ten_thousand_progress_states_become_one_line() -> None:
    assert plain_text(b"".join(b"%d%%\r" % (n // 100) for n in range(10_000)) + b"100%\n") == "100%\n"


def test_binary_between_text_is_one_remark_with_its_size() -> None:
    binary = bytes(range(256)) * 40
    assert plain_text(b"before\n" + binary + b"\nafter this line\n") == (
        f"before\n[{len(binary) + 1:,} bytes of binary]\nafter this line\n"
    )


def test_text_in_an_old_encoding_is_not_taken_for_binary() -> None:
    text = "Ein Käse aus Österreich, für alle, die gern essen und nicht fragen\n" * 50
    assert "bytes of binary" not in plain_text(text.encode("latin-1"))


@pytest.mark.case("C5")
def test_a_character_split_by_a_read_chunk_is_whole() -> None:
    assert plain_text(b"a" * 65_535 + "€".encode()).endswith("a€")


@given(
    st.binary()
    | st.lists(st.sampled_from([b"\x1b[", b"\r", b"\b", b"\x1bP", b"\x1b]", b"a\n", b"K", b"\xff"])).map(
        b"".join
    )
)
def test_the_result_is_always_strict_text_without_controls(raw: bytes) -> None:
    shown = plain_text(raw)
    json.dumps(shown).encode()
    shown.encode("utf-8")
    assert not [c for c in shown if unicodedata.category(c) in {"Cc", "Cs"} and c not in "\n\t"]


@given(st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs", "Cn"]))))
def test_text_without_controls_is_returned_as_it_is(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert plain_text(text.encode()) == text == visible(text)


def test_lone_surrogates_and_controls_become_visible() -> None:
    assert visible("a\ud800b\x1b[0m\tc\n") == "a\ufffdb\\x1b[0m\tc\n"


# Default_Ignorable_Code_Point of the Unicode Character Database (DerivedCoreProperties.txt, version 16), without what may
# be seen: see `escaped`.
IGNORABLE = (
    "00AD 034F 061C 115F-1160 17B4-17B5 180B-180F 200B 200E-200F 202A-202E 2060-206F 3164 FE00-FE0D FEFF FFA0 FFF0-FFF8 "
    "1BCA0-1BCA3 1D173-1D17A E0000-E0FFF"
)
# Format characters that are drawn: signs of number, year, verse and abbreviation that stand before digits or letters.
DRAWN = "0600-0605 06DD 070F 0890-0891 08E2 110BD 110CD"
JOINERS = "200C-200D"


def code_points(ranges: str) -> set[int]:
    ends = [part.split("-") for part in ranges.split()]
    return {
        number for first, *last in ends for number in range(int(first, 16), int((last or [first])[0], 16) + 1)
    }


def test_nothing_without_a_shape_of_its_own_gets_through() -> None:
    formats = {number for number in range(0x110000) if unicodedata.category(chr(number)) == "Cf"}
    hidden = formats | code_points(f"{IGNORABLE} 2028-2029 13430-1343F")
    for number in hidden - code_points(f"{DRAWN} {JOINERS}"):
        code = f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"
        assert escaped(f"a{chr(number)}b") == f"a{code}b"


@pytest.mark.parametrize("text", ["❤️ ok", "1️⃣", "👩‍💻", "👁️‍🗨️", "ক্‍ষ", "نمی‌خواهم", "★︎", "\u0600٣"], ids=ascii)
def test_what_makes_an_emoji_or_a_script_readable_stays(text: str) -> None:
    assert escaped(text) == text


@pytest.mark.parametrize(
    "text", ["a\ufe0fb", "rm1\ufe0f -rf", "\ufe0f", "a\ufe0e", "\ufe0f\ufe0f", "❤\ufe0f\ufe0f"], ids=ascii
)
def test_a_variation_selector_that_shapes_no_emoji_is_shown(text: str) -> None:
    shown = escaped(text)
    assert shown.count("\ufe0f") + shown.count("\ufe0e") == ("❤" in text)
    assert "\\ufe0" in shown


@pytest.mark.parametrize(
    "unit", [b"\x1b[", b"\x1bP", b"\x1b]", b"x\r", b"xy\b", b"\x1b[2Kx", b"\x00\n", b"a\n\xff"], ids=repr
)
def test_hostile_megabytes_take_linear_time(unit: bytes) -> None:
    assert len(plain_text(b"y" * 500_000 + unit * 300_000)) < 4_000_000
