"""One run at a time in a workspace, in those around it and in those within it.

The kernel holds the locks, so the death of a run frees them.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct

from chimera.errors import RecordError, WorkspaceError, WorkspaceLockedError

_RECORD_BYTES = 8192
_LINGER_S = 2.0
_PAUSE_S = 0.01


@contextmanager
def workspace_lock(state_dir: Path, root: Path, run_id: str) -> Iterator[None]:
    """Hold the workspace at `root` for the duration of the block, whatever path it is called by.

    A run has its own folder to itself and shares those above it with runs elsewhere in them, so that a folder and one
    within it are never worked in at the same time.

    Raises:
        WorkspaceLockedError: another run holds it, or a folder around or within it; the message names the run.
        WorkspaceError: `root` does not exist.
        RecordError: a lock file cannot be made.
    """
    try:
        real = root.resolve(strict=True)
        own = _lock_name(real)
    except OSError as fault:
        raise WorkspaceError(f"the workspace {str(root)!r} cannot be used: {fault.strerror}") from fault
    locks = state_dir / "locks"
    with ExitStack() as stack:
        descriptor = _open(locks, own, stack)
        _take(locks, descriptor, fcntl.LOCK_EX, real, real)
        for folder in real.parents[:-1]:
            try:
                name = _lock_name(folder)
            except OSError:
                continue  # nobody who may not look at a folder works in it
            _take(locks, _open(locks, name, stack), fcntl.LOCK_SH, real, folder)
        holder = json.dumps({"pid": os.getpid(), "run": run_id, "root": str(real)}).encode()
        os.pwrite(descriptor, holder, 0)
        os.ftruncate(descriptor, len(holder))
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)


def _lock_name(folder: Path) -> str:
    identity = folder.stat()
    return f"{identity.st_dev}-{identity.st_ino}"


def _open(locks: Path, name: str, stack: ExitStack) -> int:
    """The lock file, open until the stack closes. Closing frees the lock.

    The file stays: deleting it would let two runs lock two files of one name.
    """
    path = locks / name
    try:
        for folder in (locks.parent, locks):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as fault:
        raise RecordError(f"the lock file {str(path)!r} cannot be made: {fault.strerror}") from fault
    stack.callback(os.close, descriptor)
    return descriptor


class _Holder(Struct, frozen=True, kw_only=True):
    """What a run has written into the lock file of its workspace."""

    pid: int
    run: str
    root: Path

    @classmethod
    def read(cls, descriptor: int) -> _Holder | None:
        try:
            fields = json.loads(os.pread(descriptor, _RECORD_BYTES, 0))
            return cls(pid=int(fields["pid"]), run=str(fields["run"]), root=Path(fields["root"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @property
    def alive(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except (OSError, OverflowError):
            return True
        return True


def _take(locks: Path, descriptor: int, kind: int, root: Path, folder: Path) -> None:
    """Lock one folder for the run in `root`.

    A child that a holder was starting when it was killed has its locks for some milliseconds more; so has a run that is
    about to be refused. Neither is waited for longer than that.
    """
    until = time.monotonic() + _LINGER_S
    while True:
        try:
            return fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError as fault:
            holder = next(_holders(locks, folder, below=kind == fcntl.LOCK_EX), None)
            if holder is not None or time.monotonic() > until:
                raise WorkspaceLockedError(_held(root, folder, holder)) from fault
        except OSError as fault:
            raise RecordError(f"the folder {str(folder)!r} cannot be locked: {fault.strerror}") from fault
        time.sleep(_PAUSE_S)


def _holders(locks: Path, folder: Path, *, below: bool) -> Iterator[_Holder]:
    """The living runs that work in a folder or, with `below`, in one within it."""
    for path in sorted(locks.iterdir()):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            holder = _Holder.read(descriptor)
            if holder is None or not holder.alive or not _is_held(descriptor):
                continue
            if holder.root == folder or (below and holder.root.is_relative_to(folder)):
                yield holder
        finally:
            os.close(descriptor)


def _is_held(descriptor: int) -> bool:
    """Whether a run has the folder to itself. What a killed one wrote stays in the file."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def _held(root: Path, folder: Path, holder: _Holder | None) -> str:
    who = "another run" if holder is None else f"run {holder.run} (process {holder.pid})"
    if folder != root:
        what = f"lies in {str(folder)!r}, which is"
    elif holder is not None and holder.root != root:
        what = f"holds {str(holder.root)!r}, which is"
    else:
        what = "is"
    return f"the workspace {str(root)!r} {what} in use by {who}; wait for it to end, or end it"
