"""Calls made up from a schema, about half of them meant to be wrong, to compare what two schemas think of them."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_MOST_DEPTH = 8
_SPOILED_SHARE = 0.6
"""Of the calls. Not every change makes a call wrong."""
_BEYOND_SHARE = 0.15
"""Of the texts and numbers that have a bound: just beyond it."""
_MOST_LENGTH = 2_000
_MOST_ITEMS = 100
"""A schema may ask for more than fits into memory; calls that it refuses are worth as much here."""
_WRONG: tuple[Any, ...] = (None, "", "x" * 300, -1, 0, 10**9, 3.7, True, [], {}, [None], {"unexpected": 1})
# Some of these are annotations in a schema, and none of them is one in a call.
_NAMES = ("unexpected", "title", "default", "example", "description", "x")
_KINDS = ("string", "integer", "number", "boolean", "array", "object")


class Comparison(Struct, frozen=True, kw_only=True):
    """What two schemas think of the same calls."""

    calls: int = 0
    valid: int = 0
    """To the first schema."""
    differing: int = 0
    """Calls that one lets through and the other does not, or that both refuse for different places or keywords."""

    def __add__(self, other: Comparison) -> Comparison:
        return Comparison(
            calls=self.calls + other.calls,
            valid=self.valid + other.valid,
            differing=self.differing + other.differing,
        )


def compare(full: Mapping[str, Any], compact: Mapping[str, Any], *, calls: int, seed: int) -> Comparison:
    """Judge the same calls by two schemas of arguments.

    Args:
        full: the schema that the calls are made from.
        compact: the other one.
        calls: how many.
        seed: decides which.
    """
    one, other = _validator(full), _validator(compact)
    valid = differing = 0
    for arguments in sample_calls(full, calls=calls, seed=seed):
        faults = _faults(one, arguments)
        valid += not faults
        differing += faults != _faults(other, arguments)
    return Comparison(calls=calls, valid=valid, differing=differing)


def is_sound(schema: Mapping[str, Any]) -> bool:
    """Whether a schema is one by the rules of its own dialect, so that calls can be made from it."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    from chimera.tools.foreign import schema_faults

    try:
        validator_for(schema, default=Draft202012Validator).check_schema(dict(schema))
    except schema_faults():
        return False
    return True


def sample_calls(schema: Mapping[str, Any], *, calls: int, seed: int) -> Iterator[Any]:
    """Arguments made from a schema: as it wants them, and spoiled in one place."""
    random = Random(seed)  # noqa: S311  (nothing secret)
    sampler = _Sampler(schema, random)
    for _ in range(calls):
        arguments = sampler.value(schema, 0)
        if random.random() < _SPOILED_SHARE:
            arguments = _spoiled(arguments, random)
        yield arguments


def _validator(schema: Mapping[str, Any]) -> Validator:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    kind = validator_for(schema, default=Draft202012Validator)
    return kind(schema, registry=Registry(), format_checker=kind.FORMAT_CHECKER)


def _faults(validator: Validator, arguments: Any) -> frozenset[Any]:
    """Each place that is refused, with the keyword that refuses it; empty for a valid call."""
    from chimera.tools.foreign import schema_faults

    try:
        return frozenset(
            (tuple(map(str, error.absolute_path)), tuple(map(str, error.absolute_schema_path)))
            for error in validator.iter_errors(arguments)
        )
    except schema_faults() as fault:
        # A schema that is broken is broken in the same way in both.
        return frozenset({type(fault).__name__})


class _Sampler:
    """Makes values that a schema is likely to take."""

    def __init__(self, root: Mapping[str, Any], random: Random) -> None:
        self._root = root
        self._random = random

    def value(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, dict) or depth > _MOST_DEPTH:
            return self._random.choice(_WRONG)
        schema = self._flat(schema)
        for key in ("const", "enum", "examples"):
            if key in schema and (key != "examples" or self._random.random() < 0.3):
                options = [schema[key]] if key == "const" else schema[key]
                if isinstance(options, list) and options:
                    return self._random.choice(options)
        if "example" in schema and self._random.random() < 0.3:
            return schema["example"]
        return self._of_kind(self._kind(schema), schema, depth)

    def _flat(self, schema: dict[str, Any]) -> dict[str, Any]:
        """One way to satisfy references and combinations, as far as they can be put side by side."""
        for _ in range(_MOST_DEPTH):
            if isinstance(reference := schema.get("$ref"), str):
                schema = _beside({k: v for k, v in schema.items() if k != "$ref"}, self._target(reference))
            elif options := next((schema[key] for key in ("oneOf", "anyOf") if schema.get(key)), None):
                rest = {k: v for k, v in schema.items() if k not in {"oneOf", "anyOf"}}
                schema = _beside(rest, self._random.choice(options))
            elif parts := schema.get("allOf"):
                schema = {k: v for k, v in schema.items() if k != "allOf"}
                for part in parts:
                    schema = _beside(schema, part)
            else:
                break
        return schema

    def _target(self, reference: str) -> Any:
        node: Any = self._root
        for part in reference.removeprefix("#").strip("/").split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            node = node.get(key, {}) if isinstance(node, dict) else {}
        return node

    def _kind(self, schema: Mapping[str, Any]) -> str:
        kind = schema.get("type")
        if isinstance(kind, list) and kind:
            return str(self._random.choice(kind))
        if isinstance(kind, str):
            return kind
        implied = next(
            (k for key, k in (("properties", "object"), ("items", "array")) if key in schema), None
        )
        return implied or self._random.choice(_KINDS)

    def _of_kind(self, kind: str, schema: dict[str, Any], depth: int) -> Any:
        match kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                least = min(schema.get("minItems", 0), _MOST_ITEMS)
                most = min(schema.get("maxItems", least + 2), least + 2)
                count = self._random.randint(least, max(least, most))
                return [self.value(schema.get("items", True), depth + 1) for _ in range(count)]
            case "string":
                return self._text(schema)
            case "integer" | "number":
                return self._number(schema, whole=kind == "integer")
            case "boolean":
                return self._random.random() < 0.5
            case _:
                return None

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties", {})
        required = schema.get("required", ())
        # Deep inside only what must be there, so that no call grows without end.
        optional = 0.5 if depth < 3 else 0.1
        made = {
            name: self.value(inner, depth + 1)
            for name, inner in properties.items()
            if name in required or self._random.random() < optional
        }
        more = schema.get("additionalProperties")
        if isinstance(more, dict) and self._random.random() < 0.5:
            made["more"] = self.value(more, depth + 1)
        return made | {name: None for name in required if name not in made}

    def _text(self, schema: Mapping[str, Any]) -> str:
        if (known := _OF_FORMAT.get(str(schema.get("format")))) and self._random.random() < 0.8:
            return known
        least = min(schema.get("minLength", 0), _MOST_LENGTH)
        most = min(schema.get("maxLength", least + 12), least + 12)
        length = self._random.randint(least, max(least, most))
        above = schema.get("maxLength", -2) + 1
        beyond = [size for size in (least - 1, above) if 0 <= size <= _MOST_LENGTH]
        if beyond and self._random.random() < _BEYOND_SHARE:
            length = self._random.choice(beyond)
        return "".join(self._random.choices(string.ascii_letters + " -_", k=length))

    def _number(self, schema: Mapping[str, Any], *, whole: bool) -> float:
        least = schema.get("minimum", schema.get("exclusiveMinimum", -5))
        most = schema.get("maximum", schema.get("exclusiveMaximum", least + 100))
        beyond = [schema[key] + step for key, step in _BEYOND.items() if key in schema]
        if beyond and self._random.random() < _BEYOND_SHARE:
            return float(self._random.choice(beyond))
        step = schema.get("multipleOf")
        if isinstance(step, int) and step > 0:
            return step * self._random.randint(
                -(-int(least) // step), max(int(most) // step, -(-int(least) // step))
            )
        if whole:
            return self._random.randint(int(least), max(int(least), int(most)))
        return float(self._random.uniform(least, most))


_BEYOND = {"minimum": -1, "exclusiveMinimum": 0, "maximum": 1, "exclusiveMaximum": 0}
_OF_FORMAT = {
    "date-time": "2026-01-31T12:00:00Z",
    "date": "2026-01-31",
    "email": "ada@example.org",
    "uri": "https://example.org/x",
    "uuid": "7f0c1c8a-3a52-4b8e-9d1e-0f6f2f0d9c11",
    "ipv4": "192.0.2.1",
}


def _beside(one: dict[str, Any], other: Any) -> dict[str, Any]:
    if not isinstance(other, dict):
        return one
    joined = {**one, **other}
    for key in ("properties", "required"):
        if key in one and key in other:
            joined[key] = {**one[key], **other[key]} if key == "properties" else [*one[key], *other[key]]
    return joined


def _spoiled(value: Any, random: Random) -> Any:
    """The value with one place of it changed."""
    if isinstance(value, dict) and random.random() < 0.9:
        names = list(value)
        match random.choice(("add", "drop", "change", "change")):
            case "drop" if names:
                gone = random.choice(names)
                return {name: inner for name, inner in value.items() if name != gone}
            case "change" if names:
                name = random.choice(names)
                return {**value, name: _spoiled(value[name], random)}
            case _:
                return {**value, random.choice(_NAMES): random.choice(_WRONG)}
    if isinstance(value, list) and value and random.random() < 0.7:
        index = random.randrange(len(value))
        return [*value[:index], _spoiled(value[index], random), *value[index + 1 :]]
    return random.choice(_WRONG)
