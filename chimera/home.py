"""Paths that depend on the home folder of the user, who may have none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chimera.errors import ConfigError


def expanded(path: str | Path) -> Path:
    """An absolute path, `~` at its beginning written out.

    Raises:
        ConfigError: nobody knows the home that it means.
    """
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError as fault:
        raise ConfigError(f"there is no home folder for {str(path)!r}: write the path without ~") from fault


@contextmanager
def home_known(variable: str) -> Iterator[None]:
    """Where a folder in the home is asked for; `variable` is what can name another one.

    Raises:
        ConfigError: there is no home.
    """
    try:
        yield
    except RuntimeError as fault:
        raise ConfigError(
            f"this user has no home folder: set HOME to one, an absolute path, or {variable} to the folder to use"
        ) from fault
