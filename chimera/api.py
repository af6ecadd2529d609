"""`run`: a task, a workspace and settings become a recorded run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from chimera.config import ENVIRONMENT_PREFIX, Config, load_config, process_environment, state_dir
from chimera.core.model import Model
from chimera.core.recording import Past, answered
from chimera.core.state import RunResult, Stop, StopReason
from chimera.errors import (
    ChimeraError,
    ConfigError,
    ModelAuthError,
    RecordError,
    SandboxUnavailableError,
    UnknownPriceError,
    WorkspaceError,
    WorkspaceLockedError,
)
from chimera.models.choose import choose_model, has_price
from chimera.models.installed import refuse_bad_installation
from chimera.record.events import Emit, Event
from chimera.record.known_secrets import MASKED, make_redactor
from chimera.record.run_directory import find_run, last_run_in
from chimera.recording import Recording, read_recording
from chimera.session import Session, open_session
from chimera.tools.approval import Ask
from chimera.workspace.secret_values import credentials

_REASONS: dict[type[ChimeraError], StopReason] = {
    WorkspaceLockedError: StopReason.WORKSPACE_LOCKED,
    WorkspaceError: StopReason.USAGE_ERROR,
    UnknownPriceError: StopReason.COST_LIMIT,
    ConfigError: StopReason.USAGE_ERROR,
    ModelAuthError: StopReason.AUTH_ERROR,
    SandboxUnavailableError: StopReason.SANDBOX_UNAVAILABLE,
    RecordError: StopReason.STATE_UNWRITABLE,
}
_NO_PRICE = (
    "A cost limit is set, but the price of {!r} is unknown, so it cannot be kept. Run without --max-cost."
)
Watch = Callable[[Model], Model]
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
    past: Past | None = None,
    watch: Watch = lambda model: model,
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
        past: steps of the same task that were taken elsewhere, to go on from.
        watch: makes of the model that was chosen the one that is asked, to look at what passes between.
        **options: the fields of `chimera.config.Config`: workspace, window, max_steps, verify, mode, sandbox, ...
    """
    try:
        config = load_config({**options, "model": model if isinstance(model, str) else None})
        if not task.strip():
            raise ConfigError("the task is empty: say what is to be done")
        with _session(config, model, emit, watch, ask=ask, state=state, hidden=hidden) as session:
            return session.run(task, past)
    except EXPECTED as fault:
        return RunResult.of_stop(stop_of(fault, options))


def resume(
    run_id: str | None = None,
    message: str = "",
    *,
    model: str | Model | None = None,
    emit: Emit | None = None,
    ask: Ask | None = None,
    state: Path | None = None,
    compact: bool = False,
    **options: Any,
) -> RunResult:
    """Go on with an interrupted or finished run, in its own record, with its own settings and fresh limits.

    A call without a recorded result is never run again; the model is told that its effect is unknown.

    Args:
        run_id: the run, or the beginning of its id; None for the last one of the workspace.
        message: what you want to add; needed where the model has already answered.
        model: instead of the model of the run; needed where that was an object of a caller's own.
        emit: as for `run`.
        ask: as for `run`.
        state: as for `run`.
        compact: shorten the history before the first request, however small it is.
        **options: settings that replace those of the run; of `model_options` those that are named.
    """
    try:
        path, recording = _recorded(run_id, state or state_dir(), Path(options.get("workspace") or "."))
        recorded = _settings(recording)
        settings = {**recorded, **{name: value for name, value in options.items() if value is not None}}
        settings["model_options"] = {**recorded["model_options"], **(options.get("model_options") or {})}
        _forget_masked(settings)
        named = recording.model if model is None else model
        config = load_config({**settings, "model": named if isinstance(named, str) else None})
        if answered(recording.steps) and not message.strip():
            raise ConfigError(
                f"run {path.name} has its answer: say what is to be done next (chimera resume {path.name} MESSAGE)"
            )
        with _session(config, named, emit, ask=ask, state=state, earlier=path) as session:
            return session.resume(recording, message.strip(), compact=compact)
    except EXPECTED as fault:
        return RunResult.of_stop(stop_of(fault, options))


@contextmanager
def _session(
    config: Config,
    model: str | Model | None,
    emit: Emit | None,
    watch: Watch = lambda model: model,
    **surroundings: Any,
) -> Iterator[Session]:
    refuse_bad_installation()
    notices = Notices(emit)
    with ExitStack() as stack:
        if model is None or isinstance(model, str):
            chosen = choose_model(config, process_environment(), notify=notices, prepare=_preload_litellm)
            stack.callback(chosen.close)
            if config.max_cost is not None and not has_price(chosen.name):
                raise UnknownPriceError(_NO_PRICE.format(chosen.name))
            model = chosen
        session = stack.enter_context(open_session(config, watch(model), emit=emit, **surroundings))
        notices.emit = session.emit
        yield session


def _preload_litellm() -> None:
    from chimera.models.litellm_model import preload

    preload()


def _recorded(run_id: str | None, state: Path, workspace: Path) -> tuple[Path, Recording]:
    """The directory of the run that is meant, and what its record holds.

    Raises:
        ConfigError: there is none, or more than one, or it cannot be gone on from.
    """
    try:
        path = last_run_in(state, workspace.resolve()) if run_id is None else find_run(state, run_id)
        return path, read_recording(path)
    except RecordError as fault:
        raise ConfigError(str(fault)) from fault


def _settings(recording: Recording) -> dict[str, Any]:
    """The settings of the run, as far as they were given and are no secrets."""
    given = {name: value for name, value in recording.options.items() if value is not None}
    options = _without_masked(given.get("model_options", {}))
    return {**given, "model_options": options, "workspace": recording.workspace}


def _without_masked(options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _without_masked(value) if isinstance(value, Mapping) else value
        for name, value in options.items()
        if value != MASKED
    }


def _forget_masked(settings: dict[str, Any]) -> None:
    """Take out an address whose user and password the record does not hold: the environment may have it.

    Raises:
        ConfigError: it has not.
    """
    for name, value in list(settings.items()):
        if isinstance(value, str) and MASKED in credentials(value):
            del settings[name]
            variable = f"{ENVIRONMENT_PREFIX}{name.upper()}"
            if not process_environment().get(variable):
                raise ConfigError(
                    f"{name} of the run was {value!r}: user and password are not recorded, so give it again "
                    f"(--{name.replace('_', '-')}, or {variable})"
                )


class Notices:
    """Passes on what the model layer has to say (a retry, a parameter that a server refused) as warnings."""

    def __init__(self, emit: Emit | None) -> None:
        self.emit = emit

    def __call__(self, text: str) -> None:
        if self.emit is not None:
            self.emit(Event("warning", {"text": text}))


def stop_of(fault: ChimeraError, options: Mapping[str, Any]) -> Stop:
    """The stop that stands for one of the `EXPECTED` faults. No secret is in its message, of the options neither."""
    reason = next(reason for kind, reason in _REASONS.items() if isinstance(fault, kind))
    given, api_base = options.get("model_options"), options.get("api_base")
    redactor = make_redactor(
        process_environment(),
        options=given if isinstance(given, Mapping) else None,
        api_base=api_base if isinstance(api_base, str) else None,
    )
    return Stop(reason, message=redactor.text(str(fault)))
