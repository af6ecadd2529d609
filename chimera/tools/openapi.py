"""Tools out of an OpenAPI description: its operations, each a call of one service."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from chimera.core.outputs import ToolOutput
from chimera.errors import ConfigError
from chimera.record.known_secrets import without_credentials
from chimera.record.redaction import keep_secret
from chimera.tools.base import Tool
from chimera.tools.foreign import (
    Deadline,
    Imported,
    named_file,
    parsed_json,
    schema_check,
    server_name,
    shown_schema,
    tool_name,
)
from chimera.tools.openapi_operations import METHODS, READING, Operation, operations
from chimera.tools.openapi_service import Service
from chimera.tools.wording import one_line
from chimera.workspace.terminal_text import escaped

_SHOWN_NOTICES = 5
_WHOLE = r"-?(?:0|[1-9][0-9]*)"
_SCALARS = (
    ("bool", "true|True|TRUE|false|False|FALSE"),
    ("int", _WHOLE),
    ("float", rf"{_WHOLE}(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"),
)
_DEEPEST = 200
_MOST_VALUES = 3_000_000
"""Of a YAML file. The descriptions of the largest public services have less than half of it."""


class Description(Struct, frozen=True, kw_only=True):
    """What the user says about a service."""

    file: Path
    """Absolute; JSON or YAML."""
    base_url: str | None = None
    """Instead of the first server of the description."""
    methods: tuple[str, ...] = ("get",)
    """HTTP methods whose operations become tools, in small letters."""
    variable: str | None = None
    """The environment variable that holds the key."""


@contextmanager
def openapi_tools(
    description: Description,
    *,
    root: Path,
    environment: Mapping[str, str],
    deadline: Deadline | None = None,
) -> Iterator[Imported]:
    """The operations of a service as tools; its connections end with the block.

    Args:
        description: the file and what goes with it.
        root: the workspace. A description in there may say what the operations are, but not where they are sent.
        environment: where the key comes from.
        deadline: of the run.

    Raises:
        ConfigError: the file or the settings are wrong.
    """
    path = description.file
    document = _document(path)
    if description.base_url is None and path.resolve().is_relative_to(root):
        raise ConfigError(
            f"the OpenAPI description {str(path)!r} lies in the workspace, and a repository must not decide which host is "
            "called: say it with --openapi-base-url"
        )
    service = Service(
        base_url=_checked_url(description.base_url or _own_url(document, path)),
        key=_key(description, environment),
        deadline=deadline or Deadline(),
    )
    tools, notices = _tools(document, service, description)
    secrets: dict[str, str] = {}
    if description.variable and service.key:
        # Of `user:password` also the password alone.
        for value in filter(None, (service.key, service.key.partition(":")[2])):
            keep_secret(secrets, description.variable, value)
    try:
        yield Imported(tools=tools, notices=notices, secrets=secrets, deadline=service.deadline)
    finally:
        service.close()


def _tools(
    document: Mapping[str, Any], service: Service, description: Description
) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    if unknown := [method for method in description.methods if method not in METHODS]:
        raise ConfigError(f"openapi_methods has {unknown[0]!r}; known: {', '.join(METHODS)}")
    found, left_out = operations(document, description.methods)
    if not found:
        raise ConfigError(
            f"{str(description.file)!r} has no operation with the method {', '.join(description.methods)}; "
            "--openapi-methods names others"
        )
    server = server_name(description.file.stem)
    tools: dict[str, Tool] = {}
    for operation in found:
        name = tool_name(server, operation.name, tools)
        tools[name] = _tool(name, operation, service)
    if description.variable and not any(operation.scheme for operation in found):
        left_out = (
            f"The key in {description.variable} is sent with no operation: none asks for one that can be sent.",
            *left_out,
        )
    notices = left_out[:_SHOWN_NOTICES]
    if more := len(left_out) - len(notices):
        notices = (*notices, f"{more} more operations are left out for such reasons.")
    return tuple(tools.values()), tuple(map(escaped, notices))


def _tool(name: str, operation: Operation, service: Service) -> Tool:
    def run(**arguments: Any) -> ToolOutput:
        return service.call(name, operation, arguments)

    return Tool(
        name=name,
        description=escaped(operation.description),
        parameters=shown_schema(operation.arguments),
        effect="foreign_read" if operation.method in READING else "foreign",
        run=run,
        check=schema_check(operation.arguments),
    )


def _document(path: Path) -> Mapping[str, Any]:
    text = named_file(path, "OpenAPI description")
    if text.lstrip().startswith("{"):
        document = parsed_json(text, f"the OpenAPI description {str(path)!r}")
        _check(document, f"the OpenAPI description {str(path)!r}")
    else:
        document = _yaml(text, f"the OpenAPI description {str(path)!r}")
    version = document.get("openapi") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not str(version).startswith("3."):
        told = f"it says {version!r}" if version else "it does not say which"
        raise ConfigError(f"{str(path)!r} must be an OpenAPI description of version 3; {told}")
    return document


def _yaml(text: str, what: str) -> Any:
    """The value of a YAML text, which JSON could hold as well: words mean what they mean there, and no alias blows it up."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    resolvers: dict[str | None, Any] = {
        first: [(tag, pattern) for tag, pattern in choices if tag.endswith((":null", ":merge"))]
        for first, choices in base.yaml_implicit_resolvers.items()
    }
    # PyYAML's own are those of YAML 1.1, where `no` and `on` are truth values and `12:30` is a number.
    resolvers[None] = [(f"tag:yaml.org,2002:{kind}", re.compile(rf"(?:{form})\Z")) for kind, form in _SCALARS]
    loader = type("Loader", (base,), {"yaml_implicit_resolvers": resolvers})
    try:
        value = yaml.load(text, loader)  # noqa: S506  (built on a safe one)
    except (yaml.YAMLError, RecursionError, ValueError) as fault:
        raise ConfigError(f"{what} is not YAML: {fault}") from fault
    _check(value, what)
    return value


def _check(value: Any, what: str) -> None:
    """Refuse what JSON could not hold, and what no program should walk through. Names of objects become texts."""
    waiting, seen = [(value, 1)], 0
    while waiting:
        node, depth = waiting.pop()
        seen += 1
        if depth > _DEEPEST:
            raise ConfigError(
                f"{what} is nested more than {_DEEPEST} deep: no interface is described like that"
            )
        if seen > _MOST_VALUES:
            raise ConfigError(
                f"{what} holds more than {_MOST_VALUES:,} values once its aliases are written out"
            )
        if isinstance(node, dict):
            _name_by_text(node)
            waiting += ((inner, depth + 1) for inner in node.values())
        elif isinstance(node, list):
            waiting += ((inner, depth + 1) for inner in node)
        elif not (node is None or isinstance(node, str | int | float)):
            raise ConfigError(
                f"{what} holds {one_line(repr(node), 80)}, which JSON has no form for: write it as text"
            )


def _name_by_text(node: dict[Any, Any]) -> None:
    """Make the names of an object texts, as they are in JSON."""
    if not all(isinstance(name, str) for name in node):
        named = [
            (name if isinstance(name, str) else json.dumps(name, default=str), v) for name, v in node.items()
        ]
        node.clear()
        node.update(named)


def _own_url(document: Mapping[str, Any], path: Path) -> str:
    servers = document.get("servers")
    first = servers[0] if isinstance(servers, list) and servers else {}
    url = str(first.get("url", "")) if isinstance(first, dict) else ""
    variables = first.get("variables", {}) if isinstance(first, dict) else {}
    for name, variable in variables.items() if isinstance(variables, dict) else ():
        url = url.replace(
            f"{{{name}}}", str(variable.get("default", "")) if isinstance(variable, dict) else ""
        )
    if not urlsplit(url).netloc or "{" in url:
        raise ConfigError(f"{str(path)!r} does not say where the service is: give --openapi-base-url")
    return url


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  (raises where it is none)
    except ValueError as fault:
        raise ConfigError(f"the address of the service is {_shown(url)!r}: {fault}") from fault
    if (
        parts.scheme not in {"http", "https"}
        or not parts.hostname
        or "@" in parts.netloc
        or parts.query
        or parts.fragment
    ):
        raise ConfigError(
            f"the address of the service is {_shown(url)!r}; it must be http:// or https://, a host and at most a path"
        )
    return url.rstrip("/")


def _shown(url: str) -> str:
    """An address without what may be a key in it."""
    head, query, _ = without_credentials(url).partition("?")
    return f"{head}{query and '?...'}"


def _key(description: Description, environment: Mapping[str, str]) -> str | None:
    if description.variable is None:
        return None
    key = environment.get(description.variable, "").strip()
    if not key:
        raise ConfigError(
            f"the environment variable {description.variable} is to hold the service's key and is not set"
        )
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"the key in {description.variable} is not plain ASCII on one line")
    return key
