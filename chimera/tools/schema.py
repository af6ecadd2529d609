"""JSON schemas from typed signatures, and the check of a call's arguments against them.

Covers what our own tools use: strings, integers, numbers, booleans, enumerations, arrays and typed dictionaries.
"""

from __future__ import annotations

import inspect
import json
import math
import types
from collections.abc import Callable, Mapping
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from chimera.core.json_text import ends_in_the_middle
from chimera.errors import ToolError

_SCALARS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_PREVIEW_CHARACTERS = 300
_CUT = "They end in the middle, as if cut at the output limit: if they were long, write less at a time, in several calls. "


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The JSON schema of a function's keyword arguments.

    A parameter without a default is required. `Annotated[T, "text"]` gives its description,
    `Annotated[T, {"minLength": 1}]` adds keywords. `T | None` is `T`: absent and null mean the same.
    """
    hints = get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters
    properties = {name: _schema(hints[name]) for name in parameters}
    required = [name for name, p in parameters.items() if p.default is inspect.Parameter.empty]
    return _object(properties, required)


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _schema(hint: Any) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        extra: dict[str, Any] = {}
        for note in arguments[1:]:
            extra |= {"description": note} if isinstance(note, str) else note
        return _schema(arguments[0]) | extra
    if origin in {Required, NotRequired}:
        return _schema(arguments[0])
    if origin in {Union, types.UnionType}:
        (inner,) = (a for a in arguments if a is not type(None))
        return _schema(inner)
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": _schema(arguments[0])}
    if is_typeddict(hint):
        fields = get_type_hints(hint, include_extras=True)
        # With postponed annotations `__required_keys__` does not see NotRequired.
        required = [
            name
            for name, inner in fields.items()
            if name in hint.__required_keys__ and get_origin(inner) is not NotRequired
        ]
        return _object({name: _schema(inner) for name, inner in fields.items()}, required)
    return {"type": _SCALARS[hint]}


def parse_arguments(text: str) -> dict[str, Any]:
    """The arguments of a call as an object; empty text means no arguments.

    Raises:
        ToolError: not JSON, or not an object. Nothing of a broken text is ever used.
    """
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_doubles)
    except (ValueError, RecursionError) as fault:
        raise ToolError(
            f"The arguments are not valid JSON ({fault}), so nothing was run. They began: {text[:_PREVIEW_CHARACTERS]!r}. "
            f"{_CUT if ends_in_the_middle(text) else ''}Send the call again with one complete JSON object."
        ) from fault
    if not isinstance(value, dict):
        raise ToolError(f"The arguments must be a JSON object, not {_kind(value)}. Nothing was run.")
    return value


def check_arguments(values: Mapping[str, Any], schema: Mapping[str, Any], *, tool: str) -> dict[str, Any]:
    """The arguments, checked and without nulls for optional ones. A number or boolean written as text is read as such.

    Raises:
        ToolError: names the place, what it holds and what belongs there.
    """
    checked: dict[str, Any] = _check(dict(values), schema, "")
    del tool
    return checked


def _check(value: Any, schema: Mapping[str, Any], where: str) -> Any:
    kind = schema.get("type")
    if kind == "object":
        return _check_object(value, schema, where)
    if kind == "array":
        if not isinstance(value, list):
            raise ToolError(f"{where} must be an array, not {_kind(value)}.")
        if len(value) < schema.get("minItems", 0):
            raise ToolError(f"{where} needs at least {schema['minItems']} item(s).")
        return [
            _check(item, schema.get("items", {}), f"{where}[{index}]") for index, item in enumerate(value)
        ]
    value = _scalar(value, kind, where)
    _check_bounds(value, schema, where)
    return value


def _check_object(value: Any, schema: Mapping[str, Any], where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ToolError(f"{where or 'The arguments'} must be an object, not {_kind(value)}.")
    properties: Mapping[str, Any] = schema.get("properties", {})
    required = schema.get("required", ())
    prefix = f"{where}." if where else ""
    if unknown := [name for name in value if name not in properties]:
        known = ", ".join(properties)
        raise ToolError(f"Unknown argument {prefix + unknown[0][:80]!r}; the arguments are: {known}.")
    if missing := [name for name in required if value.get(name) is None]:
        raise ToolError(f"The argument {prefix}{missing[0]} is required.")
    return {
        name: _check(item, properties[name], prefix + name)
        for name, item in value.items()
        if item is not None
    }


def _scalar(value: Any, kind: str | None, where: str) -> Any:
    match kind, value:
        case ("boolean", bool()) | ("string", str()):
            return value
        case (("integer" | "number"), bool()):
            pass
        case "integer", int():
            return value
        case "integer", float() if value.is_integer():
            return int(value)
        case "number", int() | float() if math.isfinite(value):
            return value
        case "boolean", ("true" | "false"):
            return value == "true"
        case (("integer" | "number"), str()):
            try:
                number = int(value) if kind == "integer" else float(value)
            except ValueError:
                number = math.nan
            if math.isfinite(number):
                return number
        case _:
            pass
    raise ToolError(f"{where} must be of type {kind}, not {_kind(value)}.")


def _check_bounds(value: Any, schema: Mapping[str, Any], where: str) -> None:
    if "enum" in schema and value not in schema["enum"]:
        raise ToolError(f"{where} is {value!r}; it must be one of: {', '.join(map(str, schema['enum']))}.")
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        raise ToolError(f"{where} must not be empty.")
    if not isinstance(value, str) and "minimum" in schema and value < schema["minimum"]:
        raise ToolError(f"{where} is {value}; it must be at least {schema['minimum']}.")
    if not isinstance(value, str) and "maximum" in schema and value > schema["maximum"]:
        raise ToolError(f"{where} is {value}; it must be at most {schema['maximum']}.")


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _refuse_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        raise ValueError("a key appears twice in one object")
    return dict(pairs)
