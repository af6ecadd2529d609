"""What lies at a path of the workspace, and putting there what a snapshot holds: each file in one step or not at all.

Folders are walked without following links, so nothing outside the workspace is ever read or written.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Literal

from msgspec import Struct

from chimera.workspace.candidates import omission
from chimera.workspace.files import copy_status, open_folder
from chimera.workspace.trees import content_id

Kind = Literal["file", "link", "folder", "other"]
_TEMPORARY = re.compile(rb"\.chimera-[0-9a-f]{16}\.tmp")


class State(Struct, frozen=True):
    """What lies at a path. None stands for nothing."""

    kind: Kind
    """`other` is what a snapshot cannot hold: too large, or no file, link or folder."""
    oid: str = ""
    """Git's id of the content or of the target; empty for folders; for `other` the note in the annex."""
    bits: int = 0
    """Permission bits; 0 for links."""


class ChangedMeanwhileError(OSError):
    """What lies at a path is not what was expected there."""


def copy_out(root: Path, path: bytes, target: Path) -> None:
    """Copy the file or link at a path to a place outside the workspace.

    Raises:
        OSError: it cannot be copied, or is neither.
    """
    with _folder_of(root, path) as (folder, name):
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            target.symlink_to(os.fsdecode(os.readlink(name, dir_fd=folder)))
            return
        with _opened(folder, name) as source, target.open("xb") as copy:
            shutil.copyfileobj(source, copy)


def put(root: Path, path: bytes, new: State, content: bytes, *, instead_of: State | None, like: str) -> None:
    """Put a file or link in place of what is expected there, in one step.

    Raises:
        ChangedMeanwhileError: something else is there.
        OSError: it cannot be written; nothing was changed.
    """
    with _folder_of(root, path) as (folder, name):
        _check(folder, name, instead_of, like)
        if new.kind == "file" and instead_of is not None and _same_but_bits(instead_of, new):
            with _opened(folder, name) as stream:
                os.fchmod(stream.fileno(), new.bits)
            return
        with _temporary(folder, name) as temporary:
            if new.kind == "link":
                os.symlink(content, temporary, dir_fd=folder)
            else:
                _write(folder, temporary, content, new.bits, like=name)


def remove(root: Path, path: bytes, *, expected: State, like: str) -> None:
    """Remove a file or link.

    Raises:
        ChangedMeanwhileError: something else is there.
        OSError: it cannot be removed.
    """
    with _folder_of(root, path) as (folder, name):
        _check(folder, name, expected, like)
        os.unlink(name, dir_fd=folder)


def make_folder(root: Path, path: bytes, bits: int) -> None:
    """Make a folder that has its permissions from the first moment. An empty one that is there gives way.

    Raises:
        OSError: it cannot be made, or something else is there.
    """
    with _folder_of(root, path) as (folder, name), _temporary(folder, name) as temporary:
        os.mkdir(temporary, 0o700, dir_fd=folder)
        os.chmod(temporary, bits, dir_fd=folder)


def make_parents(root: Path, path: bytes) -> None:
    """Make the folders above a path that are missing.

    Raises:
        OSError: one cannot be made.
    """
    parts = path.split(b"/")
    for depth in range(1, len(parts)):
        above = b"/".join(parts[:depth])
        with _folder_of(root, above) as (folder, name), suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=folder)


def remove_folder(root: Path, path: bytes) -> None:
    """Remove a folder with nothing in it.

    Raises:
        OSError: it cannot be removed, or holds something.
    """
    with _folder_of(root, path) as (folder, name):
        os.rmdir(name, dir_fd=folder)


def set_folder_bits(root: Path, path: bytes, bits: int) -> None:
    """Give a folder these permissions.

    Raises:
        OSError: it cannot be changed, or is no folder.
    """
    with open_folder(root, [os.fsdecode(part) for part in path.split(b"/")]) as folder:
        os.fchmod(folder, bits)


def remove_left_overs(root: Path, folder: bytes) -> None:
    """Remove the half-made files that a killed process of ours left in a folder. The caller holds the workspace."""
    parts = [os.fsdecode(part) for part in folder.split(b"/") if part]
    with suppress(OSError), open_folder(root, parts) as opened:
        with os.scandir(opened) as entries:
            names = [os.fsencode(entry.name) for entry in entries]
        for name in filter(_TEMPORARY.fullmatch, names):
            with suppress(OSError):
                if stat.S_ISDIR(os.stat(name, dir_fd=opened, follow_symlinks=False).st_mode):
                    os.rmdir(name, dir_fd=opened)
                else:
                    os.unlink(name, dir_fd=opened)


@contextmanager
def _folder_of(root: Path, path: bytes) -> Iterator[tuple[int, bytes]]:
    """A descriptor of the folder that a path lies in, and the name in it."""
    *folders, name = path.split(b"/")
    with open_folder(root, [os.fsdecode(part) for part in folders]) as folder:
        yield folder, name


def _state(folder: int, name: bytes, like: str) -> State | None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    bits = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return State("link", content_id(os.readlink(name, dir_fd=folder), like))
    if stat.S_ISDIR(status.st_mode):
        return State("folder", bits=bits)
    if note := omission(status):
        return State("other", note)
    return State("file", content_id(_read(folder, name), like), bits)


def _read(folder: int, name: bytes) -> bytes:
    with _opened(folder, name) as stream:
        return stream.read()


@contextmanager
def _opened(folder: int, name: bytes) -> Iterator[BinaryIO]:
    """The regular file of that name, open for reading."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise ChangedMeanwhileError(0, "it is not a regular file any more")
        yield stream


def _check(folder: int, name: bytes, expected: State | None, like: str) -> None:
    if _state(folder, name, like) != expected:
        raise ChangedMeanwhileError(0, "it was changed just now")


def _same_but_bits(one: State, other: State) -> bool:
    return one.kind == other.kind and one.oid == other.oid


@contextmanager
def _temporary(folder: int, name: bytes) -> Iterator[bytes]:
    """A name for what is to replace `name` when the block is left; nothing of it stays if the block fails."""
    temporary = f".chimera-{secrets.token_hex(8)}.tmp".encode()
    try:
        yield temporary
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        removal: Callable[..., None]
        for removal in (os.unlink, os.rmdir):
            with suppress(OSError):
                removal(temporary, dir_fd=folder)
        raise


def _write(folder: int, temporary: bytes, content: bytes, bits: int, *, like: bytes) -> None:
    """Write a new file with owner and attributes of the one it replaces, as far as there is one and it is permitted."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        with suppress(OSError):
            old = os.stat(like, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(old.st_mode):
                copy_status(folder, os.fsdecode(like), old, descriptor)
        os.fchmod(descriptor, bits)
        os.fsync(descriptor)
