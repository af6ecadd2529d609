"""What all imported tools share: their names, the check of their arguments, and the files that a user names for them."""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import math
import re
import time
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, field

from chimera.core.tokens import GROUP_SEPARATOR
from chimera.errors import ConfigError, ToolError
from chimera.tools.base import Check, Tool
from chimera.tools.schema_compact import BY_NAME, ONE_OR_MORE
from chimera.tools.wording import one_line, size_text
from chimera.workspace.terminal_text import escaped

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

MOST_NAME = 64
"""Characters of a tool name; OpenAI and Anthropic both refuse longer ones and any but letters, digits, `_` and `-`."""
_MOST_SERVER = 24
_MARK = 6
_MOST_FILE_BYTES = 32_000_000
_SHOWN_FAULT = 300
_MOST_STEPS = 20_000
"""Rules of a schema applied to one call: a second at the most. A large one of a public service takes some hundred."""
_PROSE = ("description", "title", "$comment")
# The keywords that match regular expressions, and one that asks again what they matched.
_MATCHING = ("pattern", "patternProperties", "unevaluatedProperties")


class Deadline(Struct, kw_only=True):
    """When the time of the run is up, for calls that wait for somebody else."""

    ends_at: float = math.inf
    """By the clock; the run sets it."""
    clock: Callable[[], float] = time.monotonic

    def limit_s(self, most_s: float) -> float:
        """How long a call may take that may take `most_s`.

        Raises:
            ToolError: no time is left.
        """
        left_s = self.ends_at - self.clock()
        if left_s <= 0:
            raise ToolError("The time of the run is up, so nothing was sent.")
        return min(most_s, left_s)


class Imported(Struct, frozen=True, kw_only=True):
    """Tools from elsewhere, and what a run should know about them."""

    tools: tuple[Tool, ...] = ()
    notices: tuple[str, ...] = ()
    """What was left out, and why."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Values by name that must not get into a request, a record or a screen."""
    deadline: Deadline = field(default_factory=Deadline)
    """What all calls of these tools obey."""


def server_name(text: str) -> str:
    """A name for a server that can stand at the beginning of tool names."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:_MOST_SERVER].rstrip("_")
    return plain if plain[:1].isalpha() else f"s_{plain}".rstrip("_")


def tool_name(server: str, name: str, taken: Collection[str]) -> str:
    """`server__name` in the letters and the length that every provider takes, and none of those `taken`."""
    full = f"{server}{GROUP_SEPARATOR}{re.sub(r'[^A-Za-z0-9_-]+', '_', name) or 'tool'}"
    if len(full) <= MOST_NAME and full not in taken:
        return full
    told_apart = (f"{name}{number or ''}".encode("utf-8", "replace") for number in itertools.count())
    marks = (hashlib.sha256(text).hexdigest()[:_MARK] for text in told_apart)
    stem = full[: MOST_NAME - _MARK - 1]
    return next(made for mark in marks if (made := f"{stem}_{mark}") not in taken)


def schema_check(parameters: Mapping[str, Any]) -> Check:
    """The check of arguments against a JSON schema that was made elsewhere. A schema that is broken passes everything.

    Its regular expressions are not matched, because one of them can take years; the server judges them. Neither is a
    schema followed that leads on and on.
    """
    steps = _Steps()

    @cache
    def validator() -> Validator:
        from jsonschema import Draft202012Validator
        from jsonschema.validators import extend, validator_for
        from referencing import Registry

        base: Any = validator_for(parameters, default=Draft202012Validator)
        rules = {name: steps.counted(rule) for name, rule in base.VALIDATORS.items() if name not in _MATCHING}
        if additional := base.VALIDATORS.get("additionalProperties"):
            rules["additionalProperties"] = steps.counted(_unless_patterns(additional))
        bounded: Any = extend(  # type: ignore[no-untyped-call]
            base, dict.fromkeys(_MATCHING, _no_rule) | rules
        )
        # An empty registry fetches nothing: a reference that leads out of the schema does not resolve.
        return cast("Validator", bounded(parameters, registry=Registry()))

    def fault_of(values: Mapping[str, Any]) -> str | None:
        steps.taken = 0
        return _fault(validator, values)

    def check(values: dict[str, Any]) -> dict[str, Any]:
        _check_encodable(values)
        fault = fault_of(values)
        if fault is None:
            return values
        # Models write null for "not given".
        given = {name: value for name, value in values.items() if value is not None}
        if given != values and fault_of(given) is None:
            return given
        raise ToolError(f"{fault} Nothing was sent. Make the call again with arguments that fit.")

    return check


def shown_schema(schema: Any) -> Any:
    """A schema as it is advertised: what is said in it holds nothing that nobody sees. What it accepts stays."""
    if isinstance(schema, list):
        return [shown_schema(item) for item in schema]
    return {k: _shown(k, v) for k, v in schema.items()} if isinstance(schema, dict) else schema


def _shown(key: str, value: Any) -> Any:
    if key in _PROSE and isinstance(value, str):
        return escaped(value)
    if key in ONE_OR_MORE:
        return shown_schema(value)
    if key in BY_NAME and isinstance(value, dict):
        return {name: shown_schema(inner) for name, inner in value.items()}
    return value


class _TooManyStepsError(Exception):
    """A schema leads on and on."""


class _Steps(Struct):
    """Counts the rules that are applied to the arguments of one call."""

    taken: int = 0

    def counted(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """The rule, which is not applied any more once there were too many."""

        def apply(*arguments: Any) -> Any:
            self.taken += 1
            if self.taken > _MOST_STEPS:
                raise _TooManyStepsError
            return rule(*arguments)

        return apply


def _no_rule(*_arguments: Any) -> tuple[()]:
    return ()


def _unless_patterns(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule on properties that no pattern names, where there are no patterns."""

    def apply(validator: Any, value: Any, instance: Any, schema: Mapping[str, Any]) -> Any:
        return () if "patternProperties" in schema else rule(validator, value, instance, schema)

    return apply


def _check_encodable(values: Mapping[str, Any]) -> None:
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError as fault:
        half = fault.object[fault.start : fault.start + 1]
        raise ToolError(
            f"The arguments hold {half!a}, half a character, which cannot be sent. Nothing was sent. Make the call "
            "again without it."
        ) from fault


def schema_faults() -> tuple[type[Exception], ...]:
    """What comes of judging by a schema that is none or does not end."""
    from jsonschema.exceptions import SchemaError, UndefinedTypeCheck, UnknownType
    from referencing.exceptions import Unresolvable

    own = (_TooManyStepsError, Unresolvable, SchemaError, UnknownType, UndefinedTypeCheck)
    return (*own, RecursionError, TypeError, ValueError, ArithmeticError, AttributeError, LookupError)


def _fault(validator: Callable[[], Validator], values: Mapping[str, Any]) -> str | None:
    """What is wrong with the arguments, to judge by the schema; None also where the schema itself is at fault."""
    from jsonschema.exceptions import best_match

    try:
        error = best_match(validator().iter_errors(values))
    except schema_faults():
        return None
    if error is None:
        return None
    place = ".".join(str(part) for part in error.absolute_path)
    return f"{'Argument ' + place if place else 'The arguments'}: {one_line(error.message, _SHOWN_FAULT)}."


def named_file(path: Path, what: str) -> str:
    """The text of a file that the user named.

    Raises:
        ConfigError: it cannot be read, is no text or is too large.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(_MOST_FILE_BYTES + 1)
        text = content.decode("utf-8-sig")
    except OSError as fault:
        reason = (fault.strerror or str(fault)).lower()
        raise ConfigError(f"the {what} {str(path)!r} cannot be read: {reason}") from fault
    except UnicodeDecodeError as fault:
        raise ConfigError(f"the {what} {str(path)!r} is not UTF-8 text (byte {fault.start})") from fault
    if len(content) > _MOST_FILE_BYTES:
        raise ConfigError(f"the {what} {str(path)!r} is larger than {size_text(_MOST_FILE_BYTES)}")
    return text


def parsed_json(text: str, what: str) -> Any:
    """The value of a JSON text.

    Raises:
        ConfigError: it is none.
    """
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as fault:
        raise ConfigError(f"{what} is not JSON: {fault}") from fault


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON")


def check_known(names: Collection[str], known: Collection[str], where: str) -> None:
    """Refuse names that mean nothing.

    Raises:
        ConfigError: with a suggestion.
    """
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known))}"
            raise ConfigError(f"{where} has an unknown key {name!r}; {hint}")
