"""The file that `--mcp` names: which MCP servers to use, and how.

In the form that MCP clients have agreed on: `{"mcpServers": {NAME: {"command": ..., "args": [...], "env": {...}}}}` for a
program, `{"url": ..., "headers": {...}}` for an address; beside them `tools`, `exclude_tools`, `timeout`, `disabled`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

from chimera.errors import ConfigError
from chimera.home import expanded
from chimera.record.known_secrets import without_credentials
from chimera.tools.foreign import check_known, named_file, parsed_json, server_name
from chimera.workspace.secret_variables import is_secret_name

DEFAULT_TIMEOUT_S = 60.0
_COMMON = {"type", "tools", "exclude_tools", "timeout", "disabled"}
_STDIO = {"command", "args", "env", "cwd"}
_HTTP = {"url", "headers"}
_TYPES = {"stdio": _STDIO, "http": _HTTP, "streamable-http": _HTTP, "streamable_http": _HTTP}
_AUTHENTICATION = frozenset({"authorization", "proxy-authorization"})
_VARIABLE = re.compile(r"\$\{(\w+)\}")


class Program(Struct, frozen=True, kw_only=True):
    """A server that is a program, spoken to over its standard input and output."""

    command: str
    """A name to be found on PATH, or an absolute path."""
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    """Beside what every command gets."""
    cwd: Path


class Endpoint(Struct, frozen=True, kw_only=True):
    """A server behind an address."""

    url: str
    headers: Mapping[str, str]

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc


class ServerEntry(Struct, frozen=True, kw_only=True):
    """One server of the file."""

    name: str
    """As tool names begin."""
    place: Program | Endpoint
    tools: tuple[str, ...] | None
    """Patterns of the names to offer, with * and ?; None: all."""
    exclude_tools: tuple[str, ...]
    timeout_s: float
    """For the answer to a call."""

    def offers(self, tool: str) -> bool:
        """Whether the filter lets a tool through."""
        wanted = self.tools is None or any(fnmatchcase(tool, pattern) for pattern in self.tools)
        return wanted and not any(fnmatchcase(tool, pattern) for pattern in self.exclude_tools)

    @property
    def secrets(self) -> tuple[tuple[str, str], ...]:
        """What the file gives the server and nobody else should see: names, which may come twice, and values."""
        if isinstance(self.place, Program):
            return tuple((n, v) for n, v in self.place.environment.items() if is_secret_name(n))
        headers = [
            (name, part)
            for name, value in self.place.headers.items()
            if is_secret_name(name.replace("-", "_")) or name.lower() in _AUTHENTICATION
            for part in _secret_parts(name, value)
        ]
        query = parse_qsl(urlsplit(self.place.url).query)
        return (*headers, *((n, v) for n, v in query if is_secret_name(n.replace("-", "_"))))


def _secret_parts(name: str, value: str) -> tuple[str, ...]:
    """What of a header is not public knowledge: a key behind the name of its scheme, the values of cookies."""
    if name.lower() == "cookie":
        return tuple(pair.partition("=")[2].strip() for pair in value.split(";"))
    return (value.rpartition(" ")[2],)


def read_mcp_file(path: Path, environment: Mapping[str, str]) -> tuple[ServerEntry, ...]:
    """The servers that the file names, in its order, but for the disabled ones.

    Args:
        path: absolute.
        environment: where `${NAME}` in `url` and in values of `env` and `headers` comes from.

    Raises:
        ConfigError: with the place in the file.
    """
    document = parsed_json(named_file(path, "MCP file"), f"the MCP file {str(path)!r}")
    servers = document.get("mcpServers") if isinstance(document, dict) else None
    if not isinstance(servers, dict):
        raise ConfigError(f'the MCP file {str(path)!r} must be an object with "mcpServers": {{NAME: ...}}')
    entries: dict[str, ServerEntry] = {}
    for name, value in servers.items():
        where = f"the server {name!r} in {str(path)!r}"
        if not isinstance(value, dict):
            raise ConfigError(f"{where} must be an object")
        if value.get("disabled") is True:
            continue
        entry = _entry(_Fields(value, where, environment), server_name(name), path.parent)
        if entry.name in entries:
            raise ConfigError(f"{where} would be called {entry.name!r}, and so would another: rename one")
        entries[entry.name] = entry
    if not entries:
        raise ConfigError(f"the MCP file {str(path)!r} names no server that is not disabled")
    return tuple(entries.values())


def _entry(fields: _Fields, name: str, folder: Path) -> ServerEntry:
    timeout = fields.values.get("timeout", DEFAULT_TIMEOUT_S)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= 86_400:
        raise ConfigError(f"{fields.where} has the timeout {timeout!r}; it must be seconds above 0")
    return ServerEntry(
        name=name,
        place=_endpoint(fields) if fields.is_endpoint() else _program(fields, folder),
        tools=fields.texts("tools") if "tools" in fields.values else None,
        exclude_tools=fields.texts("exclude_tools"),
        timeout_s=float(timeout),
    )


def _program(fields: _Fields, folder: Path) -> Program:
    command = fields.text("command")
    if "/" in command:
        # Never relative to the workspace, where a repository could supply it.
        command = str(expanded(command) if command.startswith("~") else folder / command)
    cwd = fields.text("cwd") if "cwd" in fields.values else ""
    return Program(
        command=command,
        arguments=fields.texts("args"),
        environment=fields.mapping("env"),
        cwd=expanded(cwd) if cwd.startswith("~") else folder / cwd,
    )


def _endpoint(fields: _Fields) -> Endpoint:
    named = fields.text("url")
    url = fields.replaced(named)
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
        raise ConfigError(
            f"{fields.where} has the url {without_credentials(named)!r}; it must begin with http:// or https:// and a host"
        )
    return Endpoint(url=url, headers=fields.mapping("headers"))


class _Fields(Struct, frozen=True):
    """The values of one server, read with their types checked."""

    values: Mapping[str, Any]
    where: str
    environment: Mapping[str, str]

    def is_endpoint(self) -> bool:
        kind = self.values.get("type")
        if kind is not None and kind not in _TYPES:
            raise ConfigError(f"{self.where} has the type {kind!r}; known: {', '.join(sorted(_TYPES))}")
        own = _TYPES[kind] if kind else (_HTTP if "url" in self.values else _STDIO)
        check_known(self.values, own | _COMMON, self.where)
        return own is _HTTP

    def text(self, key: str) -> str:
        value = self.values.get(key)
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise ConfigError(f"{self.where} needs {key!r}, a text")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(
            isinstance(item, str) and "\0" not in item for item in value
        ):
            raise ConfigError(f"{key!r} of {self.where} must be a list of texts")
        return tuple(value)

    def mapping(self, key: str) -> dict[str, str]:
        value = self.values.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise ConfigError(f"{key!r} of {self.where} must be an object of texts")
        return {name: self.replaced(item) for name, item in value.items()}

    def replaced(self, text: str) -> str:
        return _VARIABLE.sub(self._variable, text)

    def _variable(self, match: re.Match[str]) -> str:
        if match[1] not in self.environment:
            raise ConfigError(f"{self.where} needs the environment variable {match[1]}, which is not set")
        return self.environment[match[1]]
