"""Reading and replacing single files below a folder without following any link on the way."""

from __future__ import annotations

import difflib
import itertools
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from chimera.errors import ToolError

FileKind = Literal["file", "folder", "missing", "other"]
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_COMPARED_NAMES = 5000
_SPECIAL = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link that leads nowhere usable",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def kind_of(path: Path) -> FileKind:
    """What lies at a path whose links are already resolved."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return "missing"
    if stat.S_ISREG(mode):
        return "file"
    return "folder" if stat.S_ISDIR(mode) else "other"


def is_folder(path: Path) -> bool:
    """Whether a folder can be found at the path; what may not be looked at counts as missing."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def is_file(path: Path) -> bool:
    """Whether a regular file can be found at the path; what may not be looked at counts as missing."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def open_to_owner(folder: Path) -> bool:
    """Let the owner of a folder look into it and change it. True if the folder was closed and is ours to open."""
    try:
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_mode & stat.S_IRWXU == stat.S_IRWXU:
            return False
        folder.chmod(stat.S_IMODE(status.st_mode) | stat.S_IRWXU)
    except OSError:
        return False
    return True


def real_path(path: Path) -> Path:
    """The path with every link followed that can be. Loops, missing and forbidden parts stay as they are."""
    return Path(os.path.realpath(path))


def fault_text(fault: OSError) -> str:
    """The operating system's words for what went wrong, without paths and numbers."""
    return (fault.strerror or "unknown fault").lower()


@contextmanager
def open_folder(base: Path, names: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """A descriptor of the folder `names` below `base`; no component may be a link.

    With `create`, missing folders are made, and removed again if the block fails.

    Raises:
        OSError: a component is missing, a link, or not a folder.
    """
    opened = [os.open(base, _FOLDER_FLAGS)]
    made: list[tuple[int, str]] = []
    try:
        for name in names:
            parent = opened[-1]
            try:
                opened.append(os.open(name, _FOLDER_FLAGS, dir_fd=parent))
            except FileNotFoundError:
                if not create:
                    raise
                os.mkdir(name, dir_fd=parent)
                made.append((parent, name))
                opened.append(os.open(name, _FOLDER_FLAGS, dir_fd=parent))
        yield opened[-1]
    except BaseException:
        _remove_folders(made)
        raise
    finally:
        for descriptor in opened:
            os.close(descriptor)


def read_regular_file(folder: int, name: str, *, label: str, max_bytes: int) -> bytes:
    """The content of the regular file `name` in the folder with descriptor `folder`.

    Raises:
        ToolError: it is not a regular file, or larger than `max_bytes`.
        OSError: it cannot be opened or read.
    """
    # Opening a device can have an effect of its own, so the kind is checked before as well as after.
    _require_regular(os.stat(name, dir_fd=folder, follow_symlinks=False), label)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as stream:
        status = os.fstat(stream.fileno())
        _require_regular(status, label)
        content = b"" if status.st_size > max_bytes else stream.read(max_bytes + 1)
    size = max(status.st_size, len(content))
    if size > max_bytes:
        raise ToolError(
            f"{label!r} is too large: {size:,} bytes, and at most {max_bytes:,} can be used. "
            "Look at parts of it with a shell command."
        )
    return content


def replace_file(folder: int, name: str, content: bytes, *, label: str) -> None:
    """Put `content` in place of `name` in the folder with descriptor `folder`, in one step that survives a power cut.

    Raises:
        ToolError: there is something at `name` that is not a regular file.
        OSError: the write failed; nothing is left of it.
    """
    try:
        old: os.stat_result | None = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        old = None
    if old is not None:
        _require_regular(old, label)
        if not os.access(name, os.W_OK, dir_fd=folder):
            raise PermissionError(0, "the file is read-only")
    temporary = f".chimera-{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    # A new file gets what the umask allows; a replaced one is closed to others until its own mode is set.
    descriptor = os.open(temporary, flags, 0o666 if old is None else 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            if old is not None:
                copy_status(folder, name, old, descriptor)
            os.fsync(descriptor)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    with suppress(OSError):  # some file systems cannot sync a folder
        os.fsync(folder)


def close_names(folder: Path, name: str) -> list[str]:
    """Up to two names in the folder that resemble `name`, best first."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in itertools.islice(entries, _COMPARED_NAMES)]
    except OSError:
        return []
    folded = {other.casefold(): other for other in sorted(names)}
    return [folded[match] for match in difflib.get_close_matches(name.casefold(), folded, n=2)]


def _require_regular(status: os.stat_result, label: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _SPECIAL.get(stat.S_IFMT(status.st_mode), "not a regular file")
        hint = " List what it holds with search." if kind == "a folder" else ""
        raise ToolError(f"{label!r} is {kind}, and only regular files can be used.{hint}")


def copy_status(folder: int, name: str, old: os.stat_result, descriptor: int) -> None:
    """Give the open new file the owner, mode and extended attributes of the old one, as far as permitted."""
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with suppress(OSError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError):
        source = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        with os.fdopen(source, "rb"):
            for attribute in os.listxattr(source):
                with suppress(OSError):
                    os.setxattr(descriptor, attribute, os.getxattr(source, attribute))


def _remove_folders(made: list[tuple[int, str]]) -> None:
    for parent, name in reversed(made):
        with suppress(OSError):
            os.rmdir(name, dir_fd=parent)
