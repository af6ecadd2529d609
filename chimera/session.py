"""The surroundings of a run, opened in order and closed again whatever happens: lock, record, sandbox, snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from chimera import __version__
from chimera.config import Config, Mode, process_environment, state_dir
from chimera.core.agent import Agent, Verify
from chimera.core.context_budget import (
    DEFAULT_BUDGET_FRACTION,
    DEFAULT_KEEP_TURNS,
    DEFAULT_TRIGGER_FRACTION,
    ContextBudget,
)
from chimera.core.model import Model
from chimera.core.state import FileSummary, Limits, RunResult, Stop, StopReason
from chimera.core.tokens import Calibration
from chimera.errors import ConfigError, WorkspaceError
from chimera.models.choose import resolve_window
from chimera.record.calibrations import load_calibration, save_calibration
from chimera.record.events import Emit, Event
from chimera.record.run_directory import RunDirectory, new_run_id
from chimera.tools.approval import approval
from chimera.tools.base import Tool, ToolSet
from chimera.tools.default import default_tools
from chimera.tools.known_files import KnownFiles
from chimera.tools.schema_compact import compact_schema
from chimera.workspace.checkpoint import ShadowRepository
from chimera.workspace.environment import child_environment, is_secret_name
from chimera.workspace.lock import workspace_lock
from chimera.workspace.paths import Workspace
from chimera.workspace.process import CommandRunner
from chimera.workspace.repository import find_repository
from chimera.workspace.sandbox import Sandbox, open_sandbox

Ask = Callable[[Tool, Mapping[str, Any]], bool]
"""Shows a call to the user and returns whether it may run."""

VERIFY_TIMEOUT_S = 600


@contextmanager
def open_session(
    config: Config,
    model: Model,
    *,
    emit: Emit | None = None,
    ask: Ask | None = None,
    state: Path | None = None,
    hidden: Sequence[Path] = (),
) -> Iterator[Session]:
    """Open what a run needs; on exit everything is closed and commands still running are ended.

    Args:
        config: the settings.
        model: answers the requests.
        emit: called with each event.
        ask: decides on a call in the modes that ask.
        state: where the run is recorded, instead of the user's state directory.
        hidden: existing folders that confined commands find empty.

    Raises:
        ChimeraError: one of the kinds that `chimera.api` turns into a stop reason.
    """
    home = state or state_dir()
    root = Workspace.open(config.workspace).root
    mode: Mode = config.mode or ("ask" if ask else "auto")
    sandbox = open_sandbox(
        "read-only" if mode == "plan" else config.sandbox,
        root,
        allow_net=config.allow_net,
        allow_git_write=config.allow_git_write,
        required=mode in {"auto", "plan"},
        environment=process_environment(),
    ).narrowed(hidden=hidden)
    run_id = new_run_id()
    with ExitStack() as stack:
        stack.enter_context(workspace_lock(home, root, run_id))
        record = RunDirectory.create(home, run_id)
        stack.callback(record.close)
        runner = CommandRunner(
            root=root,
            sandbox=sandbox,
            environment=child_environment(process_environment()),
            spool_dir=record.spool,
        )
        stack.callback(runner.close)
        yield Session(
            config=config,
            model=model,
            mode=mode,
            home=home,
            workspace=Workspace.open(root, run_dir=record.path),
            record=record,
            sandbox=sandbox,
            runner=runner,
            listener=emit,
            ask=ask,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """An opened workspace with its record."""

    config: Config
    model: Model
    mode: Mode
    home: Path
    workspace: Workspace
    record: RunDirectory
    sandbox: Sandbox
    runner: CommandRunner
    listener: Emit | None
    ask: Ask | None

    def run(self, task: str) -> RunResult:
        """Run the loop on a task and record its end, a crash included."""
        start = _Start.of(self.home, self.workspace.root)
        warnings = (*start.notices, *self._sandbox_notices())
        agent = self._agent(start, warnings)
        result = RunResult.of_stop(Stop(StopReason.INTERNAL_ERROR, message="chimera itself failed"))
        try:
            result = agent.run(task)
        finally:
            self.runner.close()
            result = replace(
                result,
                run_id=self.record.run_id,
                run_dir=str(self.record.path),
                warnings=(*warnings, *result.warnings),
                files_changed=self._changes(start),
            )
            self.emit(Event("run_finished", result.fields()))
        if result.context is not None:
            save_calibration(self.home, self.model.name, Calibration(result.context.calibration))
        return result

    def _agent(self, start: _Start, warnings: tuple[str, ...]) -> Agent:
        known = KnownFiles()
        tools = default_tools(self.workspace, self.runner, known=known)
        return Agent(
            model=self.model,
            tools=ToolSet(choose_tools(tools, self.config), approve=approval(self.mode, self.ask)),
            workspace=self.workspace,
            budget=make_budget(self.config, self.model, load_calibration(self.home, self.model.name)),
            limits=Limits(
                max_steps=self.config.max_steps,
                max_cost=self.config.max_cost,
                max_seconds=self.config.max_seconds,
            ),
            files=self.record,
            known=known,
            verify=self._verify(tools),
            emit=lambda event: self._introduce(event, start, warnings),
        )

    def _verify(self, tools: tuple[Tool, ...]) -> Verify | None:
        command = self.config.verify
        if command is None:
            return None
        (shell,) = (tool for tool in tools if tool.name == "shell")
        return lambda: shell.run(command=command, timeout_s=VERIFY_TIMEOUT_S)

    def _introduce(self, event: Event, start: _Start, warnings: tuple[str, ...]) -> None:
        """Pass an event on; the first one says where and how, too, and the notices follow it."""
        if event.type != "run_started":
            self.emit(event)
            return
        about = {
            "run_id": self.record.run_id,
            "version": __version__,
            "workspace": str(self.workspace.root),
            "start_commit": start.commit,
            "start_tree": start.tree,
            "mode": self.mode,
            "sandbox": {
                "level": self.sandbox.level,
                "backend": self.sandbox.backend,
                "missing": list(self.sandbox.missing),
            },
            "options": _recordable(self.config),
        }
        self.emit(Event("run_started", {**event.fields, **about}))
        for text in warnings:
            self.emit(Event("warning", {"text": text}))

    def emit(self, event: Event) -> None:
        """Record an event and pass it to the listener."""
        self.record.emit(event)
        if self.listener is not None:
            self.listener(event)

    def _sandbox_notices(self) -> tuple[str, ...]:
        if self.sandbox.backend == "none" and self.config.sandbox != "danger-full-access":
            return self.sandbox.missing
        return ()

    def _changes(self, start: _Start) -> tuple[FileSummary, ...]:
        if start.shadow is None or start.tree is None:
            return ()
        snapshot = start.shadow.snapshot()
        self.emit(Event("checkpoint", {"tree": snapshot.tree, "omitted": list(snapshot.omitted)}))
        changes = start.shadow.changes(start.tree, snapshot.tree)
        return tuple(FileSummary(path=c.path, added=c.added, removed=c.removed) for c in changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """The workspace as the run found it."""

    commit: str | None
    shadow: ShadowRepository | None = None
    tree: str | None = None
    notices: tuple[str, ...] = ()

    @classmethod
    def of(cls, home: Path, root: Path) -> _Start:
        repository = find_repository(root)
        notices = (
            ()
            if repository
            else ("Not a git repository: the run works, but only its own record shows changes.",)
        )
        commit = repository.start_commit if repository else None
        shadow = ShadowRepository(home, root)
        try:
            tree = shadow.snapshot().tree
        except WorkspaceError as fault:
            return cls(commit=commit, notices=(*notices, f"No snapshot, so no list of changes: {fault}"))
        return cls(commit=commit, shadow=shadow, tree=tree, notices=notices)


def make_budget(config: Config, model: Model, calibration: Calibration) -> ContextBudget:
    """The context budget that the settings and the model give."""
    return ContextBudget(
        window=resolve_window(config, model),
        fraction=config.budget_fraction or DEFAULT_BUDGET_FRACTION,
        trigger_fraction=config.trigger or DEFAULT_TRIGGER_FRACTION,
        keep_turns=config.keep_turns or DEFAULT_KEEP_TURNS,
        mode=config.compaction,
        calibration=calibration,
    )


def choose_tools(tools: tuple[Tool, ...], config: Config) -> tuple[Tool, ...]:
    """The tools that the settings ask for, their schemas compacted if they ask for that.

    Raises:
        ConfigError: a name that is no tool.
    """
    if config.tools is not None:
        known = {tool.name for tool in tools}
        if unknown := [name for name in config.tools if name not in known]:
            raise ConfigError(
                f"there is no tool named {unknown[0]!r}; the tools are: {', '.join(sorted(known))}"
            )
        tools = tuple(tool for tool in tools if tool.name in config.tools)
    if config.compact_schemas:
        tools = tuple(
            replace(t, parameters=compact_schema(t.schema())["function"]["parameters"]) for t in tools
        )
    return tools


def _recordable(config: Config) -> dict[str, Any]:
    """The settings as JSON values, without secrets."""
    values = asdict(config) | {"workspace": str(config.workspace)}
    options = {k: "***" if is_secret_name(k) else v for k, v in config.model_options.items()}
    return values | {"model_options": options}
