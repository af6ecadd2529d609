"""Script files: what `scripted:FILE` plays.

YAML (`.yaml`, `.yml`) has `replies` and, if wanted, `window` at the top:

    window: 8000                          # tokens; without it the window is unknown
    replies:
      - call: read_file                   # one call: name and arguments
        arguments: {path: calc.py}
      - text: Both at once.               # several calls: a list; arguments as text are sent as they are
        calls:
          - {name: shell, arguments: {command: pytest -q}}
          - {name: shell, arguments: '{"command": ', id: call_broken}
        usage: {input_tokens: 900, output_tokens: 20, cached_input_tokens: 0}
        delay_s: 0.1
      - when: "PORT=8123"                 # played only if the prompt contains this text, else skipped
        text: I remember the port.
      - unless: "PORT=8123"               # played only if the prompt does not contain it
        text: I forgot the port.
      - error: overflow                   # overflow, tools, auth, throttle or server
        limit: 4096                       # overflow: the window that the refusal names
        message: too large
        retry_after_s: 0                  # throttle and server
      - text: cut
        finish_reason: length             # stop, tool_calls, length or content_filter
        repeat: 3                         # the same entry several times

JSONL (any other ending) has one reply a line; a first line `{"window": 8000}` sets the window.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from chimera.core.messages import Usage
from chimera.core.model import FinishReason
from chimera.errors import ConfigError
from chimera.models.scripted import ErrorKind, Reply, ScriptedCall, ScriptedError, ScriptedModel

_REPLY_KEYS = (
    "text", "call", "arguments", "id", "calls", "finish_reason", "usage", "delay_s", "when", "unless",
    "error", "message", "limit", "retry_after_s", "repeat",
)  # fmt: skip
_CALL_KEYS = ("name", "arguments", "id")
_USAGE_KEYS = Usage.__struct_fields__


def load_script(path: Path | str) -> ScriptedModel:
    """The scripted model of a file, named `scripted:` and the path as given.

    Raises:
        ConfigError: no such file, not YAML or JSONL, or an entry that cannot be played; it names line or entry.
    """
    given, path = path, Path(path)
    try:
        content = path.read_text(encoding="utf-8")
    except FileNotFoundError as fault:
        raise ConfigError(f"the script {str(path)!r} does not exist") from fault
    except (OSError, UnicodeDecodeError) as fault:
        raise ConfigError(f"the script {str(path)!r} cannot be read: {fault}") from fault
    yaml = path.suffix.lower() in {".yaml", ".yml"}
    window, entries = _from_yaml(content, path) if yaml else _from_lines(content, path)
    replies = [reply for where, entry in entries for reply in _Entry(where, entry).replies()]
    if not replies:
        raise ConfigError(f"the script {str(path)!r} has no replies")
    return ScriptedModel(replies, window=window, name=f"scripted:{given}")


Entries = list[tuple[str, Any]]


def _from_yaml(content: str, path: Path) -> tuple[int | None, Entries]:
    import yaml

    try:
        whole = yaml.safe_load(content)
    except yaml.YAMLError as fault:
        raise ConfigError(f"the script {str(path)!r} is not YAML: {' '.join(str(fault).split())}") from fault
    if not isinstance(whole, dict) or not isinstance(whole.get("replies"), list):
        raise ConfigError(f"the script {str(path)!r} needs a list `replies` at the top")
    _check_keys(whole, ("window", "replies"), f"{str(path)!r}")
    entries = [(f"{str(path)!r}, reply {n}", entry) for n, entry in enumerate(whole["replies"], 1)]
    return _window(whole, f"{str(path)!r}"), entries


def _from_lines(content: str, path: Path) -> tuple[int | None, Entries]:
    entries: Entries = []
    for n, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{str(path)!r}, line {n}"
        try:
            entries.append((where, json.loads(line)))
        except ValueError as fault:
            raise ConfigError(f"{where}: not JSON: {fault}") from fault
    if entries and isinstance(entries[0][1], dict) and "window" in entries[0][1]:
        where, head = entries.pop(0)
        _check_keys(head, ("window",), where)
        return _window(head, where), entries
    return None, entries


def _window(head: Mapping[str, Any], where: str) -> int | None:
    window = head.get("window")
    if window is not None and (not isinstance(window, int) or isinstance(window, bool) or window < 1):
        raise ConfigError(f"{where}: window is {window!r}; it must be a whole number of tokens, 1 or more")
    return window


class _Entry:
    """One entry of a file on its way to a reply."""

    def __init__(self, where: str, values: Any) -> None:
        if not isinstance(values, dict):
            raise ConfigError(f"{where}: {values!r} is not a reply; write it as `text: ...` or `call: ...`")
        _check_keys(values, _REPLY_KEYS, where)
        self._where = where
        self._values: dict[str, Any] = values

    def replies(self) -> list[Reply]:
        """The reply, as often as `repeat` says."""
        values = self._values
        if not {"text", "call", "calls", "error", "finish_reason"} & set(values):
            raise self._fault("it has neither text, call, calls nor error")
        reply = Reply(
            text=self._text("text") or "",
            calls=self._calls(),
            finish_reason=self._choice("finish_reason", get_args(FinishReason)),
            usage=self._usage(),
            delay_s=self._number("delay_s") or 0.0,
            error=self._error(),
            when=self._text("when"),
            unless=self._text("unless"),
        )
        return [reply] * (self._whole("repeat") or 1)

    def _calls(self) -> tuple[ScriptedCall, ...]:
        listed = self._values.get("calls", [])
        if not isinstance(listed, list):
            raise self._fault("calls must be a list")
        if "call" in self._values:
            first = {key: self._values[key] for key in ("arguments", "id") if key in self._values}
            listed = [first | {"name": self._values["call"]}, *listed]
        elif {"arguments", "id"} & set(self._values):
            raise self._fault("arguments and id belong to `call`")
        return tuple(self._call(values) for values in listed)

    def _call(self, values: Any) -> ScriptedCall:
        if not isinstance(values, dict):
            raise self._fault(f"{values!r} is not a call; write {{name: ..., arguments: ...}}")
        _check_keys(values, _CALL_KEYS, self._where)
        name, arguments, given = values.get("name"), values.get("arguments", {}), values.get("id")
        if not isinstance(name, str):
            raise self._fault(f"the name of a call is {name!r}; it must be text")
        if not isinstance(arguments, dict | str):
            raise self._fault(f"the arguments of {name!r} must be a mapping, or text to be sent as it is")
        if not isinstance(given, str | None):
            raise self._fault(f"the id of {name!r} is {given!r}; it must be text")
        if isinstance(arguments, dict):
            try:
                json.dumps(arguments)
            except TypeError as fault:
                raise self._fault(f"the arguments of {name!r} are not JSON: {fault}; quote them") from fault
        return ScriptedCall(name, arguments, given)

    def _error(self) -> ScriptedError | None:
        kind: ErrorKind | None = self._choice("error", get_args(ErrorKind))
        if kind is None:
            if extra := {"message", "limit", "retry_after_s"} & set(self._values):
                raise self._fault(f"{min(extra)} belongs to `error`")
            return None
        message, limit = self._text("message") or "", self._whole("limit")
        return ScriptedError(kind, message, limit, self._number("retry_after_s"))

    def _usage(self) -> Usage | None:
        values = self._values.get("usage")
        if values is None:
            return None
        if not isinstance(values, dict):
            raise self._fault("usage must be a mapping such as {input_tokens: 900, output_tokens: 20}")
        _check_keys(values, _USAGE_KEYS, self._where)
        for key, value in values.items():
            if not isinstance(value, int | float | None) or (value is None and key != "cost_usd"):
                raise self._fault(f"usage.{key} is {value!r}; it must be a number")
        return Usage(**values)

    def _text(self, key: str) -> str | None:
        value = self._values.get(key)
        if not isinstance(value, str | None):
            raise self._fault(f"{key} is {value!r}; it must be text (quote it)")
        return value

    def _number(self, key: str) -> float | None:
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
            raise self._fault(f"{key} is {value!r}; it must be a number, 0 or more")
        return float(value)

    def _whole(self, key: str) -> int | None:
        value = self._values.get(key)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise self._fault(f"{key} is {value!r}; it must be a whole number, 1 or more")
        return value

    def _choice(self, key: str, choices: tuple[str, ...]) -> Any:
        value = self._values.get(key)
        if value is not None and value not in choices:
            raise self._fault(f"{key} is {value!r}; it must be one of: {', '.join(choices)}")
        return value

    def _fault(self, what: str) -> ConfigError:
        return ConfigError(f"{self._where}: {what}")


def _check_keys(values: Mapping[Any, Any], known: tuple[str, ...], where: str) -> None:
    for key in values:
        if key not in known:
            close = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
            raise ConfigError(f"{where}: unknown key {key!r}; {hint}")
