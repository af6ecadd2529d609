from __future__ import annotations

import os
from pathlib import Path

import pytest

from chimera.workspace.placing import (
    ChangedMeanwhileError,
    State,
    make_folder,
    put,
    remove,
    remove_left_overs,
)
from chimera.workspace.trees import content_id

SHA1 = "0" * 40


def file_state(content: bytes, bits: int = 0o644) -> State:
    return State("file", content_id(content, SHA1), bits)


def test_the_id_of_a_content_is_the_one_of_git() -> None:
    assert content_id(b"", SHA1) == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert len(content_id(b"", "0" * 64)) == 64


def test_a_file_is_replaced_only_if_it_is_what_was_expected(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"one")
    file.chmod(0o640)
    there = file_state(b"one", 0o640)
    file.write_bytes(b"two")
    with pytest.raises(ChangedMeanwhileError):
        put(tmp_path, b"f", file_state(b"new"), b"new", instead_of=there, like=SHA1)
    with pytest.raises(ChangedMeanwhileError):
        remove(tmp_path, b"f", expected=file_state(b"one", 0o640), like=SHA1)
    assert file.read_bytes() == b"two"
    put(tmp_path, b"f", file_state(b"new", 0o755), b"new", instead_of=file_state(b"two", 0o640), like=SHA1)
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"new", 0o755)
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_link_and_a_file_replace_each_other(tmp_path: Path) -> None:
    link = State("link", content_id(b"target", SHA1))
    put(tmp_path, b"x", link, b"target", instead_of=None, like=SHA1)
    assert os.readlink(tmp_path / "x") == "target"  # noqa: PTH115
    put(tmp_path, b"x", file_state(b"c"), b"c", instead_of=link, like=SHA1)
    assert (tmp_path / "x").read_bytes() == b"c"
    put(tmp_path, b"x", link, b"target", instead_of=file_state(b"c"), like=SHA1)
    assert os.readlink(tmp_path / "x") == "target"  # noqa: PTH115


def test_a_link_on_the_way_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "d").symlink_to(tmp_path / "outside")
    (tmp_path / "outside" / "f").write_bytes(b"x")
    root = tmp_path / "root"
    with pytest.raises(OSError, match=r"."):
        put(root, b"d/g", file_state(b"y"), b"y", instead_of=None, like=SHA1)
    with pytest.raises(OSError, match=r"."):
        remove(root, b"d/f", expected=file_state(b"x"), like=SHA1)
    with pytest.raises(OSError, match=r"."):
        make_folder(root, b"d/new", 0o755)
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["f"]


def test_only_half_made_files_of_ours_are_cleared_away(tmp_path: Path) -> None:
    ours = ".chimera-0123456789abcdef.tmp"
    (tmp_path / ours).touch()
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / ours).mkdir()
    for name in (".chimera-0123.tmp", f"x{ours}", f"{ours}x"):
        (tmp_path / name).touch()
    remove_left_overs(tmp_path, b"")
    remove_left_overs(tmp_path, b"d")
    remove_left_overs(tmp_path, b"missing")
    assert not (tmp_path / ours).exists()
    assert not (tmp_path / "d" / ours).exists()
    assert len(list(tmp_path.iterdir())) == 4
