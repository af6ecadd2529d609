"""The signals that ask this process to end, from its first instruction to its last.

The first one is raised as `Interrupted` where the process can end honestly, and waits where it cannot: while it starts,
while a record is written. Any further one only hurries the end and bounds it. Nothing is imported once a signal is here.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

GRACE_S = 5.0
"""Seconds that the end may still take after a second signal."""
EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143}
_NAMES = {int(number): number.name for number in EXIT_CODES}


class Interrupted(KeyboardInterrupt):
    """A signal asked the run to stop. Its argument is the signal's name."""


class _State:
    """What this process was asked, and where it is. Signals belong to a process, so there is one."""

    def __init__(self) -> None:
        self.first: int | None = None
        """The first signal."""
        self.waits = False
        """Nobody has acted upon it yet."""
        self.raising = 0
        self.shields = 0
        self.endings = 0
        self.bounded = False
        self.exit_code: int | None = None
        """Set once everything is done."""
        self.hurry: Callable[[], None] = lambda: None


_state = _State()


def install() -> None:
    """Take the signals of this process over. One that it was started to ignore (`nohup`) stays ignored."""
    for number in EXIT_CODES:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _receive)
    signal.signal(signal.SIGALRM, _give_up)
    sys.unraisablehook = _swallowed
    # While Python takes itself down it has no handlers any more, and a signal would kill it.
    atexit.register(signal.pthread_sigmask, signal.SIG_BLOCK, EXIT_CODES)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, EXIT_CODES)


def hurry_with(action: Callable[[], None]) -> None:
    """What is done to end sooner, on every signal but the first: it must raise nothing and import nothing."""
    _state.hurry = action


@contextmanager
def raising() -> Iterator[None]:
    """A block in which a signal is raised as `Interrupted`, one that came earlier at once."""
    _state.raising += 1
    try:
        check()
        yield
    finally:
        _state.raising -= 1


@contextmanager
def shielded() -> Iterator[None]:
    """A short block that a signal does not cut; it is raised behind it."""
    _state.shields += 1
    try:
        yield
    finally:
        _state.shields -= 1
    check()


@contextmanager
def ending() -> Iterator[None]:
    """A block that saves what there is. A signal makes it shorter, and is not raised behind it either."""
    _state.endings += 1
    try:
        yield
    finally:
        _state.endings -= 1


def check() -> None:
    """Raise what waits, or what somebody on the way has swallowed.

    Raises:
        Interrupted: there was a signal, and nobody has called `seen` since.
    """
    if _state.waits and _state.first is not None and _may_raise():
        raise Interrupted(_NAMES[_state.first])


def go_on() -> bool:
    """The signal stopped a part of the work and the process has more to do. False if it was asked more than once."""
    if _state.bounded:
        return False
    _state.first, _state.waits = None, False
    return True


def seen() -> None:
    """The signal has reached those who end the run."""
    _state.waits = False


def ended(exit_code: int) -> None:
    """Everything is done and told: from here on a signal only makes the process end at once, with this code."""
    _state.exit_code = exit_code


def _may_raise() -> bool:
    return _state.raising > 0 and not _state.shields and not _state.endings


def _receive(number: int, frame: FrameType | None) -> None:
    if _state.exit_code is not None:
        os._exit(_state.exit_code)
    if _state.first is None:
        _state.first, _state.waits = number, True
        check()
        if _state.endings:
            _state.hurry()
        return
    if not _state.bounded:
        _state.bounded = True
        signal.setitimer(signal.ITIMER_REAL, GRACE_S)
    _state.hurry()


def _give_up(number: int, frame: FrameType | None) -> None:
    os._exit(130 if _state.first is None else EXIT_CODES[signal.Signals(_state.first)])


def _swallowed(unraisable: sys.UnraisableHookArgs) -> None:
    """Raised where nothing can be raised, as in a destructor: the next `check` raises it again."""
    if unraisable.exc_type is not Interrupted:
        sys.__unraisablehook__(unraisable)
