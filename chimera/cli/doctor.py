"""`chimera doctor`: what works here, found out by trying."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from msgspec import Struct

from chimera import __version__
from chimera.cli import options
from chimera.cli.cells import one_line
from chimera.cli.output import Output
from chimera.cli.terminal import Span, Terminal
from chimera.config import Config, load_config, process_environment, state_dir

if TYPE_CHECKING:
    from chimera.core.state import StopReason
    from chimera.workspace.escapes import Trial

_VERSION_TIMEOUT_S = 10.0
_LABEL_CELLS = 10
_VERDICT_CELLS = 9


def doctor(
    ctx: typer.Context,
    model: options.Model = None,
    api_base: options.ApiBase = None,
    window: options.Window = None,
    output_format: Annotated[
        Literal["text", "json"], typer.Option(help="Of the report.", rich_help_panel=options.OUTPUT)
    ] = "text",
) -> int:
    """Try what works here: model, keys, window, git, state directory, and the sandbox by escaping from it.

    Ends with 0 if an unattended run would start in this folder, whatever its model, else with the code it would stop with.
    """
    output: Output = ctx.obj
    config = load_config({"model": model, "api_base": api_base, "window": window})
    found = _Findings.of(config)
    if output_format == "json":
        output.json(found.fields())
    else:
        _show(Terminal(output.stdout, output.environment), found)
    return found.exit_code


class _Findings(Struct, frozen=True, kw_only=True):
    """All that was found out."""

    keys: tuple[str, ...]
    servers: tuple[Mapping[str, str], ...]
    local: Mapping[str, Any]
    """What runs a model file, and the files that have a name."""
    model: Mapping[str, Any]
    programs: Mapping[str, Mapping[str, str] | None]
    state: Path
    litellm: str | None
    trials: tuple[Trial, ...]
    backend: str
    missing: tuple[str, ...]
    problems: tuple[tuple[StopReason, str], ...]
    """What a run would stop at, the first one first."""

    @classmethod
    def of(cls, config: Config) -> _Findings:
        from chimera.models.installed import installation_faults, litellm_version, package_folders

        environment = process_environment()
        servers = [*_servers()]
        sandbox = _Sandboxing.of(config, environment)
        version = litellm_version()
        faults = installation_faults(version, package_folders())
        return cls(
            keys=tuple(_keys(environment)),
            servers=tuple({"kind": s.kind, "api_base": s.api_base, "model": m} for s, m in servers),
            local=_local(environment),
            model=_model(config, environment, [server for server, _ in servers]),
            programs={name: _program(name, environment) for name in ("git", "rg")},
            state=state_dir(),
            litellm=version,
            trials=sandbox.trials,
            backend=sandbox.backend,
            missing=sandbox.missing,
            problems=(*_as_problems(faults), *sandbox.problems, *_state_problems(state_dir())),
        )

    @property
    def exit_code(self) -> int:
        return self.problems[0][0].exit_code if self.problems else 0

    def fields(self) -> dict[str, Any]:
        """As one JSON object."""
        return {
            "exit_code": self.exit_code,
            "problems": [text for _, text in self.problems],
            "chimera": __version__,
            "python": {"version": sys.version.split()[0], "path": sys.executable},
            "keys": list(self.keys),
            "servers": [dict(server) for server in self.servers],
            "local": dict(self.local),
            "model": dict(self.model),
            "git": self.programs["git"],
            "ripgrep": self.programs["rg"],
            "state_dir": str(self.state),
            "litellm": self.litellm,
            "sandbox": {
                "backend": self.backend,
                "missing": list(self.missing),
                "backends": [
                    {"backend": t.backend, "works": t.works, "fault": t.fault, "held": dict(t.held)}
                    for t in self.trials
                ],
            },
        }


class _Sandboxing(Struct, frozen=True, kw_only=True):
    """The backends as tried, and the one that a run in this folder would take."""

    trials: tuple[Trial, ...]
    backend: str
    missing: tuple[str, ...]
    problems: tuple[tuple[StopReason, str], ...]

    @classmethod
    def of(cls, config: Config, environment: Mapping[str, str]) -> _Sandboxing:
        from chimera.core.state import StopReason
        from chimera.errors import SandboxUnavailableError, WorkspaceError
        from chimera.workspace.escapes import try_escapes
        from chimera.workspace.paths import Workspace
        from chimera.workspace.sandbox import BACKENDS, open_sandbox

        trials = tuple(try_escapes(backend, environment) for backend in BACKENDS)
        try:
            chosen = open_sandbox(
                config.sandbox,
                Workspace.open(config.workspace).root,
                allow_net=False,
                allow_git_write=False,
                required=True,
                environment=environment,
            )
        except SandboxUnavailableError as fault:
            problem = (StopReason.SANDBOX_UNAVAILABLE, str(fault))
            return cls(trials=trials, backend="none", missing=(), problems=(problem,))
        except WorkspaceError as fault:
            problem = (StopReason.USAGE_ERROR, str(fault))
            return cls(trials=trials, backend="none", missing=(), problems=(problem,))
        problems = tuple(
            (
                StopReason.SANDBOX_UNAVAILABLE,
                f"{trial.backend} does not confine: {trial.fault or _escapes(trial)}",
            )
            for trial in trials
            if trial.backend == chosen.backend and not trial.works
        )
        return cls(trials=trials, backend=chosen.backend, missing=chosen.missing, problems=problems)


def _escapes(trial: Trial) -> str:
    from chimera.workspace.escapes import DESCRIPTIONS, ESSENTIAL

    lost = [
        text for name, text in DESCRIPTIONS.items() if name in ESSENTIAL and trial.held.get(name) is False
    ]
    return f"lost are: {'; '.join(lost)}"


def _keys(environment: Mapping[str, str]) -> Iterator[str]:
    """The names of the variables that hold keys of providers."""
    from chimera.models.providers import PROVIDERS

    names = dict.fromkeys(name for p in PROVIDERS for name in (*p.keys, *p.logins))
    return (name for name in names if environment.get(name, "").strip())


def _servers() -> Iterator[tuple[Any, str]]:
    """The local servers that answer on their usual ports, each with the model it serves."""
    from chimera.models.local_window import LOCAL_SERVERS, served_model

    for server in LOCAL_SERVERS:
        if name := served_model(server):
            yield server, name


def _local(environment: Mapping[str, str]) -> dict[str, Any]:
    """The program that serves model files, and the names of those that are there, each with its path."""
    from chimera.errors import ConfigError
    from chimera.models.llama_server import find_llama_server
    from chimera.models.local_models import LocalModels

    found: dict[str, Any] = {"server": None, "fault": None, "models": {}, "models_fault": None}
    try:
        found["server"] = str(find_llama_server(environment, outside=Path.cwd()))
    except ConfigError as fault:
        found["fault"] = str(fault)
    try:
        models = LocalModels(state_dir()).listed()
        found["models"] = {name: str(path) for name, path in models.items() if path.is_file()}
    except ConfigError as fault:
        found["models_fault"] = str(fault)
    return found


def _model(config: Config, environment: Mapping[str, str], servers: list[Any]) -> dict[str, Any]:
    from chimera.errors import ConfigError, ModelAuthError
    from chimera.models.choose import choose_model, resolve_window

    try:
        chosen = choose_model(config, environment, servers=servers, start=False)
    except (ConfigError, ModelAuthError) as fault:
        return {"name": None, "window": None, "window_source": None, "fault": str(fault)}
    size = resolve_window(config, chosen)
    return {"name": chosen.name, "window": size.tokens, "window_source": size.source, "fault": None}


def _program(name: str, environment: Mapping[str, str]) -> dict[str, str] | None:
    from chimera.workspace.programs import find_program
    from chimera.workspace.sandbox import TRUSTED_PATH

    where = os.pathsep.join((TRUSTED_PATH, environment.get("PATH", "")))
    path = find_program(name, where, outside=Path.cwd())
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, "--version"],
            cwd=path.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    words = done.stdout.decode("utf-8", "replace").split()
    return {"path": str(path), "version": next((word for word in words if word[0].isdigit()), "unknown")}


def _state_problems(state: Path) -> Iterator[tuple[StopReason, str]]:
    import tempfile

    from chimera.core.state import StopReason

    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=state):
            return
    except OSError as fault:
        yield (
            StopReason.STATE_UNWRITABLE,
            f"{state} cannot be written: {fault.strerror}; CHIMERA_STATE_DIR names another",
        )


def _as_problems(faults: tuple[str, ...]) -> Iterator[tuple[StopReason, str]]:
    from chimera.core.state import StopReason

    return ((StopReason.USAGE_ERROR, fault) for fault in faults)


def _show(page: Terminal, found: _Findings) -> None:
    page.line(
        (f"chimera {__version__}", "bold"), f" · Python {sys.version.split()[0]} · {one_line(sys.executable)}"
    )
    for label, text in _rows(found):
        page.block(one_line(text), indent=f"{label:<{_LABEL_CELLS}}", hang=" " * _LABEL_CELLS)
    _show_sandbox(page, found)
    page.line("")
    if not found.problems:
        how = "unconfined, as asked" if found.backend == "none" else f"confined by {found.backend}"
        page.block(f"A run without a terminal would start here, its commands {how}.", style="green")
    for _, text in found.problems:
        page.block(one_line(text), indent="problem: ", hang="  ", style="red")


def _rows(found: _Findings) -> Iterator[tuple[str, str]]:
    model = found.model
    yield "model", model["name"] or f"none. {model['fault']}"
    if model["name"]:
        yield "window", f"{model['window']:,} tokens ({model['window_source']})"
    yield "keys", ", ".join(found.keys) or "none set"
    servers = [f"{s['kind']} at {s['api_base']} with {s['model']}" for s in found.servers]
    yield "servers", ", ".join(servers) or "none on the usual ports"
    local = found.local
    names = f"models: {', '.join(local['models'])}" if local["models"] else "no model has a name"
    yield (
        "local",
        f"{local['server'] or 'no llama-server'} · {local['models_fault'] or names} (chimera local list)",
    )
    if local["models"] and local["fault"]:
        yield "", local["fault"]
    git, ripgrep = found.programs["git"], found.programs["rg"]
    yield "git", f"{git['version']} · {git['path']}" if git else "not found: no diff, no list of changes"
    yield (
        "ripgrep",
        f"{ripgrep['version']} · {ripgrep['path']}" if ripgrep else "not found: searching is slower",
    )
    yield "litellm", found.litellm or "not installed"
    yield "state", str(found.state)


def _show_sandbox(page: Terminal, found: _Findings) -> None:
    page.line("")
    page.block(
        f"escapes tried just now; a run here takes {found.backend}",
        indent=f"{'sandbox':<{_LABEL_CELLS}}",
        hang=" " * _LABEL_CELLS,
    )
    show_guarantees(page, [trial for trial in found.trials if trial.held])
    for trial in found.trials:
        if trial.fault:
            page.block(one_line(trial.fault), indent=f"  {trial.backend}: ", hang="    ")
    for sentence in found.missing:
        page.block(one_line(sentence), indent="  - ", hang="    ")


def show_guarantees(page: Terminal, tried: Sequence[Trial]) -> None:
    """What each backend holds: as a table or, where that is too wide for the page, one below the other."""
    from chimera.workspace.escapes import DESCRIPTIONS

    if not tried:
        return
    wide = max(map(len, DESCRIPTIONS.values()))
    if page.columns is None or 2 + wide + len(tried) * (2 + _VERDICT_CELLS) <= page.columns:
        page.line(f"  {'':<{wide}}", *(f"  {trial.backend:<{_VERDICT_CELLS}}" for trial in tried))
        for name, text in DESCRIPTIONS.items():
            marks = [_mark(trial.held.get(name)) for trial in tried]
            page.line(f"  {text:<{wide}}", *(span for mark in marks for span in ("  ", mark)))
        return
    for name, text in DESCRIPTIONS.items():
        page.block(text, indent="  ")
        for trial in tried:
            page.line(f"    {trial.backend:<{_VERDICT_CELLS}}", "  ", _mark(trial.held.get(name)))


def _mark(held: bool | None) -> Span:
    match held:
        case True:
            return f"{'holds':<{_VERDICT_CELLS}}", "green"
        case False:
            return f"{'LOST':<{_VERDICT_CELLS}}", "red"
        case None:
            return f"{'untried':<{_VERDICT_CELLS}}"
