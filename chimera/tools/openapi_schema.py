"""Schemas of an OpenAPI description as JSON schemas that stand alone: references resolved, dialect translated.

A resolved schema is bounded in size and depth, and a schema that contains itself ends where it does so: what is beyond
accepts anything, and the service decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from chimera.errors import ConfigError
from chimera.tools.schema_compact import BY_NAME, ONE_OR_MORE

MOST_NODES = 1_500
"""Schemas in one argument. A large public API stays below it; one beyond it fits no window anyway."""
MOST_DEPTH = 16
_MOST_HOPS = 16
# Of OpenAPI, with no meaning in a JSON schema.
_FOREIGN = frozenset({"discriminator", "nullable", "xml"})
_ANNOTATIONS = frozenset({"description", "summary", "title", "default", "example", "examples", "deprecated"})
_BOUNDS = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))


class Schemas:
    """Resolves what one description refers to. References lead nowhere but into the description itself."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def found(self, node: Any) -> Any:
        """What a node is, where it may be a reference.

        Raises:
            ConfigError: the reference leads nowhere, out of the description, or in a circle.
        """
        for _ in range(_MOST_HOPS):
            if not isinstance(node, dict) or not isinstance(node.get("$ref"), str):
                return node
            node = self._target(node["$ref"])
        raise ConfigError(f"the references around {node['$ref']!r} lead in a circle")

    def standalone(self, schema: Any) -> dict[str, Any]:
        """A schema for arguments, without references. Properties that only the service may set are left out.

        Raises:
            ConfigError: a reference leads nowhere or out of the description.
        """
        copied = _Copy(self).schema(schema, (), 0)
        return copied if isinstance(copied, dict) else {}

    def _target(self, reference: str) -> Any:
        if not reference.startswith("#/"):
            raise ConfigError(
                f"the reference {reference!r} leads out of the description; bundle it into one file first"
            )
        node: Any = self._document
        for part in reference[2:].split("/"):
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(node, list) and key.isdecimal() and int(key) < len(node):
                node = node[int(key)]
            elif isinstance(node, dict) and key in node:
                node = node[key]
            else:
                raise ConfigError(f"the reference {reference!r} leads nowhere in the description")
        return node

    def target(self, reference: str) -> Any:
        """What a reference in a schema means."""
        return self.found(self._target(reference))


class _Copy:
    """One copy, with a count of what was copied."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._nodes = 0

    def schema(self, node: Any, within: tuple[str, ...], depth: int) -> Any:
        """A schema, or the value that stands where one may. `within` are the references that are being resolved."""
        if isinstance(node, list):
            return [self.schema(item, within, depth + 1) for item in node] if depth <= 2 * MOST_DEPTH else []
        if not isinstance(node, dict):
            return node
        self._nodes += 1
        reference = node.get("$ref")
        if isinstance(reference, str):
            return self._referred(node, reference, within, depth)
        if depth > MOST_DEPTH or self._nodes > MOST_NODES:
            return _outline(node)
        copied = {
            key: self._value(key, value, within, depth + 1)
            for key, value in node.items()
            if key not in _FOREIGN and not str(key).startswith("x-")
        }
        if isinstance(copied.get("properties"), dict) and isinstance(copied.get("required"), list):
            # What only the service sets is required in answers alone.
            gone = node["properties"].keys() - copied["properties"].keys()
            copied["required"] = [name for name in copied["required"] if name not in gone]
        return _translated(copied, nullable=node.get("nullable") is True)

    def _referred(self, node: dict[str, Any], reference: str, within: tuple[str, ...], depth: int) -> Any:
        target = self._schemas.target(reference)
        if reference in within or depth > MOST_DEPTH or self._nodes > MOST_NODES:
            return _outline(target)
        copied = self.schema(target, (*within, reference), depth + 1)
        beside = {key: value for key, value in node.items() if key != "$ref"}
        if not beside or not isinstance(copied, dict):
            return copied
        if beside.keys() <= _ANNOTATIONS:
            return {**copied, **beside}
        return {"allOf": [copied, self.schema(beside, within, depth + 1)]}

    def _value(self, key: str, value: Any, within: tuple[str, ...], depth: int) -> Any:
        if key in ONE_OR_MORE:
            return self.schema(value, within, depth)
        if key in BY_NAME and isinstance(value, dict):
            named = {
                name: inner if isinstance(inner, list) else self.schema(inner, within, depth)
                for name, inner in value.items()
            }
            if key != "properties":
                return named
            return {name: inner for name, inner in named.items() if not _is_read_only(inner)}
        return value


def _is_read_only(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("readOnly") is True


def _outline(node: Any) -> dict[str, Any]:
    """As much of a schema as says what kind of value it is."""
    kind = node.get("type") if isinstance(node, dict) else None
    return {"type": kind} if isinstance(kind, str) and not node.get("nullable") else {}


def _translated(schema: dict[str, Any], *, nullable: bool) -> dict[str, Any]:
    """From the dialect of OpenAPI 3.0 to that of JSON Schema, which 3.1 has anyway."""
    if nullable and isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
        if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
            schema["enum"] = [*schema["enum"], None]
    for exclusive, plain in _BOUNDS:
        if isinstance(schema.get(exclusive), bool) and schema.pop(exclusive) and plain in schema:
            schema[exclusive] = schema.pop(plain)
    return schema
