"""The first request of a run leaves before its task is counted, and everything is recorded as if it had been."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chimera.core import tokens
from chimera.core.tokens import TokenCounter
from chimera.testing import call, error, text
from tests.core.bench import Bench

TASK = "Say where the heron is."


class Known:
    """Every text has been counted by an earlier run: by a counter that keeps this one's vocabulary unloaded."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def get(self, text: str) -> int | None:
        return self.counts.get(text)

    def put(self, text: str, tokens: int) -> None:
        self.counts[text] = tokens


@pytest.fixture
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Known]:
    known = Known()
    Bench(tmp_path_factory.mktemp("earlier")).run([text("x")], task=TASK, counter=TokenCounter(known))
    tokens._encoder.cache_clear()
    tokens._count.cache_clear()
    yield known
    tokens._encoder.cache_clear()


def prompts_of(bench: Bench) -> list[object]:
    return [event.fields for event in bench.events if event.type == "prompt"]


def test_the_request_is_sent_before_the_vocabulary_is_there(tmp_path: Path, known: Known) -> None:
    seen: list[bool] = []
    result = Bench(tmp_path).run(
        [text("there")],
        task=TASK,
        counter=TokenCounter(known),
        meanwhile=lambda: seen.append(TokenCounter().ready),
    )
    assert (result.answer, seen) == ("there", [False])
    assert TokenCounter().ready


def test_the_record_is_that_of_a_run_that_counted_first(tmp_path: Path, known: Known) -> None:
    script = [call("shell", command="true"), text("there")]
    late, early = (Bench(tmp_path / name) for name in _folders(tmp_path))
    late_result = late.run(script, task=TASK, counter=TokenCounter(known))
    early_result = early.run(script, task=TASK)
    assert prompts_of(late) == prompts_of(early)
    assert late_result.context == early_result.context
    kinds = [event.type for event in late.events]
    assert kinds.index("prompt") < kinds.index("text" if "text" in kinds else "completion")
    # Until it is counted a task stands for its bytes, and the first reply may be so much shorter.
    less = early.requests[0].max_tokens - late.requests[0].max_tokens
    assert 0 < less <= len(TASK)
    assert early.requests[1].max_tokens == late.requests[1].max_tokens


def test_a_request_that_came_to_nothing_is_recorded_as_well(tmp_path: Path, known: Known) -> None:
    bench = Bench(tmp_path)
    result = bench.run([error("auth", "no key")], task=TASK, counter=TokenCounter(known))
    assert str(result.stop_reason) == "auth_error"
    assert len(prompts_of(bench)) == 1


@pytest.mark.parametrize("window", [3_000, 6_000])
def test_a_task_that_might_not_fit_is_counted_first(tmp_path: Path, known: Known, window: int) -> None:
    bench = Bench(tmp_path)
    bench.run([text("there")], task=f"{window}: " + TASK * 20, window=window, counter=TokenCounter(known))
    assert TokenCounter().ready
    assert all(r.max_tokens > 0 for r in bench.requests)


def _folders(tmp_path: Path) -> Iterator[str]:
    for name in ("late", "early"):
        (tmp_path / name).mkdir()
        yield name
