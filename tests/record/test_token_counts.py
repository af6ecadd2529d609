from __future__ import annotations

import json
from pathlib import Path

import pytest

from chimera.record.token_counts import TokenCounts


def test_counts_are_there_for_the_next_run(tmp_path: Path) -> None:
    counts = TokenCounts(tmp_path)
    assert counts.get("a text\ud800") is None
    counts.put("a text\ud800", 3)
    counts.save()
    assert TokenCounts(tmp_path).get("a text\ud800") == 3
    assert "a text" not in (tmp_path / "token_counts.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"cl100k_base": 3}', '{"cl100k_base": {"k": "3"}}', "\x00"]
)
def test_a_damaged_file_is_no_knowledge_and_is_replaced(tmp_path: Path, content: str) -> None:
    (tmp_path / "token_counts.json").write_text(content, encoding="utf-8")
    counts = TokenCounts(tmp_path)
    assert counts.get("text") is None
    counts.put("text", 1)
    counts.save()
    assert TokenCounts(tmp_path).get("text") == 1


def test_what_was_not_used_for_long_makes_room(tmp_path: Path) -> None:
    for first in (0, 300):
        counts = TokenCounts(tmp_path)
        counts.get("0")
        for n in range(first, first + 300):
            counts.put(str(n), n)
        counts.save()
    kept = json.loads((tmp_path / "token_counts.json").read_text(encoding="utf-8"))["cl100k_base"]
    assert len(kept) == 400
    last = TokenCounts(tmp_path)
    assert (last.get("0"), last.get("1"), last.get("599")) == (0, None, 599)


def test_a_place_that_cannot_be_written_costs_only_the_memory(tmp_path: Path) -> None:
    counts = TokenCounts(tmp_path / "missing")
    counts.put("text", 1)
    counts.save()
