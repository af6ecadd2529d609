"""One run at a time in a workspace. The kernel holds the lock, so the death of a run frees it."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chimera.errors import RecordError, WorkspaceError, WorkspaceLockedError

_RECORD_BYTES = 4096
_LINGER_S = 2.0
_PAUSE_S = 0.01


@contextmanager
def workspace_lock(state_dir: Path, root: Path, run_id: str) -> Iterator[None]:
    """Hold the workspace at `root` for the duration of the block, whatever path it is called by.

    Raises:
        WorkspaceLockedError: another run holds it; the message names the run and its process.
        WorkspaceError: `root` does not exist.
        RecordError: the lock file cannot be made.
    """
    try:
        identity = root.stat()
    except OSError as fault:
        raise WorkspaceError(f"the workspace {str(root)!r} cannot be used: {fault.strerror}") from fault
    path = state_dir / "locks" / f"{identity.st_dev}-{identity.st_ino}"
    try:
        for folder in (state_dir, path.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as fault:
        raise RecordError(f"the lock file {str(path)!r} cannot be made: {fault.strerror}") from fault
    # Closing frees the lock. The file stays: deleting it would let two runs lock two files of one name.
    with os.fdopen(descriptor, "r+b", buffering=0):
        try:
            _take(descriptor)
        except BlockingIOError as fault:
            raise WorkspaceLockedError(_held(root, os.pread(descriptor, _RECORD_BYTES, 0))) from fault
        except OSError as fault:
            raise RecordError(f"the lock file {str(path)!r} cannot be locked: {fault.strerror}") from fault
        holder = json.dumps({"pid": os.getpid(), "run": run_id}).encode()
        os.pwrite(descriptor, holder, 0)
        os.ftruncate(descriptor, len(holder))
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)


def _take(descriptor: int) -> None:
    """Take the lock. A child that its holder was starting when it was killed has it for some milliseconds more.

    Raises:
        BlockingIOError: somebody who is alive holds it.
    """
    until = time.monotonic() + _LINGER_S
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until or not _is_dead(os.pread(descriptor, _RECORD_BYTES, 0)):
                raise
        time.sleep(_PAUSE_S)


def _is_dead(record: bytes) -> bool:
    """Whether the process that took the lock is known and gone."""
    try:
        os.kill(int(json.loads(record)["pid"]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError, ValueError, KeyError, TypeError):
        return False
    return False


def _held(root: Path, record: bytes) -> str:
    try:
        holder = json.loads(record)
        who = f"run {holder['run']} (process {holder['pid']})"
    except (ValueError, KeyError, TypeError):
        who = "another run"
    return f"the workspace {str(root)!r} is in use by {who}; wait for it to end, or end it"
