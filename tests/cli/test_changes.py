from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.cli.changes import changed_lines, patch_lines

LINES = st.lists(st.sampled_from(["a", "b", "", "  c"]), max_size=12)

NO_END = ("@", "no newline at the end")


@given(old=LINES, new=LINES)
def test_an_edit_shows_every_line_that_goes_and_comes_and_a_little_around_it(
    old: list[str], new: list[str]
) -> None:
    edit = {"old": "".join(f"{line}\n" for line in old), "new": "".join(f"{line}\n" for line in new)}
    shown = changed_lines("edit_file", {"path": "f", "edits": [edit]})
    removed, added = ([text for sign, text in shown if sign == which] for which in "-+")
    assert len(old) - len(removed) == len(new) - len(added)
    rest_old, rest_new = list(old), list(new)
    for line in removed:
        rest_old.remove(line)
    for line in added:
        rest_new.remove(line)
    assert sorted(rest_old) == sorted(rest_new)


def test_several_edits_are_told_apart() -> None:
    edits = [{"old": "a", "new": "b"}, {"old": "c", "new": "d", "all": True}]
    assert changed_lines("edit_file", json.dumps({"path": "f", "edits": edits})) == [
        ("@", "edit 1 of 2"),
        ("-", "a"),
        ("+", "b"),
        ("@", "edit 2 of 2, wherever it occurs"),
        ("-", "c"),
        ("+", "d"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("a\n", "a", [("-", "a"), ("+", "a"), NO_END]),
        ("a", "a\n", [("-", "a"), NO_END, ("+", "a")]),
        ("a\nb\n", "a\nb", [(" ", "a"), ("-", "b"), ("+", "b"), NO_END]),
        ("a", "b", [("-", "a"), ("+", "b")]),
        ("a\n", "", [("-", "a")]),
        ("a\r\n", "a\n", [("-", "a\r"), ("+", "a")]),
        ("a\n\n", "a\n", [(" ", "a"), ("-", "")]),
    ],
)
def test_a_line_end_that_comes_or_goes_is_shown(old: str, new: str, shown: list[tuple[str, str]]) -> None:
    assert changed_lines("edit_file", {"path": "f", "edits": [{"old": old, "new": new}]}) == shown


def test_no_content_passes_for_a_line_of_a_patch() -> None:
    assert patch_lines("+a\x85-b\u2028@ c\r\n+d\x0ce\n") == ["+a\x85-b\u2028@ c\r", "+d\x0ce"]
    assert patch_lines("") == []


def test_a_file_without_a_last_line_end_is_written_as_one() -> None:
    assert changed_lines("write_file", {"path": "f", "content": "a\nb"}) == [("+", "a"), ("+", "b"), NO_END]
    assert changed_lines("write_file", {"path": "f", "content": "a\nb\n"}) == [("+", "a"), ("+", "b")]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("shell", {"command": "x"}),
        ("edit_file", "not json"),
        ("edit_file", "[" * 100_000),
        ("edit_file", "[1]"),
        ("edit_file", {"edits": "x"}),
        ("edit_file", {"edits": [1, {"old": 1, "new": None}]}),
        ("write_file", {}),
        ("write_file", {"content": 5}),
    ],
)
def test_what_is_no_change_has_no_lines(name: str, arguments: Any) -> None:
    assert [line for line in changed_lines(name, arguments) if line[0] != "@"] == []
