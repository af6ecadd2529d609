"""What stands for a secret is never written over the secret, and a file that really holds such a text stays editable."""

from __future__ import annotations

import pytest

from tests.tools.caller import Caller

REFUSAL = "stands for a secret that you were not shown"
KEPT = 'TOKEN = "s3cret-of-9f3b7c1e"\nx = 1\n'
# Of a variable that is set, of one that no longer is, of a form, of nothing at all.
MARKS = ["[redacted:DEPLOY_TOKEN]", "[redacted:GONE_TOKEN]", "[redacted:jwt]", "[redacted:a.b-c]"]


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_that_the_file_does_not_hold_is_refused_whatever_its_name(caller: Caller, mark: str) -> None:
    path = caller.put("conf.py", KEPT)
    line = f'TOKEN = "{mark}"'
    caller.call("read_file", path="conf.py")
    assert REFUSAL in caller.refused("write_file", path="conf.py", content=f"{line}\nx = 2\n")
    assert REFUSAL in caller.edit("conf.py", ("x = 1", f"x = 2\n{line}")).text
    assert REFUSAL in caller.edit("conf.py", ('TOKEN = "s3cret-of-9f3b7c1e"', line)).text
    assert REFUSAL in caller.edit("conf.py", (line, "y = 1")).text
    assert REFUSAL in caller.edit("conf.py", ("x = 1", "x = 2"), ("x = 2", line)).text
    assert REFUSAL in caller.refused("write_file", path="new.md", content=f"Use {mark} here.\n")
    assert REFUSAL in caller.refused("write_file", path=f"{mark}.md", content="x\n")
    assert path.read_text() == KEPT
    assert [p.name for p in caller.root.iterdir()] == ["conf.py"]


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_that_really_hold_a_mark_stay_editable(caller: Caller, mark: str, end: str) -> None:
    path = caller.put("doc.md", f"# Marks{end}    it is {mark} there{end}last{end}")
    assert caller.edit("doc.md", (f"it is {mark} there", f"it was {mark}, then")).ok
    assert caller.edit("doc.md", (f"it was {mark}, then", f"so {mark}"), (f"so {mark}", f"now {mark}")).ok
    assert caller.edit("doc.md", ("last", f"    now {mark}\nend")).ok
    caller.call("read_file", path="doc.md")
    assert caller.call("write_file", path="doc.md", content=f"# New\n    now {mark}\n").ok
    assert path.read_bytes() == f"# New{end}    now {mark}{end}".encode()
    assert caller.edit("doc.md", (f"now {mark}", "gone")).ok


def test_one_line_with_a_mark_does_not_let_the_secret_of_another_be_written_over(caller: Caller) -> None:
    path = caller.put("conf.py", f"# [redacted:A_TOKEN] is how it looks\n{KEPT}")
    before = path.read_text()
    caller.call("read_file", path="conf.py")
    line = 'TOKEN = "[redacted:A_TOKEN]"'
    assert REFUSAL in caller.refused("write_file", path="conf.py", content=f"{line}\nx = 2\n")
    assert REFUSAL in caller.edit("conf.py", ("x = 1", line)).text
    one_to_two = ("[redacted:A_TOKEN] is", "[redacted:A_TOKEN] and [redacted:A_TOKEN] are")
    assert REFUSAL in caller.edit("conf.py", one_to_two).text
    assert path.read_text() == before
