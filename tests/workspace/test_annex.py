from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.errors import WorkspaceError
from chimera.workspace.annex import FILE, PROGRAM, Annex, git_mode, keep_annex, load_annex

PATHS = st.binary(min_size=1, max_size=20).filter(lambda path: b"\0" not in path)
BITS = st.integers(0, 0o7777)


@given(
    files=st.dictionaries(PATHS, BITS),
    folders=st.dictionaries(PATHS, BITS),
    unrecorded=st.dictionaries(PATHS, st.text()),
)
def test_an_annex_comes_back_as_it_was(
    files: dict[bytes, int], folders: dict[bytes, int], unrecorded: dict[bytes, str]
) -> None:
    annex = Annex.of_modes(files, folders, unrecorded)
    again = Annex.from_bytes(annex.to_bytes())
    assert again == annex
    assert {path: again.bits(path, git_mode(bits)) for path, bits in files.items()} == files


def test_only_permissions_that_few_files_have_take_room() -> None:
    files = {b"%d" % n: 0o664 for n in range(100)} | {b"x": 0o600, b"run": 0o775}
    annex = Annex.of_modes(files, {}, {})
    assert annex.modes == {b"x": 0o600}
    assert (annex.usual[FILE], annex.usual[PROGRAM]) == (0o664, 0o775)


@pytest.mark.parametrize(
    ("path", "missed"),
    [(b"a", True), (b"d/e/f", True), (b"d", True), (b"ab", False), (b"a/b", False), (b"dd/x", False)],
)
def test_what_was_left_out_is_known_with_all_below_it(path: bytes, missed: bool) -> None:
    assert Annex(unrecorded={b"a": "", b"d/": ""}).misses(path) is missed
    assert Annex(unrecorded={b"/": ""}).misses(path)


def test_a_damaged_or_missing_one_is_refused(tmp_path: Path) -> None:
    name = keep_annex(tmp_path / "annexes", Annex())
    assert keep_annex(tmp_path / "annexes", Annex()) == name
    assert load_annex(tmp_path / "annexes", name) == Annex()
    for content in (b"", b"[]", b"{}", b"\xff", b'{"usual": 1, "modes": 2, "folders": 3, "unrecorded": 4}'):
        (tmp_path / "annexes" / name).write_bytes(content)
        with pytest.raises(WorkspaceError, match="gone or damaged"):
            load_annex(tmp_path / "annexes", name)
    with pytest.raises(WorkspaceError):
        load_annex(tmp_path / "annexes", "../annexes/none")
