from datetime import UTC, datetime

import pytest

from chimera.core.messages import user
from chimera.core.model import Completion, Request
from chimera.errors import ContextOverflowError, ModelAuthError, ModelError
from chimera.models.retry import RetryingModel
from chimera.models.scripted import Reply, ScriptedModel, error, text


class Retrying:
    """A retrying model over a script, with its waits and notices written down."""

    def __init__(self, *replies: Reply, attempts: int = 6) -> None:
        self.slept: list[float] = []
        self.bounds: list[tuple[float, float]] = []
        self.told: list[str] = []
        self.script = ScriptedModel(replies, window=77, name="inner")
        self.model = RetryingModel(
            self.script,
            attempts=attempts,
            on_retry=self.told.append,
            sleep=self.slept.append,
            uniform=self._most,
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
        )

    def _most(self, low: float, high: float) -> float:
        self.bounds.append((low, high))
        return high

    def complete(self) -> Completion:
        return self.model.complete(Request(messages=(user("x"),), max_tokens=1), lambda _: None)


@pytest.mark.case("E4")
def test_a_fault_that_passes_is_waited_for() -> None:
    run = Retrying(error("throttle", retry_after_s=2), error("server"), text("there"))
    assert run.complete().message.content == "there"
    assert run.slept == [2, 4]
    assert "attempt 2 of 6 in 2 s" in run.told[0]


def test_waits_without_advice_are_random_and_grow_up_to_a_minute() -> None:
    run = Retrying(*[error("server", "down")] * 8, attempts=8)
    with pytest.raises(ModelError, match=r"down \(tried 8 times\)"):
        run.complete()
    assert run.bounds == [(1, 2), (1, 4), (1, 8), (1, 16), (1, 32), (1, 60), (1, 60)]


def test_the_last_error_tells_how_often_it_was_tried() -> None:
    run = Retrying(*[error("server", "down")] * 9)
    with pytest.raises(ModelError, match=r"down \(tried 6 times\)") as caught:
        run.complete()
    assert caught.value.retryable
    assert len(run.script.requests) == 6
    assert len(run.slept) == 5


@pytest.mark.case("E4")
def test_a_long_wait_is_not_waited_for_and_its_end_is_told() -> None:
    run = Retrying(error("throttle", "busy", retry_after_s=11_000))
    with pytest.raises(ModelError, match=r"busy The provider asks to wait 11000 s, until \d{4}-") as caught:
        run.complete()
    assert caught.value.retry_after_s == 11_000
    assert run.slept == []


def test_a_wait_of_exactly_the_limit_is_waited_for() -> None:
    run = Retrying(error("throttle", retry_after_s=300), text("a"))
    run.complete()
    assert run.slept == [300]


@pytest.mark.parametrize(
    ("reply", "kind"), [(error("overflow"), ContextOverflowError), (error("auth"), ModelAuthError)]
)
def test_what_no_retry_can_help_is_raised_at_once(reply: Reply, kind: type[ModelError]) -> None:
    run = Retrying(reply, text("never"))
    with pytest.raises(kind):
        run.complete()
    assert (len(run.script.requests), run.slept) == (1, [])


def test_name_and_window_are_those_of_the_model() -> None:
    run = Retrying()
    assert run.model.name == "inner"
    assert run.model.window == run.script.window


@pytest.mark.parametrize("wait", [0.0, -1.0, 1_764_497_253_000.0, 1e30, float("inf")])
def test_a_wait_that_is_none_or_a_moment_in_disguise_is_no_advice(wait: float) -> None:
    run = Retrying(error("throttle", retry_after_s=wait), text("there"))
    assert run.complete().message.content == "there"
    assert run.slept == [2]
