"""The `AGENTS.md` files that hold for a workspace: its own, and those above it up to the top of its repository."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from chimera.errors import ToolError
from chimera.workspace.files import fault_text, open_folder, read_regular_file, real_path
from chimera.workspace.git_folders import enclosing_checkout
from chimera.workspace.secret_files import is_secret_file

NAME = "AGENTS.md"
_MOST_BYTES = 256_000


class AgentsFile(Struct, frozen=True, kw_only=True):
    """One of the files."""

    name: str
    """Relative to the workspace: `AGENTS.md`, `../AGENTS.md`."""
    text: str = ""
    problem: str = ""
    """Why there is no text."""


def agents_files(root: Path) -> Iterator[AgentsFile]:
    """The files, nearest first.

    A link is followed within the repository and nowhere else, and never to a file that usually holds secrets.

    Args:
        root: the workspace, a real path.
    """
    top = enclosing_checkout(root) or root
    for folder in (root, *root.parents):
        path = folder / NAME
        if os.path.lexists(path):
            name = os.path.relpath(path, root)
            try:
                yield AgentsFile(name=name, text=_text(path, top))
            except ToolError as fault:
                yield AgentsFile(name=name, problem=str(fault))
            except OSError as fault:
                yield AgentsFile(name=name, problem=fault_text(fault))
        if folder == top:
            return


def _text(path: Path, top: Path) -> str:
    real = real_path(path)
    inside = real.relative_to(top).parts if real.is_relative_to(top) else ()
    if not inside or is_secret_file("/".join(inside)) or ".git" in inside:
        raise ToolError("it is a link to a file that is not for a model")
    *folders, name = inside
    with open_folder(top, folders) as folder:
        content = read_regular_file(folder, name, label=str(path), max_bytes=_MOST_BYTES)
    if b"\0" in content:
        raise ToolError("it is not UTF-8 text")
    return content.decode("utf-8-sig", "replace")
