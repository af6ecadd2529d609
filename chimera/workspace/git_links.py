"""What in a git folder has git write somewhere else, or wait for ever: links, and files that are none."""

from __future__ import annotations

import os
import re
from collections import deque
from pathlib import Path

from chimera.workspace.files import real_path

# Git opens most of its files through a link that it finds in their place, the message of a commit and the index among
# them. What it writes as a link itself leads to a branch.
_REFERENCES = "refs"
_WRITTEN = frozenset(
    {"info", "logs", "modules", "objects", "rebase-apply", "rebase-merge", "refs", "reftable", "sequencer"}
    | {"worktrees"}
)
# Every new object is a new file in one of these.
_LOOSE_OBJECTS = re.compile(r"[0-9a-f]{2}")
_MOST_ENTRIES = 50_000


def strange_entries(folder: Path) -> dict[Path, str]:
    """Links and special files where git writes in a git folder, each with what is wrong with it.

    In a repository with checkouts inside only git's own folders are looked into, the top first.
    """
    found: dict[Path, str] = {}
    waiting, seen = deque([(str(folder), False)]), 0
    while waiting and seen < _MOST_ENTRIES:
        path, inside = waiting.popleft()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    seen += 1
                    if entry.is_symlink():
                        if why := _leads_away(Path(entry.path), folder):
                            found[Path(entry.path)] = why
                    elif entry.is_dir():
                        loose = path.endswith("/objects") and _LOOSE_OBJECTS.fullmatch(entry.name)
                        if (inside or entry.name in _WRITTEN) and not loose:
                            waiting.append((entry.path, True))
                    elif not entry.is_file():
                        found[Path(entry.path)] = "it is no file, and git would wait for it"
        except OSError:
            continue
    return found


def _leads_away(link: Path, folder: Path) -> str:
    try:
        target = os.readlink(link)  # noqa: PTH115  (as it is written)
    except OSError:
        return ""
    if not target.startswith("/") and real_path(link).is_relative_to(real_path(folder) / _REFERENCES):
        return ""
    return f"it is a link to {target}, and git would write there"
