"""The surroundings of a run, opened in order and closed again whatever happens: lock, record, sandbox, snapshots."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from chimera import __version__, interruption
from chimera.attribution import LOOKING_TOOLS
from chimera.checkpoints import Checkpoints, listed, watched_approval
from chimera.config import Config, Mode, config_path, process_environment, state_dir
from chimera.core.agent import Agent, Verify, interrupted
from chimera.core.compaction import Compactor, compact
from chimera.core.context_budget import ContextBudget
from chimera.core.model import Model
from chimera.core.recording import Past
from chimera.core.state import FileSummary, Limits, RunResult, Stop, StopReason
from chimera.core.tokens import TokenCounter
from chimera.errors import ConfigError, RecordError
from chimera.instructions import Instructions, read_instructions
from chimera.profile import as_begun, choose_protocols, choose_tools, make_budget, system_text
from chimera.record.calibrations import load_calibration, save_calibration
from chimera.record.events import Emit, Event
from chimera.record.known_secrets import make_redactor, without_secrets
from chimera.record.redacted_events import RedactedEvents, redacted_result
from chimera.record.run_directory import RunDirectory, new_run_id
from chimera.record.token_counts import TokenCounts
from chimera.recording import Recording, read_recording
from chimera.tools.approval import Ask, TimedAsk
from chimera.tools.base import Tool, ToolSet
from chimera.tools.default import default_tools
from chimera.tools.foreign import Imported
from chimera.tools.imported import imported_tools
from chimera.tools.known_files import KnownFiles
from chimera.workspace.environment import child_environment
from chimera.workspace.git_disarm import Disarming
from chimera.workspace.governed import GovernedFiles
from chimera.workspace.hidden_secrets import about_secrets, hide_secrets
from chimera.workspace.lock import workspace_lock
from chimera.workspace.paths import Workspace
from chimera.workspace.process import CommandRunner
from chimera.workspace.repository import Repository, find_repository
from chimera.workspace.sandbox import Sandbox, open_sandbox

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
    earlier: Path | None = None,
    compactor: Compactor = compact,
) -> Iterator[Session]:
    """Open what a run needs; on exit everything is closed and commands still running are ended.

    Args:
        config: the settings.
        model: answers the requests.
        emit: called with each event.
        ask: decides on a call in the modes that ask.
        state: where the run is recorded, instead of the user's state directory.
        hidden: existing folders that confined commands find empty.
        earlier: the directory of a run that is taken up again, instead of a new one.
        compactor: how the history is shrunk.

    Raises:
        ChimeraError: one of the kinds that `chimera.api` turns into a stop reason.
    """
    home = state or state_dir()
    root = Workspace.open(config.workspace).root
    if home.resolve().is_relative_to(root):
        raise ConfigError(
            f"the state directory {str(home)!r} lies inside the workspace, where runs would change their own records: "
            "set CHIMERA_STATE_DIR to another place"
        )
    mode: Mode = config.mode or ("ask" if ask else "auto")
    sandbox = open_sandbox(
        "read-only" if mode == "plan" else config.sandbox,
        root,
        allow_net=config.allow_net,
        allow_git_write=config.allow_git_write,
        required=mode in {"auto", "plan"},
        environment=process_environment(),
    )
    run_id = earlier.name if earlier else new_run_id()
    with ExitStack() as stack:
        stack.enter_context(workspace_lock(home, root, run_id))
        imported = stack.enter_context(imported_tools(config, process_environment()))
        record = RunDirectory.reopen(earlier) if earlier else RunDirectory.create(home, run_id)
        stack.callback(record.close)
        sandbox = sandbox.narrowed(hidden=(*hidden, *_private_folders(home, root, sandbox)))
        if not config.allow_secret_files:
            sandbox = hide_secrets(sandbox, root, process_environment(), copies=record.path / "settings")
        record.redactor = make_redactor(
            process_environment(),
            options=config.model_options,
            api_base=config.api_base,
            workspace=root,
            further=imported.secrets,
        )
        if sandbox.guard is not None:
            sandbox.guard.disarm = Disarming(root=root, aside=record.path / "set_aside")
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
            repository=find_repository(root),
            record=record,
            sandbox=sandbox,
            runner=runner,
            events=RedactedEvents(record.redactor, record.emit, emit),
            governed=GovernedFiles(root, sandbox.guard.users_own if sandbox.guard else None),
            imported=imported,
            ask=ask,
            compactor=compactor,
        )


class Session(Struct, frozen=True, kw_only=True):
    """An opened workspace with its record."""

    config: Config
    model: Model
    mode: Mode
    home: Path
    workspace: Workspace
    repository: Repository | None
    record: RunDirectory
    sandbox: Sandbox
    runner: CommandRunner
    events: RedactedEvents
    governed: GovernedFiles
    imported: Imported
    ask: Ask | None
    compactor: Compactor

    def run(self, task: str, past: Past | None = None) -> RunResult:
        """Run the loop on a task, from its start or from steps of another record, and record its end, a crash included."""
        checkpoints = Checkpoints(self.home, self.workspace.root, self.record.run_id, tell=self._tell)
        return self._run(task, past, checkpoints)

    def resume(self, recording: Recording, message: str, *, compact: bool = False) -> RunResult:
        """Go on with what this record holds. What changed is counted from the start of its first part."""
        recording = self._with_left_over(recording)
        if recording.interrupted and self.sandbox.guard is not None and recording.git_entries is not None:
            self.sandbox.guard.take_up(recording.git_entries)
        checkpoints = Checkpoints(
            self.home,
            self.workspace.root,
            self.record.run_id,
            earlier=recording.marks,
            interrupted=recording.interrupted,
            tell=self._tell,
        )
        past = Past(
            steps=recording.steps,
            first_message=recording.first_message,
            message=message,
            compact=compact,
            changes=_lately_text(checkpoints.lately) if recording.marks else "",
        )
        return self._run(recording.task, past, checkpoints)

    def _with_left_over(self, recording: Recording) -> Recording:
        """The recording with what a call had printed in which the run was killed: kept now, and in the record from now on."""
        name, call = self.record.keep_left_over(), recording.lost
        if name is None or call is None:
            return recording
        size = self.record.output(name).stat().st_size
        about = {"step": len(recording.steps), "id": call.id, "name": call.name}
        self.record.emit(Event("tool_interrupted", {**about, "bytes": size, "output_file": name}))
        return read_recording(self.record.path)

    def _run(self, task: str, past: Past | None, checkpoints: Checkpoints) -> RunResult:
        budget = make_budget(self.config, self.model, load_calibration(self.home, self.model.name))
        counts = TokenCounts(self.home)
        counter = TokenCounter(counts)
        quoted = read_instructions(self.workspace.root, budget, self.record.redactor, counter)
        notices = tuple(filter(None, (*self._notices(), *quoted.notices, *checkpoints.notices)))
        agent = self._agent(budget, counter, quoted, checkpoints, notices)
        if self.config.max_seconds is not None:
            self.runner.ends_at = self.imported.deadline.ends_at = time.monotonic() + self.config.max_seconds
        result = RunResult.of_stop(Stop(StopReason.INTERNAL_ERROR, message="chimera itself failed"))
        try:
            result = agent.run(task, past)
        except KeyboardInterrupt as signal:  # so early or late that the loop could not see it
            result = RunResult.of_stop(interrupted(signal))
        finally:
            with interruption.ending():
                result = self._finish(result, checkpoints, notices)
        counts.save()
        if result.calibration is not None:
            save_calibration(self.home, self.model.name, result.calibration)
        return result

    def _finish(self, result: RunResult, checkpoints: Checkpoints, notices: tuple[str, ...]) -> RunResult:
        """End what still runs, see what changed, and record the end. A further interruption only cuts this short."""
        files: tuple[FileSummary, ...] = ()
        late: list[str] = []
        try:
            self.runner.close()
            if checkpoint := checkpoints.take():
                self.emit(checkpoint)
            files = checkpoints.files_changed()
            checkpoints.drop_old_runs()
        except KeyboardInterrupt:
            late.append("Interrupted while the run was ending: what it changed is not listed.")
        except RecordError as fault:
            late.append(str(fault))
        late += self.runner.notes
        if changed := self.governed.reported:
            late.append(_governed_text(changed))
        result = replace(
            result,
            run_id=self.record.run_id,
            run_dir=str(self.record.path),
            files_changed=files,
            warnings=tuple(dict.fromkeys((*notices, *checkpoints.notices, *result.warnings, *late))),
        )
        result = redacted_result(result, self.record.redactor)
        try:
            unsaved = {"unsaved": True} if checkpoints.unsaved else {}
            self.emit(Event("run_finished", {**result.fields(), **unsaved}))
        except RecordError as fault:
            return replace(
                result, warnings=(*result.warnings, f"The end of the run is not recorded: {fault}")
            )
        return result

    def _agent(
        self,
        budget: ContextBudget,
        counter: TokenCounter,
        quoted: Instructions,
        checkpoints: Checkpoints,
        notices: tuple[str, ...],
    ) -> Agent:
        known = KnownFiles()
        tools = default_tools(self.workspace, self.runner, known=known)
        ask = TimedAsk(self.ask) if self.ask else None
        config = as_begun(self.config, takes_tools=getattr(self.model, "takes_tools", None))
        return Agent(
            model=self.model,
            tools=ToolSet(
                choose_tools((*tools, *self.imported.tools), config),
                approve=watched_approval(
                    checkpoints, self.emit, self.mode, ask=ask, workspace=self.workspace
                ),
                redactor=self.record.redactor,
            ),
            workspace=self.workspace,
            budget=budget,
            counter=counter,
            limits=Limits(
                max_steps=self.config.max_steps,
                max_cost=self.config.max_cost,
                max_seconds=self.config.max_seconds,
            ),
            files=self.record,
            known=known,
            verify=self._verify(tools, checkpoints),
            system=system_text(config) + quoted.text,
            protocols=choose_protocols(config),
            emit=lambda event: self._pass_on(event, quoted, checkpoints, notices),
            compactor=self.compactor,
            meanwhile=lambda: self._begin_snapshots(checkpoints),
            waited=lambda: ask.waited_s if ask else 0.0,
        )

    def _begin_snapshots(self, checkpoints: Checkpoints) -> None:
        for event in checkpoints.begin():
            self.emit(event)

    def _verify(self, tools: tuple[Tool, ...], checkpoints: Checkpoints) -> Verify | None:
        command = self.config.verify
        if command is None:
            return None
        shell = ToolSet(
            [tool for tool in tools if tool.name == "shell"],
            approve=watched_approval(checkpoints, self.emit, "yolo"),
            redactor=self.record.redactor,
        )
        call = json.dumps({"command": command, "timeout_s": VERIFY_TIMEOUT_S})
        return Verify(command=command, run=lambda: shell.run("shell", call))

    def _pass_on(
        self, event: Event, quoted: Instructions, checkpoints: Checkpoints, notices: tuple[str, ...]
    ) -> None:
        """Pass an event on: the first one with where and how, and before requests a snapshot of what changed."""
        if event.type == "prompt":
            if checkpoint := checkpoints.take():
                self.emit(checkpoint)
            checkpoints.step = event.fields["step"]
        elif event.type == "tool_started":  # by a model that did not tell when its request had left
            self._begin_snapshots(checkpoints)
        if event.type != "run_started":
            self.emit(event)
            changing = event.type == "tool_finished" and event.fields["name"] not in LOOKING_TOOLS
            for text in self._noticed() if changing else ():
                self.emit(Event("warning", {"text": text}))
            return
        about = {**self._about(), **quoted.fields()}
        self.emit(Event("run_started", {**event.fields, **about}))
        if checkpoints.taken_up is not None:
            self.emit(checkpoints.taken_up)
        for text in notices:
            self.emit(Event("warning", {"text": text}))

    def _noticed(self) -> Iterator[str]:
        """What the last call did to repositories, and to files that other programs obey."""
        yield from self.runner.fresh_notes()
        if names := self.governed.changed():
            yield _governed_text(names)

    def _about(self) -> dict[str, Any]:
        return {
            "run_id": self.record.run_id,
            "version": __version__,
            "workspace": str(self.workspace.root),
            "start_commit": self.repository.start_commit if self.repository else None,
            **self.governed.git_entries(),
            "mode": self.mode,
            "sandbox": {
                "level": self.sandbox.level,
                "backend": self.sandbox.backend,
                "missing": list(self.sandbox.missing),
            },
            "options": _recordable(self.config),
        }

    def _tell(self, text: str) -> None:
        self.emit(Event("progress", {"text": text}))

    def emit(self, event: Event) -> None:
        """Record an event and pass it to the listener, without secrets."""
        self.events(event)

    def _notices(self) -> tuple[str, ...]:
        """What the user should know before the first step."""
        notices = [self.record.repair]
        if (self.workspace.root / ".chimera.toml").exists():
            notices.append(".chimera.toml is not read: nothing in a repository configures chimera.")
        if self.repository is None:
            notices.append("Not a git repository: the run works, and its own record shows what it changed.")
        if self.config.sandbox != "danger-full-access":
            notices += [f"Sandbox: {loss}" for loss in self.sandbox.missing]
            notices.append(
                about_secrets(self.sandbox, self.workspace.root, shown=self.config.allow_secret_files)
            )
        notices += (*self.imported.notices, *self.runner.fresh_notes())
        return tuple(notices)


def _private_folders(home: Path, root: Path, sandbox: Sandbox) -> tuple[Path, ...]:
    """Folders of chimera itself that no command needs to see: records, and snapshots of other workspaces."""
    if sandbox.backend != "bwrap":
        return ()
    folders = (home, config_path(process_environment()).parent)
    return tuple(place for place in folders if place.is_dir() and not root.is_relative_to(place.resolve()))


def _lately_text(names: Sequence[str]) -> str:
    """What the model is told of a call whose result was lost."""
    if not names:
        return "No recorded file was changed since the last snapshot; ignored files are not recorded."
    return f"Changed since the last snapshot, by this call or by the user: {listed(names)}."


def _governed_text(names: Sequence[str]) -> str:
    return f"Changed: {', '.join(names)}. Other programs obey what is in there: look at it before you run them here."


def _recordable(config: Config) -> dict[str, Any]:
    """The settings as JSON values, without secrets."""
    paths = {name: str(path) for name in ("workspace", "mcp", "openapi") if (path := getattr(config, name))}
    values = asdict(config) | paths
    return {name: without_secrets("", value) for name, value in values.items()}
