"""The note of a compaction: which files were changed and read, as far as its cap allows, by line or by name."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chimera.core.ledger import FileChanged, FileRead, Ledger
from chimera.core.plan import Plan
from chimera.core.restoration import Restored, render_note
from chimera.core.tokens import TokenCounter

COUNTER = TokenCounter()


def note(count: int, cap: int, folders: int = 2) -> str:
    ledger = Ledger()
    for number in range(count):
        ledger.add(FileChanged(path=f"src{number % folders}/part_{number:03}.py", added=3, removed=1, line=1))
    restored = Restored(plan=Plan(), ledger=ledger, file=None, archive="@run/archive/0001.md")
    return render_note(restored, cap, COUNTER)


def test_changes_that_fit_have_a_line_each_the_newest_first() -> None:
    lines = note(4, 400).splitlines()
    assert lines[1] == "- changed src1/part_003.py: +3 -1"
    assert len(lines) == 5


def test_where_they_do_not_fit_the_older_ones_are_named_by_folder() -> None:
    text = note(40, 420)
    lines = text.splitlines()
    assert lines[1] == "- changed src1/part_039.py: +3 -1"
    names = [line for line in lines if line.startswith("- also changed in src")]
    assert [line.partition(":")[0] for line in sorted(names)] == [
        "- also changed in src0",
        "- also changed in src1",
    ]
    assert all(f"part_{number:03}.py" in text for number in range(40))
    assert "Not shown" not in text


def test_a_file_without_a_folder_is_named_too() -> None:
    ledger = Ledger()
    for number in range(30):
        ledger.add(FileChanged(path=f"part_{number:03}.py", added=3, removed=1, line=1))
    restored = Restored(plan=Plan(), ledger=ledger, file=None, archive="@run/archive/0001.md")
    assert "- also changed in .: part_0" in render_note(restored, 300, COUNTER)


def test_files_read_that_do_not_fit_line_by_line_are_named_by_folder_too() -> None:
    ledger = Ledger()
    for number in range(12):
        ledger.add(FileRead(path=f"notes/{number:02}.txt", first=1, last=11, total=11))
    restored = Restored(plan=Plan(), ledger=ledger, file=None, archive="@run/archive/0001.md")
    text = render_note(restored, 150, COUNTER)
    assert "- read notes/11.txt lines 1-11 (not shown any more)" in text.splitlines()
    assert "- also read in notes: " in text
    assert all(f"{number:02}.txt" in text for number in range(12))
    assert COUNTER.text(text) <= 150


@given(st.integers(0, 50), st.integers(0, 500), st.integers(1, 9))
def test_a_note_keeps_its_cap_and_counts_what_it_leaves_out(count: int, cap: int, folders: int) -> None:
    text = note(count, cap, folders)
    assert COUNTER.text(text) <= cap
    if text.count("\n"):
        named = sum(f"part_{number:03}.py" in text for number in range(count))
        missing = f"Not shown: {count - named} changed." if named < count else ""
        assert missing in text
        assert ("Not shown" in text) == bool(missing)
