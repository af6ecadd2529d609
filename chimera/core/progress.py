"""Is the run getting anywhere? Judged by calls *and* results: a poll whose result changes is progress."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct, field

Verdict = Literal["progress", "nudge", "stop"]

# Steps in a row that bring nothing new. Peers warn at 3 to 5 identical calls and stop at 5 to 12; we look at results
# too, so a nudge is rarer and surer.
STALE_NUDGE, STALE_STOP = 4, 8
FAILING_NUDGE, FAILING_STOP = 6, 10


class Progress(Struct):
    """What has been seen, and for how many steps nothing was new or nothing worked."""

    seen: set[int] = field(default_factory=set)
    news: int = -1
    """Of the ledger, when the results were last forgotten."""
    stale: int = 0
    failing: int = 0

    def judge(self, results: Iterable[tuple[str, str, str, bool]]) -> Verdict:
        """Judge one step by its calls: (tool name, arguments, result text, whether it succeeded)."""
        results = list(results)
        signatures = {hash(result) for result in results}
        self.stale = self.stale + 1 if signatures <= self.seen else 0
        self.failing = 0 if any(ok for *_, ok in results) else self.failing + 1
        self.seen |= signatures
        if self.stale >= STALE_STOP or self.failing >= FAILING_STOP:
            return "stop"
        if self.stale == STALE_NUDGE or self.failing == FAILING_NUDGE:
            return "nudge"
        return "progress"

    def forget(self, news: int) -> None:
        """After a compaction: asking again for what was taken out is no loop, once per compaction that had news."""
        if news != self.news:
            self.seen.clear()
        self.news = news
