"""Settings of a run: defaults, user settings file, environment, arguments. The only reader of `os.environ`.

Nothing in a repository configures chimera: the settings file lies in the user's own configuration directory.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from chimera.errors import ConfigError
from chimera.home import expanded, home_known

Mode = Literal["plan", "ask", "accept-edits", "auto", "yolo"]
SandboxLevel = Literal["read-only", "workspace-write", "danger-full-access"]
CompactionMode = Literal["mask", "note", "summary"]
AdapterName = Literal["auto", "litellm", "direct"]
ToolProtocolChoice = Literal["auto", "native", "json"]
Source = Literal["argument", "environment", "file", "default"]

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
_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "str": (str, "text"),
    "bool": (bool, "true or false"),
    "float": ((int, float), "a number"),
    "tuple": (tuple, "a list of names"),
    "Mapping": (Mapping, "a table"),
    "Path": (Path, "a path"),
}
"""By the name of a field's type: what a value is, and how that is said."""


class Config(Struct, frozen=True, kw_only=True):
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
        self._check_kinds()
        self._check_numbers()
        if self.verify is not None and (not self.verify.strip() or "\0" in self.verify):
            raise ConfigError(f"verify is {self.verify!r}; it must be a command")
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

    def _check_kinds(self) -> None:
        for name, annotation in _ANNOTATIONS.items():
            value, kind = getattr(self, name), annotation.partition(" |")[0].partition("[")[0]
            if kind not in _KINDS or (value is None and "None" in annotation):
                continue
            wanted, words = _KINDS[kind]
            right = isinstance(value, wanted) and (kind != "float" or not isinstance(value, bool))
            if not right or (kind == "tuple" and not all(isinstance(one, str) for one in value)):
                raise ConfigError(f"{name} is {value!r}; it must be {words}")

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


_ANNOTATIONS: Mapping[str, str] = Config.__annotations__
FIELD_NAMES = tuple(_ANNOTATIONS)


class Origin(Struct, frozen=True):
    """Where a setting comes from."""

    source: Source = "default"
    where: str = ""
    """The variable, or `FILE:LINE`; empty for arguments and defaults."""


class Settings(Struct, frozen=True, kw_only=True):
    """The settings of a run, and where each comes from."""

    config: Config
    origins: Mapping[str, Origin]
    """By field name; those that are not in it are defaults."""
    path: Path
    """Where the user's settings file is looked for."""


def load_config(
    arguments: Mapping[str, Any],
    *,
    environment: Mapping[str, str] | None = None,
    settings_file: Path | None = None,
) -> Config:
    """The settings of a run, as `load_settings` finds them."""
    return load_settings(arguments, environment=environment, settings_file=settings_file).config


def load_settings(
    arguments: Mapping[str, Any],
    *,
    environment: Mapping[str, str] | None = None,
    settings_file: Path | None = None,
) -> Settings:
    """The settings of a run: argument > environment `CHIMERA_*` > user settings file > default.

    Args:
        arguments: field name -> value; None means not given.
        environment: instead of the process environment.
        settings_file: instead of `config.toml` in the platform's configuration directory.

    Raises:
        ConfigError: an unknown name or an unusable value, with its origin and a suggestion.
    """
    environment = os.environ if environment is None else environment  # noqa: TID251
    path = config_path(environment) if settings_file is None else settings_file
    values, origins = _from_file(path)
    for name, value in _from_environment(environment).items():
        values[name], origins[name] = value, Origin("environment", ENVIRONMENT_PREFIX + name.upper())
    for name, value in arguments.items():
        _known(name, "option")
        if value is not None:
            values[name], origins[name] = value, Origin("argument")
    values = {name: _converted(name, value) for name, value in values.items()}
    try:
        return Settings(config=replace(Config(), **values), origins=origins, path=path)
    except ConfigError as fault:
        raise ConfigError(f"{fault}{_blame(fault, values, origins)}") from fault


def _converted(name: str, value: Any) -> Any:
    """A value as the field holds it; one of a wrong kind as it is, for `Config` to refuse."""
    if name in {"workspace", "mcp", "openapi"} and isinstance(value, (str, Path)):
        return Path(value) if name == "workspace" else expanded(value)
    if name in {"tools", "openapi_methods"} and isinstance(value, (list, tuple)):
        return tuple(value)
    return value


def _blame(fault: ConfigError, values: Mapping[str, Any], origins: Mapping[str, Origin]) -> str:
    """Where the value comes from that alone brings the same fault; empty for arguments, which the user sees."""
    for name, value in values.items():
        try:
            replace(Config(), **{name: value})
        except ConfigError as alone:
            if str(alone) == str(fault) and origins[name].where:
                return f" ({origins[name].where})"
    return ""


def config_path(environment: Mapping[str, str]) -> Path:
    """Where the user's settings file is looked for."""
    if home := environment.get("CHIMERA_CONFIG_DIR"):
        return Path(home, "config.toml")
    import platformdirs

    with home_known("CHIMERA_CONFIG_DIR"):
        return platformdirs.user_config_path("chimera") / "config.toml"


def state_dir(environment: Mapping[str, str] | None = None) -> Path:
    """Where runs are recorded: `CHIMERA_STATE_DIR`, else the platform's state directory. Never in a repository."""
    environment = os.environ if environment is None else environment  # noqa: TID251
    if chosen := environment.get("CHIMERA_STATE_DIR"):
        return expanded(chosen)
    import platformdirs

    with home_known("CHIMERA_STATE_DIR"):
        return platformdirs.user_state_path("chimera")


def process_environment() -> Mapping[str, str]:
    """The environment this process was started with."""
    return os.environ  # noqa: TID251


def _known(name: str, kind: str) -> None:
    if name not in FIELD_NAMES:
        import difflib

        close = difflib.get_close_matches(name, FIELD_NAMES, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(FIELD_NAMES)}"
        raise ConfigError(f"unknown {kind} {name!r}{hint}")


def _from_file(path: Path) -> tuple[dict[str, Any], dict[str, Origin]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}, {}
    except (OSError, UnicodeDecodeError) as fault:
        raise ConfigError(f"the settings file {str(path)!r} cannot be read: {fault}") from fault
    import tomllib

    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise ConfigError(f"the settings file {str(path)!r} is not TOML: {fault}") from fault
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for written, value in table.items():
        name, place = written.replace("-", "_"), f"{path}:{_line(text, written)}"
        _known(name, f"setting in {place!r}:")
        values[name], origins[name] = value, Origin("file", place)
    return values, origins


def _line(text: str, name: str) -> int:
    """The line in which a name at the top of a TOML file is given its value."""
    found = re.search(rf"""^[ \t]*\[?[ \t]*["']?{re.escape(name)}["']?[ \t]*[=.\]]""", text, re.MULTILINE)
    return text.count("\n", 0, found.start()) + 1 if found else 1


# Names with our prefix that are not settings of a run.
_NOT_SETTINGS = {
    ENVIRONMENT_PREFIX + name for name in ("STATE_DIR", "CONFIG_DIR", "DEBUG", "LLAMA_SERVER", "MARK")
}


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Variables with our prefix that set nothing: most likely misspelt."""
    known = _NOT_SETTINGS | {ENVIRONMENT_PREFIX + name.upper() for name in FIELD_NAMES}
    return sorted(name for name in environment if name.startswith(ENVIRONMENT_PREFIX) and name not in known)


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, annotation in _ANNOTATIONS.items():
        key = ENVIRONMENT_PREFIX + name.upper()
        if environment.get(key, "") != "":
            values[name] = _parse(key, environment[key], annotation)
    return values


def _parse(key: str, text: str, kind: str) -> Any:
    try:
        if kind.startswith("int"):
            return int(text)
        if kind.startswith("float"):
            return float(text)
    except ValueError as fault:
        raise ConfigError(f"{key} is {text!r}; it must be a number") from fault
    if kind.startswith("bool"):
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
    import tomllib

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
