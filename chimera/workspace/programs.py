"""Finding programs that chimera itself starts, so that a repository can never supply them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def absolute_entries(search_path: str) -> list[str]:
    """The entries of a PATH value that are absolute folders. An empty or relative one means the working directory."""
    return [entry for entry in search_path.split(os.pathsep) if entry.startswith("/")]


def find_program(name: str, search_path: str, *, outside: Path) -> Path | None:
    """The first program of that name on `search_path`, or None.

    `outside` is the workspace, a real path: what lies in it, and links that lead into it, are passed over.
    """
    for entry in absolute_entries(search_path):
        found = shutil.which(name, path=entry)
        if found is None:
            continue
        if not any(Path(p).is_relative_to(outside) for p in (found, Path(os.path.realpath(found)))):
            return Path(found)
    return None
