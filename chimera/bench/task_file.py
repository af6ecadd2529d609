"""Reading `task.toml`: every value checked where it is read, every complaint with file and key."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from chimera.errors import ConfigError


class Table:
    """One table of a TOML file. `name` is its dotted name, empty for the file itself.

    Raises:
        ConfigError: from every method, when a value is not what it must be.
    """

    def __init__(self, path: Path, values: Mapping[str, Any], name: str = "") -> None:
        self.path = path
        self._values = values
        self._name = name

    @classmethod
    def of_file(cls, path: Path) -> Table:
        """The whole of a file."""
        try:
            return cls(path, tomllib.loads(path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as fault:
            raise ConfigError(f"{path}: cannot be read: {fault}") from fault
        except tomllib.TOMLDecodeError as fault:
            raise ConfigError(f"{path}: not TOML: {fault}") from fault

    def check_keys(self, known: Iterable[str], *, unsupported: Iterable[str] = ()) -> None:
        """Refuse keys that are unknown, and those of the format that this runner cannot do."""
        known, unsupported = tuple(known), tuple(unsupported)
        for key in self._values:
            if key in unsupported:
                raise self.fault(key, "is part of the task format, but not of what this runner can do")
            if key not in known:
                close = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
                raise self.fault(key, f"is unknown; {hint}")

    def has(self, key: str) -> bool:
        """Whether the key is there, with any value but an empty one or none."""
        return bool(self._values.get(key))

    def table(self, key: str) -> Table:
        """A table in this one; an empty one where it is missing."""
        value = self._values.get(key, {})
        if not isinstance(value, dict):
            raise self._wrong(key, "a table")
        return Table(self.path, value, self._dotted(key))

    def text(self, key: str, default: str | None = None) -> str:
        """Text that is not empty; without a default it must be there."""
        value = self._values.get(key, default)
        if value is None:
            raise self.fault(key, "is missing")
        if not isinstance(value, str) or not (value.strip() or key not in self._values):
            raise self._wrong(key, "text")
        return value

    def is_text(self, key: str) -> bool:
        """Whether there is text that is not empty."""
        value = self._values.get(key)
        return isinstance(value, str) and bool(value.strip())

    def one_of(self, key: str, choices: tuple[str, ...], default: str) -> str:
        """One of a closed set."""
        value = self._values.get(key, default)
        if value not in choices:
            raise self._wrong(key, f"one of: {', '.join(choices)}")
        return str(value)

    def seconds(self, key: str, default: float) -> float:
        """A positive number."""
        value = self._values.get(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
            raise self._wrong(key, "a number above 0")
        return float(value)

    def whole(self, key: str) -> int | None:
        """A whole number of 1 or more, if given."""
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self._wrong(key, "a whole number, 1 or more")
        return value

    def flag(self, key: str) -> bool:
        """True or false; false where it is missing."""
        value = self._values.get(key, False)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; empty where it is missing."""
        value = self._values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise self._wrong(key, "a list of texts")
        return tuple(value)

    def variables(self, key: str) -> Mapping[str, str]:
        """Environment variables; empty where it is missing."""
        value = self._values.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            raise self._wrong(key, "a table of texts")
        return value

    def tables(self, key: str, *, text_key: str) -> tuple[Table, ...] | None:
        """A list of tables, if given. A bare text in it is short for a table with `text_key` alone."""
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, dict | str) for item in value):
            raise self._wrong(key, "a list of tables or texts")
        items = [{text_key: item} if isinstance(item, str) else item for item in value]
        return tuple(Table(self.path, item, f"{self._dotted(key)}[{n}]") for n, item in enumerate(items))

    def fault(self, key: str, what: str) -> ConfigError:
        """The error to raise about a key."""
        return ConfigError(f"{self.path}: {self._dotted(key)} {what}")

    def _wrong(self, key: str, wanted: str) -> ConfigError:
        return self.fault(key, f"is {self._values.get(key)!r}; it must be {wanted}")

    def _dotted(self, key: str) -> str:
        return f"{self._name}.{key}" if self._name else key
