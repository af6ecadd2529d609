"""`edit_file` through the tool set, on real files."""

from __future__ import annotations

import os
import stat
import subprocess

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from chimera.core.ledger import FileChanged
from tests.tools.caller import Caller


@pytest.mark.case("B1", "B2", "B5", "B7")
@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        pytest.param(b"a=1\r\nb=2\r\nc=3\r\n", "b=2\nc=3", "b=9\nc=3", b"a=1\r\nb=9\r\nc=3\r\n", id="crlf"),
        pytest.param(b"a\r\nb\nc\r\n", "b", "B", b"a\r\nB\nc\r\n", id="mixed ends stay"),
        pytest.param(b"a\r\nb\nc\r\n", "a\nb\nc", "b\nc", b"b\nc\r\n", id="mixed ends, a line goes"),
        pytest.param(b"a\r\nb\nc\r\n", "a\nb\n", "A\nx\nb\n", b"A\r\nx\r\nb\nc\r\n", id="mixed ends, a line comes"),
        pytest.param(b"a\r\nb\n", "b", "b\nc", b"a\r\nb\nc\n", id="mixed ends, the neighbour below decides"),
        pytest.param(b"a\rb\rc\r", "a\nb", "A\nx\nb", b"A\rx\rb\rc\r", id="lone carriage returns"),
        pytest.param(b"a\r\nb\r\n", "a\r\nb", "a\nb", b"a\nb\r\n", id="spelled-out line ends are meant"),
        pytest.param(b"a\nb\n", "a\r\nb", "x\r\ny", b"x\r\ny\n", id="crlf in old for a file without"),
        pytest.param(b"\xef\xbb\xbfx = 1\n", "x = 1", "x = 2", b"\xef\xbb\xbfx = 2\n", id="byte order mark"),
        pytest.param(b"l1\nl2\nl3", "l1", "L1", b"L1\nl2\nl3", id="no newline at the end"),
        pytest.param(b"l1\nl2\nl3", "l3", "l3\nl4", b"l1\nl2\nl3\nl4", id="line added after the last"),
        pytest.param(b"x\n\n\n", "x", "y", b"y\n\n\n", id="empty lines at the end"),
        pytest.param(b"caf\xe9 1\nok\n", "1\nok", "2\nok", b"caf\xe9 2\nok\n", id="bytes that are not UTF-8"),
        pytest.param(b"a\0b\nc\n", "c", "d", b"a\0b\nd\n", id="NUL elsewhere"),
        pytest.param(b"f(x)[0].*\n", "f(x)[0].*", r"\1 \g<0> $& $$ C:\new\tab", rb"\1 \g<0> $& $$ C:\new\tab" + b"\n", id="literal"),
        pytest.param(b"it's\n", "it's", "it’s\u00a0e\u0301", "it’s\u00a0e\u0301\n".encode(), id="no folding"),
        pytest.param(b"keep\ngone\nkeep\n", "gone\n", "", b"keep\nkeep\n", id="deletion"),
    ],
)  # fmt: skip
def test_only_the_span_changes(caller: Caller, before: bytes, old: str, new: str, after: bytes) -> None:
    path = caller.put("f.txt", before)
    output = caller.edit("f.txt", (old, new))
    assert output.ok, output.text
    assert path.read_bytes() == after


_ENDS = st.sampled_from(["\n", "\r\n"])
_WORDS = st.text(st.sampled_from("ab \t€\udce9"), max_size=3)


@given(
    head=st.lists(st.tuples(_WORDS, _ENDS), max_size=4),
    tail=st.lists(st.tuples(_WORDS, _ENDS), max_size=4),
    bom=st.booleans(),
    new=st.text(st.sampled_from("abX€"), max_size=5),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_bytes_outside_the_span_survive_whatever_they_are(
    caller: Caller, head: list[tuple[str, str]], tail: list[tuple[str, str]], bom: bool, new: str
) -> None:
    assume(new != "ZZ")
    mark = b"\xef\xbb\xbf" if bom else b""
    first, last = (
        "".join(a + b for a, b in part).encode("utf-8", "surrogateescape") for part in (head, tail)
    )
    name = f"g{os.urandom(6).hex()}.txt"
    path = caller.put(name, mark + first + b"ZZ" + last)
    assert caller.edit(name, ("ZZ", new)).ok
    assert path.read_bytes() == mark + first + new.encode() + last


@pytest.mark.case("B1")
def test_git_counts_the_same_lines_as_the_result(caller: Caller) -> None:
    caller.put("a.txt", b"a=1\r\nb=2\r\nc=3\r\n")
    (caller.root / "old.txt").write_bytes(b"a=1\r\nb=2\r\nc=3\r\n")
    output = caller.edit("a.txt", ("b=2\nc=3", "b=9\nc=3\nd=4"))
    stat_line = subprocess.run(
        ["git", "diff", "--no-index", "--numstat", "old.txt", "a.txt"],
        check=False,
        cwd=caller.root,
        capture_output=True,
        text=True,
    ).stdout
    assert stat_line.startswith("2\t1\t")
    assert output.facts == (FileChanged(path="a.txt", added=2, removed=1, line=2),)
    assert output.digest == "edited a.txt +2 -1 at line 2"


def test_the_result_shows_the_lines_around_the_change(caller: Caller) -> None:
    caller.put("a.txt", "".join(f"line {n}\n" for n in range(1, 21)))
    output = caller.edit("a.txt", ("line 10\n", "ten\n"), ("line 18", "eighteen"))
    assert output.text.splitlines() == [
        "Edited a.txt: +2 -2",
        *("7\tline 7", "8\tline 8", "9\tline 9", "10\tten", "11\tline 11", "12\tline 12", "13\tline 13"),
        "...",
        *("15\tline 15", "16\tline 16", "17\tline 17", "18\teighteen", "19\tline 19", "20\tline 20"),
    ]  # fmt: skip


def test_several_edits_are_all_applied_or_none(caller: Caller) -> None:
    path = caller.put("a.txt", "one\ntwo\nthree\n")
    text = caller.edit("a.txt", ("one", "1"), ("missing", "2")).text
    assert text.startswith("edits[1] of 'a.txt'")
    assert "Nothing was changed." in text
    assert path.read_text() == "one\ntwo\nthree\n"
    assert caller.edit("a.txt", ("one", "1"), ("1\ntwo", "1\n2")).ok
    assert path.read_text() == "1\n2\nthree\n"


def test_an_ambiguous_text_is_refused_with_the_lines_of_all_places(caller: Caller) -> None:
    path = caller.put("a.txt", "x\ny\nx\nz\nx\n")
    assert "3 times, at lines 1, 3, 5" in caller.edit("a.txt", ("x", "q")).text
    assert path.read_text() == "x\ny\nx\nz\nx\n"
    assert caller.edit("a.txt", ("x", "q"), every=True).digest == "edited a.txt +3 -3 at line 5"
    assert path.read_text() == "q\ny\nq\nz\nq\n"


def test_places_that_overlap_are_ambiguous(caller: Caller) -> None:
    caller.put("a.txt", "aaa\n")
    assert "2 times" in caller.edit("a.txt", ("aa", "b")).text


@pytest.mark.case("B8")
@pytest.mark.parametrize("content", [b"abc", b""], ids=["text", "empty"])
def test_an_empty_or_equal_text_is_refused_and_the_file_untouched(caller: Caller, content: bytes) -> None:
    path = caller.put("a.txt", content)
    before = path.stat().st_mtime_ns
    assert "edits[0].old must not be empty" in caller.edit("a.txt", ("", "X")).text
    assert "edits[0].old must not be empty" in caller.edit("a.txt", ("", "X"), every=True).text
    assert "the same" in caller.edit("a.txt", ("abc", "abc")).text
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (content, before)


def test_whitespace_is_tolerated_where_the_place_is_unique_and_it_is_said(caller: Caller) -> None:
    path = caller.put("a.py", "def f():\n    if x:\n        return  1\n    return 2\n")
    output = caller.edit("a.py", ("if x:\n    return 1\n", "if y:\n    return 1\n    # more\n"))
    assert "lines 2-3 matched with whitespace ignored" in output.text
    assert path.read_text() == "def f():\n    if y:\n        return  1\n        # more\n    return 2\n"


@pytest.mark.case("B4")
def test_spaces_given_for_tabs_keep_the_tabs_and_are_named(caller: Caller) -> None:
    path = caller.put("Makefile", "all:\n\techo hi\n\techo bye\n")
    output = caller.edit("Makefile", ("        echo hi\n", "        echo HI\n        echo again\n"))
    assert "The file has tabs here where `old` has spaces." in output.text
    assert path.read_text() == "all:\n\techo HI\n\techo again\n\techo bye\n"
    assert caller.call("shell", command="make -n").exit_code == 0


@pytest.mark.case("B4")
def test_an_indent_that_cannot_be_carried_over_is_refused(caller: Caller) -> None:
    path = caller.put("Makefile", "all:\n\techo hi\n")
    text = caller.edit("Makefile", ("        echo hi", "     echo HI")).text
    assert "The file has tabs here" in text
    assert path.read_text() == "all:\n\techo hi\n"


def test_a_tolerant_match_must_be_unique(caller: Caller) -> None:
    caller.put("a.txt", "  a b\nc\n a  b\n")
    assert "several places (lines 1, 3)" in caller.edit("a.txt", ("\ta b\n", "x\n")).text


def test_a_last_line_without_its_newline_is_found_with_one(caller: Caller) -> None:
    path = caller.put("a.txt", "a\nb")
    assert caller.edit("a.txt", ("b\n", "c\n")).ok
    assert path.read_text() == "a\nc"


def test_a_near_miss_is_shown_with_line_numbers_and_the_difference(caller: Caller) -> None:
    caller.put("a.py", "import os\n\ndef total(items):\n    return sum(items)\n")
    text = caller.edit("a.py", ("def total(items):\n    return sum(values)\n", "x")).text
    assert "3\tdef total(items):\n4\t    return sum(items)" in text
    assert "Line 4 is '    return sum(items)', `old` has '    return sum(values)'." in text
    assert "3\tdef total(items):" in caller.edit("a.py", ("def totals(item):", "x")).text


def test_a_guess_at_a_short_file_that_was_never_read_is_answered_with_the_file(caller: Caller) -> None:
    caller.put("a.py", "def add(a, b):\n    return a - b\n")
    guess = ("def sub(a, b)", "x")
    assert caller.edit("a.py", guess).text.endswith("The file holds:\n1\tdef add(a, b):\n2\t    return a - b")
    assert "The file holds" not in caller.edit("a.py", guess).text
    assert caller.call("write_file", path="a.py", content="x = 1\n").ok
    caller.put("long.py", "x = 1\n" * 61)
    assert "The file holds" not in caller.edit("long.py", guess).text


def test_copied_line_numbers_are_recognised(caller: Caller) -> None:
    caller.put("a.py", "a\nb\n")
    assert "line numbers" in caller.edit("a.py", ("1\ta\n2\tb", "x")).text


@pytest.mark.case("B11")
def test_a_change_by_somebody_else_is_never_overwritten(caller: Caller) -> None:
    path = caller.put("a.txt", "one\n")
    caller.call("read_file", path="a.txt")
    path.write_text("eno\n")
    assert "changed on disk" in caller.edit("a.txt", ("eno", "two")).text
    assert "changed on disk" in caller.refused("write_file", path="a.txt", content="two\n")
    assert path.read_text() == "eno\n"
    caller.call("read_file", path="a.txt")
    assert caller.edit("a.txt", ("eno", "two")).ok


@pytest.mark.case("B11")
def test_own_edits_are_no_alarm_but_a_formatter_asks_for_a_new_read(caller: Caller) -> None:
    caller.put("a.txt", "0\n")
    for n in range(20):
        assert caller.edit("a.txt", (str(n), str(n + 1))).ok
    caller.call("shell", command="sed -i 's/20/twenty/' a.txt")
    assert "Read it again" in caller.edit("a.txt", ("twenty", "x")).text


@pytest.mark.case("B10")
def test_mode_and_link_are_kept(caller: Caller) -> None:
    script = caller.put("run.sh", "echo a\n")
    script.chmod(0o755)
    (caller.root / "link.sh").symlink_to("run.sh")
    assert caller.edit("link.sh", ("echo a", "echo b")).ok
    assert (caller.root / "link.sh").is_symlink()
    assert (script.read_text(), stat.S_IMODE(script.stat().st_mode)) == ("echo b\n", 0o755)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param("x = 1\n".encode("utf-16"), "UTF-16", id="utf-16"),
        pytest.param(b"x" * (10 * 1024 * 1024 + 1), "too large", id="huge"),
    ],
)
def test_files_that_cannot_be_edited_are_refused_with_the_reason(
    caller: Caller, content: bytes, reason: str
) -> None:
    path = caller.put("a.txt", content)
    assert reason in caller.edit("a.txt", ("x", "y")).text
    assert path.read_bytes() == content


def test_half_a_surrogate_pair_is_refused(caller: Caller) -> None:
    path = caller.put("a.txt", b"a\xff\n")
    assert "surrogate" in caller.edit("a.txt", ("a", "\ud83d")).text
    assert "surrogate" in caller.edit("a.txt", ("\udcff", "b")).text
    assert path.read_bytes() == b"a\xff\n"


def test_a_new_syntax_error_is_told_and_the_edit_stands(caller: Caller) -> None:
    path = caller.put("a.py", "x = (1)\n")
    output = caller.edit("a.py", ("(1)", "(1"))
    assert output.ok
    assert "now has a syntax error: line 1" in output.text
    assert output.digest.endswith("; syntax error")
    assert path.read_text() == "x = (1\n"
    assert "syntax error" not in caller.edit("a.py", ("x", "y")).text
    caller.put("b.json", '{"a": 1}')
    assert "syntax error" in caller.edit("b.json", ("1", "1,")).text
    caller.put("c.py", "x = '\\d'\n")
    assert "syntax error" not in caller.edit("c.py", ("x", "y")).text


def test_thousands_of_replacements_in_a_large_file_are_quick(caller: Caller) -> None:
    path = caller.put("a.txt", b"alpha beta\r\n" * 200_000)
    output = caller.edit("a.txt", ("beta", "gamma\ndelta"), every=True)
    assert path.read_bytes() == b"alpha gamma\r\ndelta\r\n" * 200_000
    assert len(output.text) < 5000


@pytest.mark.case("B1")
def test_one_line_changed_is_one_line_for_git(caller: Caller) -> None:
    for name in ("a.txt", "old.txt"):
        caller.put(name, b"a=1\r\nb=2\r\nc=3\r\n")
    caller.edit("a.txt", ("b=2\nc=3", "b=9\nc=3"))
    compared = subprocess.run(
        ["git", "diff", "--no-index", "--numstat", "old.txt", "a.txt"],
        check=False,
        cwd=caller.root,
        capture_output=True,
        text=True,
    )
    assert compared.stdout.startswith("1\t1\t")


@pytest.mark.case("B5")
def test_an_edit_of_an_empty_file_is_refused_with_its_reason(caller: Caller) -> None:
    path = caller.put("a.txt", "")
    assert "`old` was not found" in caller.edit("a.txt", ("x", "y")).text
    assert path.read_bytes() == b""


@pytest.mark.case("B8")
def test_a_missing_file_is_not_made_by_an_edit_and_the_schema_asks_for_some_text(caller: Caller) -> None:
    assert (
        "There is no file 'new.txt'"
        in caller.edit("new.txt", ("", "X")).text + caller.edit("new.txt", ("a", "X")).text
    )
    assert not (caller.root / "new.txt").exists()
    (edit,) = (tool for tool in caller.tools.tools if tool.name == "edit_file")
    assert edit.parameters["properties"]["edits"]["items"]["properties"]["old"]["minLength"] == 1


@pytest.mark.case("B7")
def test_straight_and_curly_quotes_and_forms_of_a_letter_are_different_texts(caller: Caller) -> None:
    path = caller.put("a.txt", "it's caf\u00e9\n")
    assert "`old` was not found" in caller.edit("a.txt", ("it\u2019s", "x")).text
    assert "`old` was not found" in caller.edit("a.txt", ("cafe\u0301", "x")).text
    assert caller.edit("a.txt", ("it's", "it\u2019s")).ok
    assert path.read_bytes() == "it\u2019s caf\u00e9\n".encode()


@pytest.mark.case("B10")
def test_a_loop_of_links_is_an_error_that_leaves_nothing(caller: Caller) -> None:
    (caller.root / "one").symlink_to("two")
    (caller.root / "two").symlink_to("one")
    assert not caller.edit("one", ("a", "b")).ok
    caller.refused("write_file", path="two", content="x")
    assert {path.name for path in caller.root.iterdir()} == {"one", "two"}
    assert (caller.root / "one").is_symlink()


@pytest.mark.case("B10")
@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_an_error_that_leaves_nothing(caller: Caller) -> None:
    caller.put("locked/a.txt", "a\n")
    (caller.root / "locked").chmod(0o555)
    before = sorted(caller.root.rglob("*"))
    try:
        assert "permission denied" in caller.edit("locked/a.txt", ("a", "b")).text
        assert "permission denied" in caller.refused("write_file", path="locked/new.txt", content="x")
    finally:
        (caller.root / "locked").chmod(0o755)
    assert sorted(caller.root.rglob("*")) == before
    assert (caller.root / "locked/a.txt").read_text() == "a\n"


@pytest.mark.case("B10")
@pytest.mark.parametrize("umask", [0o077, 0o000])
def test_modes_are_kept_and_new_files_get_what_the_umask_allows(caller: Caller, umask: int) -> None:
    for name, mode in (("run.sh", 0o755), ("key.txt", 0o600), ("shared.txt", 0o664)):
        caller.put(name, "a\n").chmod(mode)
    before = os.umask(umask)
    try:
        for name in ("run.sh", "key.txt", "shared.txt"):
            assert caller.edit(name, ("a", "b")).ok
        assert caller.call("write_file", path="new.txt", content="x\n").ok
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in caller.root.iterdir()}
    assert modes == {"run.sh": 0o755, "key.txt": 0o600, "shared.txt": 0o664, "new.txt": 0o666 & ~umask}
