"""Retries: the only layer that repeats a request. What is worth repeating is decided in `faults`."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from chimera.core.model import Completion, Model, OnText, Request, Window
from chimera.errors import ModelError

DEFAULT_ATTEMPTS = 6
MAX_WAIT_S = 300.0
"""A provider that asks for a longer wait is not waited for."""
_LONGEST_S = 366 * 86_400.0
"""A longer wait is no wait but a moment, or nonsense; none at all is no advice either."""
_BACKOFF_FIRST_S, _BACKOFF_MOST_S = 1.0, 60.0


def _silent(_: str) -> None:
    pass


def _nothing() -> None:
    pass


class RetryingModel:
    """A model that repeats a request whose `ModelError` says that it may succeed later."""

    def __init__(
        self,
        model: Model,
        *,
        attempts: int = DEFAULT_ATTEMPTS,
        on_retry: Callable[[str], None] = _silent,
        on_close: Callable[[], None] = _nothing,
        name: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
        uniform: Callable[[float, float], float] = random.uniform,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Nothing is asked here.

        Args:
            model: answers the requests.
            attempts: requests at most.
            on_retry: told before each further one.
            on_close: gives up what the model keeps between requests.
            name: another than the model's own.
            sleep: how a wait is spent.
            uniform: draws the length of a wait.
            now: for waits that are told as a time.
        """
        self._model = model
        self._name = name or model.name
        self._attempts = attempts
        self._on_retry = on_retry
        self._on_close = on_close
        self._sleep = sleep
        self._uniform = uniform
        self._now = now

    @property
    def name(self) -> str:
        return self._name

    @property
    def takes_tools(self) -> bool | None:
        """Whether the model's template has a place for tools; None where nobody says."""
        able: bool | None = getattr(self._model, "takes_tools", None)
        return able

    @property
    def window(self) -> Window | None:
        return self._model.window

    def complete(self, request: Request, on_text: OnText) -> Completion:
        """As the model, with up to `attempts` requests. A partial reply is dropped whole.

        Raises:
            ModelError: the last error, told with the number of attempts; at once where no retry can help.
        """
        for attempt in range(1, self._attempts + 1):
            try:
                return self._model.complete(request, on_text)
            except ModelError as error:
                if not error.retryable:
                    raise
                self._wait(error, attempt)
        raise AssertionError("unreachable: the last attempt raises")

    def close(self) -> None:
        """Give up what the model keeps between requests."""
        self._on_close()

    def _wait(self, error: ModelError, attempt: int) -> None:
        """Sleep before the next attempt, or raise for good."""
        asked = error.retry_after_s
        if asked is not None and not 0 < asked <= _LONGEST_S:
            asked = None
        if asked is not None and asked > MAX_WAIT_S:
            until = (self._now() + timedelta(seconds=asked)).astimezone().isoformat(timespec="seconds")
            raise ModelError(
                f"{error} The provider asks to wait {asked:.0f} s, until {until}: resume the run then.",
                retryable=True,
                retry_after_s=asked,
            ) from error
        if attempt >= self._attempts:
            tries = "once" if attempt == 1 else f"{attempt} times"
            raise ModelError(f"{error} (tried {tries})", retryable=True, retry_after_s=asked) from error
        most = min(_BACKOFF_MOST_S, _BACKOFF_FIRST_S * 2**attempt)
        wait = asked if asked is not None else self._uniform(_BACKOFF_FIRST_S, most)
        self._on_retry(f"{error}; attempt {attempt + 1} of {self._attempts} in {wait:.0f} s")
        self._sleep(wait)
