"""Folders around recorded files: their permissions, those without files, and what in them git does not even list."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from msgspec import Struct

_MAX_EMPTY = 10_000
"""Folders below an empty-looking one that are looked at before it counts as not empty."""


class FolderScan(Struct, frozen=True, kw_only=True):
    """The folders of a workspace that hold recorded files or nothing at all. Paths relative to the workspace."""

    modes: Mapping[bytes, int]
    """Permission bits."""
    left_out: Mapping[bytes, str]
    """Pipes, sockets, devices (`special`) and folders that are `unreadable`."""


def scan_folders(base: bytes, names: Iterable[bytes]) -> FolderScan:
    """Look into every folder that holds one of `names`. `base` is the workspace, with `/` at its end."""
    holding = _holding(names)
    modes: dict[bytes, int] = {}
    left_out: dict[bytes, str] = {}
    for folder in holding:
        with suppress(OSError):
            if folder:
                modes[folder[:-1]] = stat.S_IMODE(os.lstat(base + folder[:-1]).st_mode)
            for entry in _entries(base + folder):
                path = folder + entry.name
                if reason := _left_out(entry):
                    left_out[path] = reason
                elif entry.is_dir(follow_symlinks=False) and path + b"/" not in holding:
                    modes.update(_empty_folders(base, path) if entry.name != b".git" else {})
    return FolderScan(modes=modes, left_out=left_out)


def _holding(names: Iterable[bytes]) -> set[bytes]:
    """The folders above the names, each with `/` at its end; the workspace itself is the empty name."""
    holding = {b"".join(name.rpartition(b"/")[:2]) for name in names} | {b""}
    for folder in list(holding):
        above = b"".join(folder[:-1].rpartition(b"/")[:2])
        while above not in holding:
            holding.add(above)
            above = b"".join(above[:-1].rpartition(b"/")[:2])
    return holding


def _left_out(entry: os.DirEntry[bytes]) -> str:
    if entry.is_dir(follow_symlinks=False):
        return "" if os.access(entry.path, os.R_OK | os.X_OK) else "unreadable"
    return "" if entry.is_file(follow_symlinks=False) or entry.is_symlink() else "special"


def _entries(folder: bytes) -> Iterator[os.DirEntry[bytes]]:
    with os.scandir(folder) as entries:
        yield from entries


def _empty_folders(base: bytes, top: bytes) -> dict[bytes, int]:
    """`top` and all folders below it with their modes, if there is no file in any of them; else nothing."""
    found: dict[bytes, int] = {}
    waiting = [top]
    try:
        while waiting:
            folder = waiting.pop()
            found[folder] = stat.S_IMODE(os.lstat(base + folder).st_mode)
            for entry in _entries(base + folder):
                if not entry.is_dir(follow_symlinks=False) or len(found) > _MAX_EMPTY:
                    return {}
                waiting.append(folder + b"/" + entry.name)
    except OSError:
        return {}
    return found
