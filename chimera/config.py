"""Settings of a run: defaults, user settings file, environment, arguments. The only reader of `os.environ`.

Nothing in a repository configures chimera: the settings file lies in the user's own configuration directory.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from chimera.errors import ConfigError

Mode = Literal["plan", "ask", "accept-edits", "auto", "yolo"]
SandboxLevel = Literal["read-only", "workspace-write", "danger-full-access"]
CompactionMode = Literal["mask", "note", "summary"]
AdapterName = Literal["auto", "litellm", "direct"]
ToolProtocolChoice = Literal["auto", "native", "json"]

DEFAULT_MAX_STEPS = 50
MOST_WINDOW = 1_000_000_000
ENVIRONMENT_PREFIX = "CHIMERA_"
_CHOICES: dict[str, tuple[str, ...]] = {
    "mode": get_args(Mode),
    "sandbox": get_args(SandboxLevel),
    "compaction": get_args(CompactionMode),
    "adapter": get_args(AdapterName),
    "tool_protocol": get_args(ToolProtocolChoice),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything a user can set about a run. None means: decided when the run is prepared."""

    model: str | None = None
    """A litellm model name (`anthropic/...`, `openai/...`, `ollama_chat/...`) or `scripted:FILE`."""
    api_base: str | None = None
    """Base URL of an OpenAI-compatible server."""
    adapter: AdapterName = "auto"
    """What speaks to the provider. `auto`: direct where the provider speaks the OpenAI format, else litellm."""
    window: int | None = None
    """Context window in tokens, prompt and completion together."""
    budget_fraction: float | None = None
    """Share of the window spent on the prompt."""
    trigger: float | None = None
    """Share of the budget at which compaction runs."""
    keep_turns: int | None = None
    """Newest turns kept verbatim by a compaction, where they fit."""
    compaction: CompactionMode = "note"
    max_steps: int = DEFAULT_MAX_STEPS
    max_cost: float | None = None
    """US dollars."""
    max_seconds: float | None = None
    mode: Mode | None = None
    """None: `ask` on a terminal, else `auto`."""
    sandbox: SandboxLevel = "workspace-write"
    allow_net: bool = False
    """Commands may reach the network."""
    allow_git_write: bool = False
    """Commands may write `.git`, but for config, hooks and info."""
    allow_secret_files: bool = False
    """Commands may read files of the workspace that by their names hold secrets."""
    verify: str | None = None
    """Command that must succeed before an answer counts."""
    model_options: Mapping[str, Any] = field(default_factory=dict)
    """Passed to the provider: temperature, reasoning_effort, ..."""
    tools: tuple[str, ...] | None = None
    """Names of the tools to offer; None: all."""
    compact_schemas: bool = False
    tool_protocol: ToolProtocolChoice = "auto"
    """How calls travel: the provider's own way, or as JSON actions. `auto`: natively, and as JSON where that fails."""
    lean: bool | None = None
    """A smaller floor, with fewer tools, for small windows and slow prompts; None: where calls travel as JSON."""
    mcp: Path | None = None
    """File that names MCP servers, outside the workspace; their tools are offered."""
    openapi: Path | None = None
    """OpenAPI description of a service whose operations are offered as tools."""
    openapi_base_url: str | None = None
    """Where the service is, instead of what its description says."""
    openapi_methods: tuple[str, ...] = ("get",)
    """HTTP methods whose operations are offered."""
    openapi_env: str | None = None
    """The environment variable that holds the key of the service."""
    workspace: Path = Path()

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value is not None and value not in choices:
                raise ConfigError(f"{name} is {value!r}; it must be one of: {', '.join(choices)}")
        self._check_numbers()
        if self.verify is not None and (not self.verify.strip() or "\0" in self.verify):
            raise ConfigError(f"verify is {self.verify!r}; it must be a command")
        for name in ("tools", "openapi_methods"):
            if isinstance(value := getattr(self, name), str):
                raise ConfigError(f"{name} is {value!r}; it must be a list of names")
        if self.openapi is None and (self.openapi_base_url or self.openapi_env):
            raise ConfigError(
                "openapi_base_url and openapi_env say something about --openapi FILE; give that, too"
            )
        try:
            json.dumps(dict(self.model_options))
        except (TypeError, ValueError) as fault:
            raise ConfigError(f"model_options holds what is no JSON value: {fault}") from fault
        if self.mode == "yolo" and self.sandbox != "danger-full-access":
            raise ConfigError(
                "mode yolo asks nothing and confines nothing: say so with --sandbox danger-full-access"
            )

    def _check_numbers(self) -> None:
        for name, most in (("window", MOST_WINDOW), ("keep_turns", math.inf), ("max_steps", math.inf)):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if value is not None and not (whole and 1 <= value <= most):
                limit = f" and at most {most:,}" if most < math.inf else ""
                raise ConfigError(f"{name} is {value!r}; it must be a whole number, 1 or more{limit}")
        for name in ("budget_fraction", "trigger"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 1:
                raise ConfigError(f"{name} is {value!r}; it must be above 0 and at most 1")
        for name in ("max_cost", "max_seconds"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(f"{name} is {value!r}; it must be above 0")


FIELD_NAMES = tuple(f.name for f in fields(Config))


def load_config(
    arguments: Mapping[str, Any],
    *,
    environment: Mapping[str, str] | None = None,
    settings_file: Path | None = None,
) -> Config:
    """The settings of a run: argument > environment `CHIMERA_*` > user settings file > default.

    Args:
        arguments: field name -> value; None means not given.
        environment: instead of the process environment.
        settings_file: instead of `config.toml` in the platform's configuration directory.

    Raises:
        ConfigError: an unknown name or an unusable value, with its origin and a suggestion.
    """
    environment = os.environ if environment is None else environment  # noqa: TID251
    values = _from_file(config_path(environment) if settings_file is None else settings_file)
    values |= _from_environment(environment)
    values |= {name: value for name, value in arguments.items() if value is not None}
    for name in values:
        _known(name, "option")
    if "workspace" in values:
        values["workspace"] = Path(values["workspace"])
    for name in {"mcp", "openapi"} & values.keys():
        values[name] = Path(values[name]).expanduser().absolute()
    for name in {"tools", "openapi_methods"} & values.keys():
        values[name] = values[name] if isinstance(values[name], str) else tuple(values[name])
    try:
        return replace(Config(), **values)
    except TypeError as fault:
        raise ConfigError(f"a setting has the wrong type: {fault}") from fault


def config_path(environment: Mapping[str, str]) -> Path:
    """Where the user's settings file is looked for."""
    if home := environment.get("CHIMERA_CONFIG_DIR"):
        return Path(home, "config.toml")
    import platformdirs

    return platformdirs.user_config_path("chimera") / "config.toml"


def state_dir(environment: Mapping[str, str] | None = None) -> Path:
    """Where runs are recorded: `CHIMERA_STATE_DIR`, else the platform's state directory. Never in a repository."""
    environment = os.environ if environment is None else environment  # noqa: TID251
    if chosen := environment.get("CHIMERA_STATE_DIR"):
        return Path(chosen).expanduser().absolute()
    import platformdirs

    return platformdirs.user_state_path("chimera")


def process_environment() -> Mapping[str, str]:
    """The environment this process was started with."""
    return os.environ  # noqa: TID251


def _known(name: str, kind: str) -> None:
    if name not in FIELD_NAMES:
        close = difflib.get_close_matches(name, FIELD_NAMES, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(FIELD_NAMES)}"
        raise ConfigError(f"unknown {kind} {name!r}{hint}")


def _from_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as fault:
        raise ConfigError(f"the settings file {str(path)!r} cannot be read: {fault}") from fault
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise ConfigError(f"the settings file {str(path)!r} is not TOML: {fault}") from fault
    values = {name.replace("-", "_"): value for name, value in values.items()}
    for name in values:
        _known(name, f"setting in {str(path)!r}:")
    return values


# Names with our prefix that are not settings of a run.
_NOT_SETTINGS = {"CHIMERA_STATE_DIR", "CHIMERA_CONFIG_DIR"}


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for f in fields(Config):
        key = ENVIRONMENT_PREFIX + f.name.upper()
        if key in environment and key not in _NOT_SETTINGS and environment[key] != "":
            values[f.name] = _parse(key, environment[key], str(f.type))
    return values


def _parse(key: str, text: str, kind: str) -> Any:
    try:
        if kind.startswith("int"):
            return int(text)
        if kind.startswith("float"):
            return float(text)
    except ValueError as fault:
        raise ConfigError(f"{key} is {text!r}; it must be a number") from fault
    if kind == "bool":
        if text.lower() not in {"0", "1", "true", "false", "yes", "no"}:
            raise ConfigError(f"{key} is {text!r}; it must be true or false")
        return text.lower() in {"1", "true", "yes"}
    if kind.startswith("tuple"):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if kind.startswith("Mapping"):
        return parse_model_options(text.split(","))
    return text


def parse_model_options(pairs: list[str]) -> dict[str, Any]:
    """`KEY=VALUE` pairs; a value that reads as a value of TOML, or as an array or object of JSON, is taken as one.

    Raises:
        ConfigError: a pair without `=`.
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"model option {pair!r} is not KEY=VALUE")
        try:
            options[key.strip()] = tomllib.loads(f"x = {value}")["x"]
        except tomllib.TOMLDecodeError:
            options[key.strip()] = _structure(value)
    return options


def _structure(text: str) -> Any:
    """An array or object of JSON; any other text as it is."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


@contextmanager
def variables_set_aside(names: Iterable[str]) -> Iterator[None]:
    """A block in which these variables are not part of the environment that new processes are started with."""
    aside = {name: os.environ.pop(name) for name in [*names] if name in os.environ}  # noqa: TID251
    try:
        yield
    finally:
        os.environ.update(aside)  # noqa: TID251


def set_default_environment(values: Mapping[str, str]) -> None:
    """Set process variables that are not set yet: some libraries are configured in no other way."""
    for name, value in values.items():
        os.environ.setdefault(name, value)  # noqa: TID251
