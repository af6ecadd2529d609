"""`run`: a task, a workspace and settings become a recorded run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chimera.config import load_config, process_environment
from chimera.core.model import Model
from chimera.core.state import RunResult, Stop, StopReason
from chimera.errors import (
    ChimeraError,
    ConfigError,
    ModelAuthError,
    RecordError,
    SandboxUnavailableError,
    WorkspaceError,
    WorkspaceLockedError,
)
from chimera.models.choose import choose_model, has_price, preload
from chimera.record.events import Emit, Event
from chimera.session import Ask, open_session

_REASONS: dict[type[ChimeraError], StopReason] = {
    WorkspaceLockedError: StopReason.WORKSPACE_LOCKED,
    WorkspaceError: StopReason.USAGE_ERROR,
    ConfigError: StopReason.USAGE_ERROR,
    ModelAuthError: StopReason.AUTH_ERROR,
    SandboxUnavailableError: StopReason.SANDBOX_UNAVAILABLE,
    RecordError: StopReason.STATE_UNWRITABLE,
}
_NO_PRICE = (
    "A cost limit is set, but the price of {!r} is unknown, so it cannot be kept. Run without --max-cost."
)
EXPECTED = tuple(_REASONS)
"""What may go wrong before the loop begins without being a bug."""


def run(
    task: str,
    *,
    model: str | Model | None = None,
    emit: Emit | None = None,
    ask: Ask | None = None,
    state: Path | None = None,
    hidden: Sequence[Path] = (),
    **options: Any,
) -> RunResult:
    """Work on a task in a workspace and return what came of it, with its record on disk.

    Every expected end is a result, never an exception: no key, no sandbox, no room, a limit.

    Args:
        task: what to do, in words. It stays in the prompt verbatim for the whole run.
        model: a model name, an object with the `Model` protocol, or None for the first provider that has a key.
        emit: called with each event as it happens.
        ask: decides on a call in the modes that ask; without it such calls are denied.
        state: where the run is recorded, instead of the user's state directory.
        hidden: existing folders that confined commands find empty.
        **options: the fields of `chimera.config.Config`: workspace, window, max_steps, verify, mode, sandbox, ...
    """
    try:
        config = load_config({**options, "model": model if isinstance(model, str) else None})
        if not task.strip():
            raise ConfigError("the task is empty: say what is to be done")
        notices = Notices(emit)
        if model is None or isinstance(model, str):
            model = choose_model(config, process_environment(), notify=notices)
            preload(model.name)
            if config.max_cost is not None and not has_price(model.name):
                return RunResult.of_stop(Stop(StopReason.COST_LIMIT, message=_NO_PRICE.format(model.name)))
        with open_session(config, model, emit=emit, ask=ask, state=state, hidden=hidden) as session:
            notices.emit = session.emit
            return session.run(task)
    except EXPECTED as fault:
        return RunResult.of_stop(stop_of(fault))


class Notices:
    """Passes on what the model layer has to say (a retry, a parameter that a server refused) as warnings."""

    def __init__(self, emit: Emit | None) -> None:
        self.emit = emit

    def __call__(self, text: str) -> None:
        if self.emit is not None:
            self.emit(Event("warning", {"text": text}))


def stop_of(fault: ChimeraError) -> Stop:
    """The stop that stands for one of the `EXPECTED` faults."""
    reason = next(reason for kind, reason in _REASONS.items() if isinstance(fault, kind))
    return Stop(reason, message=str(fault))
