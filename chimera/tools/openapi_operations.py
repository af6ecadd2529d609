"""What an OpenAPI description offers: its operations, with their parameters as one flat object of arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal
from urllib.parse import unquote

from msgspec import Struct

from chimera.errors import ConfigError
from chimera.tools.openapi_schema import Schemas

Method = Literal["get", "put", "post", "delete", "options", "head", "patch", "trace"]
Place = Literal["path", "query", "header"]
METHODS: tuple[Method, ...] = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
READING: frozenset[Method] = frozenset({"get", "head", "options"})
"""Methods that change nothing, as HTTP defines them."""
BODY = "body"
"""The argument that is sent as the body of the request."""
# Headers that a description may name and that are not the model's to set.
_OWN_HEADERS = frozenset(
    {"accept", "authorization", "connection", "content-length", "content-type", "cookie", "host"}
    | {"proxy-authorization", "transfer-encoding", "upgrade"}
)
_FORM = "application/x-www-form-urlencoded"
_TEMPLATE = re.compile(r"\{([^{}]+)\}")
_NAME_CHARACTERS = 64
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
"""A token, as HTTP defines it."""
# What would end a path, or be read as another one.
_NO_PATH = ("?", "#", "\\")
_DOTS = frozenset({".", ".."})


class Parameter(Struct, frozen=True, kw_only=True):
    """One parameter and how its value is written."""

    argument: str
    """What the model calls it."""
    name: str
    """What the service calls it."""
    place: Place
    style: str
    explode: bool
    as_json: bool
    """The value is written as JSON text."""


class SchemeUse(Struct, frozen=True, kw_only=True):
    """How the service wants to be shown a key."""

    place: Literal["header", "query"] = "header"
    name: str = "Authorization"
    prefix: str = "Bearer "
    basic: bool = False
    """The key is `user:password`."""


class Operation(Struct, frozen=True, kw_only=True):
    """One thing the service does."""

    name: str
    method: Method
    path: str
    """A template: `/pets/{id}`."""
    description: str
    arguments: dict[str, Any]
    """JSON schema of the arguments, an object."""
    parameters: tuple[Parameter, ...]
    content_type: str | None
    """Of the body; None: it takes none."""
    scheme: SchemeUse | None
    """None: it asks for no key."""


def operations(
    document: Mapping[str, Any], methods: tuple[str, ...]
) -> tuple[tuple[Operation, ...], tuple[str, ...]]:
    """The operations with one of these methods, in the order of the description, and notices on what is left out.

    Raises:
        ConfigError: the description cannot be understood.
    """
    paths = document.get("paths")
    if not isinstance(paths, dict):
        raise ConfigError('the description has no "paths"')
    schemas = Schemas(document)
    found: list[Operation] = []
    notices: list[str] = []
    for path, item in paths.items():
        shared = schemas.found(item)
        if not isinstance(shared, dict) or not str(path).startswith("/"):
            continue
        for method in METHODS:
            if method not in methods or not isinstance(shared.get(method), dict):
                continue
            try:
                found.append(_Reader(document, schemas, path, method, shared).operation())
            except _Unusable as fault:
                notices.append(f"{method.upper()} {path} is left out: {fault}")
            except ConfigError as fault:
                raise ConfigError(f"{method.upper()} {path}: {fault}") from fault
            except (AttributeError, KeyError, TypeError) as fault:
                raise ConfigError(f"{method.upper()} {path} is not written as OpenAPI is: {fault}") from fault
    return tuple(found), tuple(notices)


class _Unusable(Exception):  # noqa: N818  (it never leaves this module)
    """An operation that cannot be called from here."""


class _Reader:
    """Reads one operation."""

    def __init__(
        self,
        document: Mapping[str, Any],
        schemas: Schemas,
        path: str,
        method: Method,
        shared: Mapping[str, Any],
    ) -> None:
        self._document = document
        self._schemas = schemas
        self._path = path
        self._method = method
        self._shared = shared
        self._own: Mapping[str, Any] = shared[method]
        self._properties: dict[str, Any] = {}
        self._required: list[str] = []

    def operation(self) -> Operation:
        if any(sign in self._path for sign in _NO_PATH) or _DOTS.intersection(unquote(self._path).split("/")):
            raise _Unusable("its path is no plain one")
        parameters = tuple(self._parameters())
        content_type = self._body()
        own_name = self._own.get("operationId")
        return Operation(
            name=own_name
            if isinstance(own_name, str) and own_name
            else f"{self._method}_{self._path.strip('/')}",
            method=self._method,
            path=self._path,
            description=self._description(),
            arguments={
                "type": "object",
                "properties": self._properties,
                **({"required": self._required} if self._required else {}),
                "additionalProperties": False,
            },
            parameters=parameters,
            content_type=content_type,
            scheme=self._scheme(),
        )

    def _description(self) -> str:
        summary, text = (str(self._own.get(key) or "").strip() for key in ("summary", "description"))
        if not summary or text.startswith(summary):
            return text or f"{self._method.upper()} {self._path}"
        if not text:
            return summary
        return f"{summary}{'' if summary.endswith(('.', '!', '?')) else '.'} {text}"

    def _parameters(self) -> Iterator[Parameter]:
        """Those of the operation and of its path, the operation's own first where both have one."""
        seen: set[tuple[str, str]] = set()
        for node in (*self._list(self._own), *self._list(self._shared)):
            parameter = self._schemas.found(node)
            if not isinstance(parameter, dict):
                continue
            name, place = str(parameter.get("name", "")), parameter.get("in")
            if (name, str(place)) in seen:
                continue
            seen.add((name, str(place)))
            if place in {"path", "query", "header"}:
                if place == "header" and name.lower() in _OWN_HEADERS:
                    continue
                if place != "header" or _HEADER_NAME.fullmatch(name):
                    yield self._parameter(parameter, name, place)
                    continue
            if parameter.get("required") is True:
                raise _Unusable(f"it needs {name!r} as {place}, which is not sent from here")
        for name in _TEMPLATE.findall(self._path):
            if (name, "path") not in seen:
                yield self._parameter({"required": True, "schema": {"type": "string"}}, name, "path")

    def _list(self, node: Mapping[str, Any]) -> list[Any]:
        value = node.get("parameters")
        return value if isinstance(value, list) else []

    def _parameter(self, parameter: Mapping[str, Any], name: str, place: Place) -> Parameter:
        content = parameter.get("content")
        media: Mapping[str, Any] = next(iter(content.values()), {}) if isinstance(content, dict) else {}
        schema = self._schemas.standalone(media.get("schema", {}) if media else parameter.get("schema", {}))
        for key in ("description", "example", "deprecated"):
            if key in parameter:
                schema = {**schema, key: parameter[key]}
        argument = self._argument(name, place)
        self._properties[argument] = schema
        if place == "path" or parameter.get("required") is True:
            self._required.append(argument)
        style = str(parameter.get("style") or ("form" if place == "query" else "simple"))
        explode = parameter.get("explode")
        return Parameter(
            argument=argument,
            name=name,
            place=place,
            style=style,
            explode=explode if isinstance(explode, bool) else style in {"form", "deepObject"},
            as_json=bool(media),
        )

    def _argument(self, name: str, place: str) -> str:
        """A name that every provider takes for a property, and that nothing else here has."""
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_")[:_NAME_CHARACTERS] or place
        # The body keeps its own name whatever the parameters are called.
        while plain in self._properties or plain == BODY:
            plain = f"{plain[: _NAME_CHARACTERS - len(place) - 1]}_{place}"
        return plain

    def _body(self) -> str | None:
        body = self._schemas.found(self._own.get("requestBody"))
        if not isinstance(body, dict):
            return None
        content: Mapping[str, Any] = body.get("content") or {}
        types = {str(name).partition(";")[0].strip().lower(): name for name in content}
        chosen = next((kind for kind in types if _is_json(kind)), None) or next(
            (kind for kind in types if kind == _FORM or kind.startswith("text/")), None
        )
        if chosen is None:
            if body.get("required") is True:
                raise _Unusable(
                    f"its body is {', '.join(types) or 'of no known type'}, which is not sent from here"
                )
            return None
        schema = self._schemas.standalone(content[types[chosen]].get("schema", {}))
        if "description" in body:
            schema = {**schema, "description": body["description"]}
        self._properties[BODY] = schema
        if body.get("required") is True:
            self._required.append(BODY)
        return chosen

    def _scheme(self) -> SchemeUse | None:
        """The first of the demanded schemes that one key can satisfy; a bearer token where the description is silent."""
        demanded = self._own.get("security", self._document.get("security"))
        components = self._document.get("components")
        known = components.get("securitySchemes") if isinstance(components, dict) else None
        if not isinstance(known, dict) or not known:
            return SchemeUse()
        if not isinstance(demanded, list) or not demanded:
            return None
        for requirement in demanded:
            for name in requirement if isinstance(requirement, dict) and len(requirement) == 1 else ():
                if (use := _scheme_use(self._schemas.found(known.get(name)))) is not None:
                    return use
        return None


def _is_json(content_type: str) -> bool:
    return content_type in {"application/json", "*/*"} or content_type.endswith("+json")


def _scheme_use(scheme: Any) -> SchemeUse | None:
    if not isinstance(scheme, dict):
        return None
    match scheme.get("type"), str(scheme.get("in") or scheme.get("scheme") or "").lower():
        case "apiKey", "header" if not _HEADER_NAME.fullmatch(str(scheme.get("name"))):
            return None
        case "apiKey", ("header" | "query") as place:
            return SchemeUse(place=place, name=str(scheme.get("name")), prefix="")
        case "http", "basic":
            return SchemeUse(prefix="Basic ", basic=True)
        case (("http" | "oauth2" | "openIdConnect"), _):
            return SchemeUse()
        case _:
            return None
