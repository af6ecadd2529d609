"""A short run of the random edits of the benchmark, and proof that its reference sees a wrong byte."""

from __future__ import annotations

import pytest

from tests.benchmarks.edits import DifferenceError, Edit, check, run


def test_two_hundred_random_edits_change_nothing_outside_their_spans() -> None:
    kinds = run(200)
    assert kinds["applied"] >= 200
    assert all(kinds[kind] for kind in ("exact", "every", "ambiguous", "not found", "whitespace ignored"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(b"a\r\nb\r\n", b"a\nX\r\n", id="a line end before"),
        pytest.param(b"a\r\nb\r\n", b"a\r\nX\n", id="a line end behind"),
        pytest.param(b"\xef\xbb\xbfb", b"X", id="byte order mark"),
        pytest.param(b"\xe9b", b"\xef\xbf\xbdX", id="a byte that is no text"),
        pytest.param(b"\tb\n", b"    X\n", id="a tab"),
        pytest.param(b"b", b"X\n", id="a newline at the end"),
        pytest.param(b"b b", b"X b", id="ambiguous"),
    ],
)
def test_the_reference_sees_a_wrong_byte(before: bytes, after: bytes) -> None:
    with pytest.raises(DifferenceError):
        check(before, after, Edit(old="b", new="X", every=False))
