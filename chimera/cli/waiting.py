"""A sign of life: a line that counts the seconds while a model thinks or a command runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

from chimera.cli.terminal import Terminal

_SILENCE_S = 4.0
"""After it a reply that has begun is taken for one that thinks on, or writes a call that is not shown."""


class Waiting:
    """The line. As a context it is rewritten every second, where the terminal can do that; else there is none.

    Args:
        terminal: where to.
        clock: in seconds.
        every_s: how often the line is rewritten.
    """

    def __init__(
        self, terminal: Terminal, *, clock: Callable[[], float] = time.monotonic, every_s: float = 1.0
    ) -> None:
        self._terminal = terminal
        self._clock = clock
        self._every_s = every_s
        self._text = ""
        self._since = 0.0
        self._heard = 0.0
        self._ticked = 0.0
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Waiting:
        if self._terminal.live:
            self._thread = threading.Thread(target=self._run, name="chimera-waiting", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def begin(self, text: str) -> None:
        """Wait for something from now on."""
        with self._terminal.lock:
            self._text, self._since, self._heard = text, self._clock(), 0.0
            self._ticked = self._since
            self._terminal.transient(text)

    def heard(self) -> None:
        """A piece of what is waited for has come."""
        with self._terminal.lock:
            self._heard = self._clock()

    def end(self) -> None:
        """It is there."""
        with self._terminal.lock:
            self._text = ""

    def tick(self) -> None:
        """Rewrite the line, unless text is arriving just now. While a person is asked, the time stands still."""
        with self._terminal.lock:
            now = self._clock()
            before, self._ticked = self._ticked, now
            if self._terminal.asking:
                self._since += now - before
                return
            if not self._text or (self._heard and now - self._heard < _SILENCE_S):
                return
            if (elapsed := now - self._since) >= 1:
                self._terminal.end_flow()
                self._terminal.transient(f"{_elapsed(elapsed)} · {self._text}")

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            self.tick()


def _elapsed(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02} s"
