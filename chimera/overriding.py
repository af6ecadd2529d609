"""The mark of overridden methods, which Python has from 3.12 on, without the import of what has it for older ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing_extensions import override as override  # noqa: PLC0414  (type checkers know it by this)
else:
    _Method = TypeVar("_Method")

    def override(method: _Method) -> _Method:
        """Mark a method as one that overrides another."""
        return method
