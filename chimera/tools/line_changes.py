"""What a change did to the lines of a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

# The exact comparison takes time with the product of the lengths; above this, moved lines count as unchanged.
_EXACT_PRODUCT = 4_000_000


def count_changes(before: Sequence[str], after: Sequence[str]) -> tuple[int, int, int]:
    """Lines added, lines removed, and the number of the first line that differs, counted from 1."""
    limit = min(len(before), len(after))
    head = next((n for n in range(limit) if before[n] != after[n]), limit)
    limit -= head
    tail = next((n for n in range(limit) if before[-1 - n] != after[-1 - n]), limit)
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    if len(old) * len(new) <= _EXACT_PRODUCT:
        blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
        same = sum(block.size for block in blocks)
    else:
        same = (Counter(old) & Counter(new)).total()
    return len(new) - same, len(old) - same, head + 1
