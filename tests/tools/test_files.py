"""`read_file` and `write_file` on real files."""

from __future__ import annotations

import os
import stat

import pytest

from chimera.core.ledger import FileChanged, FileRead
from tests.tools.caller import Caller


def test_a_whole_file_is_shown_with_numbers_and_its_length(caller: Caller) -> None:
    caller.put("src/a.py", "x = 1\n\ty\n")
    output = caller.call("read_file", path="src/a.py")
    assert output.text == "1\tx = 1\n2\t\ty\n[2 lines]"
    assert output.digest == "read src/a.py lines 1-2 of 2"
    assert output.facts == (FileRead(path="src/a.py", first=1, last=2, total=2),)


def test_a_range_says_where_it_lies_and_how_to_go_on(caller: Caller) -> None:
    caller.put("a.txt", "".join(f"{n}\n" for n in range(1, 101)))
    output = caller.call("read_file", path="a.txt", start_line=10, line_count=2)
    assert output.text == "10\t10\n11\t11\n[lines 10-11 of 100; go on with start_line=12]"
    assert caller.call("read_file", path="a.txt", start_line=100).text == "100\t100\n[lines 100-100 of 100]"
    assert "100 lines; start_line 101" in caller.refused("read_file", path="a.txt", start_line=101)


def test_a_call_shows_no_more_than_two_thousand_lines_or_64_kib(caller: Caller) -> None:
    caller.put("many.txt", "x\n" * 5000)
    assert caller.call("read_file", path="many.txt", line_count=4000).text.endswith(
        "[lines 1-2000 of 5000; go on with start_line=2001]"
    )
    caller.put("wide.txt", ("€" * 300 + "\n") * 1000)
    output = caller.call("read_file", path="wide.txt")
    assert len(output.text.encode()) < 66_000
    assert "of 1000; go on with start_line=" in output.text


@pytest.mark.case("B2")
@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(b"", "[empty file]", id="empty"),
        pytest.param(b"a\nb", "1\ta\n2\tb\n[2 lines; no newline at the end]", id="no newline"),
        pytest.param(b"\xef\xbb\xbfa\r\nb\r\n", "1\ta\n2\tb\n[2 lines; CRLF line ends]", id="bom and crlf"),
        pytest.param(b"a\rb\r", "1\ta\n2\tb\n[2 lines; CR line ends]", id="cr"),
        pytest.param(
            b"caf\xe9\n", "1\tcaf\ufffd\n[1 line; bytes that are not UTF-8 are shown as \ufffd]", id="latin-1"
        ),
        pytest.param(
            b"a\x1b[0m\n", "1\ta\\x1b[0m\n[1 line; control characters are shown as \\xNN]", id="escape"
        ),
    ],
)
def test_how_a_file_is_stored_is_a_remark_and_not_a_surprise(
    caller: Caller, content: bytes, text: str
) -> None:
    caller.put("a.txt", content)
    assert caller.call("read_file", path="a.txt").text == text


def test_a_very_long_line_is_shortened_and_it_is_said(caller: Caller) -> None:
    caller.put("a.txt", "x" * 5000 + "\nshort\n")
    text = caller.call("read_file", path="a.txt").text
    assert (
        "x [... 4,000 more characters]\n2\tshort\n[2 lines; lines over 2000 characters are shortened]" in text
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"\x89PNG\r\n\0\0", "is binary (8 bytes)", id="binary"),
        pytest.param("x\n".encode("utf-16"), "iconv -f UTF-16", id="utf-16"),
        pytest.param(b"x" * (10 * 1024 * 1024 + 1), "too large", id="huge"),
    ],
)
def test_what_is_no_readable_text_is_refused_with_advice(caller: Caller, content: bytes, reason: str) -> None:
    caller.put("a", content)
    assert reason in caller.refused("read_file", path="a")


def test_what_is_no_regular_file_is_refused_at_once(caller: Caller) -> None:
    os.mkfifo(caller.root / "pipe")
    (caller.root / "loop").symlink_to("loop")
    (caller.root / "sub").mkdir()
    for name in ("pipe", "loop", "sub", "missing", "../project-evil", "/etc/hosts", "a\0b", ""):
        caller.refused("read_file", path=name)


def test_the_record_of_the_run_is_readable_and_only_that(caller: Caller) -> None:
    (caller.run_dir / "outputs" / "0001.txt").write_bytes(b"\x1b[31mred\x1b[0m\n10%\r100%\n")
    (caller.run_dir / "events.jsonl").write_text("{}\n")
    output = caller.call("read_file", path="@run/outputs/0001.txt")
    assert output.text == "1\tred\n2\t100%\n[2 lines]"
    assert output.facts == (FileRead(path="@run/outputs/0001.txt", first=1, last=2, total=2),)
    caller.refused("read_file", path="@run/events.jsonl")
    caller.refused("write_file", path="@run/outputs/0001.txt", content="x")


def test_a_new_file_is_created_with_its_folders(caller: Caller) -> None:
    output = caller.call("write_file", path="a/b/c.txt", content="x\ny\n")
    assert (caller.root / "a/b/c.txt").read_bytes() == b"x\ny\n"
    assert output.text == "Created a/b/c.txt: 2 lines, +2 -0"
    assert output.facts == (FileChanged(path="a/b/c.txt", added=2, removed=0, line=1, created=True),)
    assert caller.call("write_file", path="a/b/c.txt", content="z").text.endswith("no newline at the end")


@pytest.mark.case("B11")
def test_an_unread_file_is_not_replaced(caller: Caller) -> None:
    path = caller.put("a.txt", "one\ntwo\n")
    assert "has not read it" in caller.refused("write_file", path="a.txt", content="x\n")
    assert path.read_text() == "one\ntwo\n"
    caller.call("read_file", path="a.txt", line_count=1)
    output = caller.call("write_file", path="a.txt", content="one\n2\n")
    assert output.digest == "replaced a.txt +1 -1"
    assert output.facts == (FileChanged(path="a.txt", added=1, removed=1, line=2),)
    assert caller.call("write_file", path="a.txt", content="one\n2\n").facts == ()


def test_an_empty_file_may_be_filled_unread(caller: Caller) -> None:
    path = caller.put("a.txt", "")
    assert caller.call("write_file", path="a.txt", content="x\n").ok
    assert path.read_text() == "x\n"


@pytest.mark.case("B2")
@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        pytest.param(b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n", id="crlf kept"),
        pytest.param(b"a\r\nb\r\n", "x\r\ny\n", b"x\r\ny\n", id="spelled-out ends are meant"),
        pytest.param(b"\xef\xbb\xbfa\n", "b\n", b"\xef\xbb\xbfb\n", id="byte order mark kept"),
        pytest.param(b"\xef\xbb\xbfa\n", "\ufeffb\n", b"\xef\xbb\xbfb\n", id="one byte order mark only"),
        pytest.param(b"a\n", "b\n", b"b\n", id="none appears"),
    ],
)
def test_a_replaced_file_keeps_its_style(caller: Caller, before: bytes, content: str, after: bytes) -> None:
    path = caller.put("a.txt", before)
    caller.call("read_file", path="a.txt")
    caller.call("write_file", path="a.txt", content=content)
    assert path.read_bytes() == after


@pytest.mark.case("B7")
def test_what_is_written_is_the_argument_byte_for_byte(caller: Caller) -> None:
    content = "\\1 \\g<0> $& “quotes” \u00a0 e\u0301 é\tC:\\new\r\n\x00\x1b"
    caller.call("write_file", path="a.txt", content=content)
    assert (caller.root / "a.txt").read_bytes() == content.encode()


@pytest.mark.case("B10")
def test_writing_leaves_mode_alone_and_no_temporary_file(caller: Caller) -> None:
    path = caller.put("key.txt", "a\n")
    path.chmod(0o600)
    caller.call("read_file", path="key.txt")
    caller.call("write_file", path="key.txt", content="b\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(caller.root.iterdir()) == [path]


def test_a_broken_new_file_is_told_and_stands(caller: Caller) -> None:
    output = caller.call("write_file", path="a.json", content="{")
    assert output.ok
    assert "now has a syntax error: line 1" in output.text
    assert caller.refused("write_file", path="b.txt", content="\ud800").startswith("`content` holds half")


def test_git_and_outside_are_not_written(caller: Caller) -> None:
    (caller.root / ".git").mkdir()
    for name in (".git/hooks/pre-commit", "../out.txt", "/tmp/chimera-out.txt", "sub"):
        (caller.root / "sub").mkdir(exist_ok=True)
        caller.refused("write_file", path=name, content="x")
    assert list((caller.root / ".git").iterdir()) == []
    assert not (caller.root.parent / "out.txt").exists()


@pytest.mark.case("B4")
def test_tabs_are_shown_as_tabs(caller: Caller) -> None:
    caller.put("Makefile", "all:\n\techo hi\n\techo bye\n")
    assert caller.call("read_file", path="Makefile").text == "1\tall:\n2\t\techo hi\n3\t\techo bye\n[3 lines]"


@pytest.mark.case("C11")
@pytest.mark.parametrize("path", ["a\0b", "sub/\0", "\0"])
def test_a_path_with_a_nul_is_an_error_of_every_file_tool(caller: Caller, path: str) -> None:
    assert "NUL" in caller.refused("read_file", path=path)
    assert "NUL" in caller.refused("write_file", path=path, content="x")
    assert "NUL" in caller.edit(path, ("a", "b")).text
    assert "NUL" in caller.refused("search", pattern="x", path=path)
    assert not caller.call("search", pattern="a\0b").ok
    assert list(caller.root.iterdir()) == []


@pytest.mark.case("C7")
def test_the_file_tools_never_follow_the_folder_of_a_command(caller: Caller) -> None:
    caller.put("a.txt", "here\n")
    caller.call("shell", command="cd / && cd tmp")
    assert caller.call("read_file", path="a.txt").text.startswith("1\there")
    assert caller.call("shell", command="pwd").text == f"exit 0\n{caller.root}"


@pytest.mark.case("C8")
def test_escape_sequences_in_a_file_stay_in_the_file(caller: Caller) -> None:
    content = b"\x1b]0;title\x07\x1b[31mred\x1b[0m\n"
    path = caller.put("a.log", content)
    assert "\\x1b[31mred" in caller.call("read_file", path="a.log").text
    assert caller.edit("a.log", ("red", "blue")).ok
    assert path.read_bytes() == content.replace(b"red", b"blue")
