from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chimera.workspace.output_buffer import SPOOL_BYTES, OutputBuffer


def kept(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.iterdir()]


def test_what_was_printed_at_once_is_never_written(tmp_path: Path) -> None:
    buffer = OutputBuffer(tmp_path)
    for chunk in (b"", b"hello", b""):
        buffer.add(chunk)
        assert kept(tmp_path) == []
    assert buffer.finish() == (b"hello", None)
    assert (buffer.size, kept(tmp_path)) == (5, [])


@pytest.mark.parametrize("pause", [OutputBuffer.keep, OutputBuffer.leave])
def test_what_came_before_a_pause_or_the_end_of_the_run_is_in_the_file(
    tmp_path: Path, pause: Callable[[OutputBuffer], None]
) -> None:
    buffer = OutputBuffer(tmp_path)
    buffer.add(b"hello")
    pause(buffer)
    assert kept(tmp_path) == [b"hello"]
    buffer.discard()


def test_what_comes_in_pieces_is_written_piece_by_piece(tmp_path: Path) -> None:
    buffer = OutputBuffer(tmp_path)
    buffer.add(b"one ")
    buffer.add(b"two ")
    assert kept(tmp_path) == [b"one two "]
    buffer.add(b"three")
    assert kept(tmp_path) == [b"one two three"]
    assert buffer.finish() == (b"one two three", None)
    assert kept(tmp_path) == []


def test_the_whole_of_a_long_output_is_in_the_file_and_no_more_than_its_most(tmp_path: Path) -> None:
    buffer = OutputBuffer(tmp_path)
    chunk = b"x" * (1 << 20)
    for _ in range(SPOOL_BYTES // len(chunk) + 2):
        buffer.add(chunk)
    _, path = buffer.finish()
    assert path is not None
    assert path.stat().st_size == SPOOL_BYTES


def test_a_pause_before_anything_was_printed_makes_no_file(tmp_path: Path) -> None:
    buffer = OutputBuffer(tmp_path)
    buffer.keep()
    buffer.leave()
    assert kept(tmp_path) == []


def test_a_place_that_is_not_there_costs_only_the_file(tmp_path: Path) -> None:
    buffer = OutputBuffer(tmp_path / "missing")
    buffer.add(b"one")
    buffer.add(b"two")
    assert buffer.finish() == (b"onetwo", None)
