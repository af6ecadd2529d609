"""What the two ways of searching have in common."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Protocol, Self

from msgspec import Struct

from chimera.workspace.paths import Place


class Query(Struct, frozen=True, kw_only=True):
    """What is looked for. An empty pattern lists files; an empty glob takes all."""

    pattern: str
    place: Place
    glob: str

    def globs(self) -> list[str]:
        """The glob, and where a folder is searched also the glob below that folder."""
        if not self.glob:
            return []
        inner = self.glob.removeprefix("!").lstrip("/")
        if self.place.name == "." or "/" not in inner:
            return [self.glob]
        sign = "!" if self.glob.startswith("!") else ""
        return [self.glob, f"{sign}/{self.place.name.removeprefix('./')}/{inner}"]


class Hit(Struct, frozen=True, kw_only=True):
    """One line that matches."""

    name: str
    line: int
    column: int
    """Where in `text` the first match begins, counted from 0."""
    text: str
    """The line without its end; of a very long one the part around the match."""


class Deadline:
    """The end of the time for one search. Calls what was registered when it passes."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until = time.monotonic() + seconds
        self._timers: list[threading.Timer] = []

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self._until

    def call(self, action: Callable[[], None]) -> None:
        """Call `action` when the time is up, in another thread."""
        timer = threading.Timer(max(0.0, self._until - time.monotonic()), action)
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for timer in self._timers:
            timer.cancel()


class Searcher(Protocol):
    """Finds in path order and stops early when the deadline passes.

    Both raise `ToolError` for a pattern or glob that cannot be understood.
    """

    def hits(self, query: Query, deadline: Deadline) -> Iterator[Hit]: ...

    def files(self, query: Query, deadline: Deadline) -> Iterator[tuple[str, int]]:
        """Names and sizes in bytes."""
        ...
