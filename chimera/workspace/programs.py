"""Finding programs that chimera itself starts, so that a repository can never supply them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from chimera.workspace.files import real_path
from chimera.workspace.git_folders import enclosing_checkouts

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
_MOST_LINKS = 40
"""As many as Linux follows."""


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except OSError:  # it was removed, so nothing is in it
        return Path("/")


# The demo leaves it for a folder of its own, and PATH stays what it was.
_STARTED_IN = _working_directory()


def absolute_entries(search_path: str) -> list[str]:
    """The entries of a PATH value that are absolute folders. An empty or relative one means the working directory."""
    return [entry for entry in search_path.split(os.pathsep) if entry.startswith("/")]


def trusted_entries(search_path: str, *, outside: Path) -> list[str]:
    """The absolute entries that lie in none of the `untrusted_folders`, real paths."""
    folders = untrusted_folders(outside)
    entries = dict.fromkeys(os.path.realpath(entry) for entry in absolute_entries(search_path))
    return [entry for entry in entries if not _is_in(Path(entry), folders)]


def find_program(name: str, search_path: str, *, outside: Path) -> Path | None:
    """The first program of that name on `search_path`, or None.

    What lies in one of the `untrusted_folders` of the workspace `outside` is passed over, and so are links that lead into
    or through one.
    """
    folders = untrusted_folders(outside)
    for entry in absolute_entries(search_path):
        found = shutil.which(name, path=entry)
        if found is not None and not _is_in(Path(found), folders):
            place = _outside(Path(found), folders)
            if place is not None:
                return place
    return None


def untrusted_folders(workspace: Path) -> tuple[Path, ...]:
    """The workspace, and every checkout around it or around the working directory, the first one too."""
    real = real_path(workspace)
    folders = [real]
    for place in (real, _working_directory(), _STARTED_IN):
        folders += enclosing_checkouts(place)
    # Where the whole system is a checkout, that tells nothing.
    return tuple(dict.fromkeys(folder for folder in folders if folder != Path("/")))


def _outside(found: Path, folders: tuple[Path, ...]) -> Path | None:
    """The path without links in its folders, if no link from there leads into `folders`."""
    first = place = real_path(found.parent) / found.name
    for _ in range(_MOST_LINKS):
        if _is_in(place, folders):
            return None
        if not place.is_symlink():
            return first
        target = place.parent / place.readlink()
        place = real_path(target.parent) / target.name
    return None


def _is_in(path: Path, folders: tuple[Path, ...]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)
