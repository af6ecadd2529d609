"""The output of one command in bounded memory: whole while small, else head and tail, with the whole in a file.

The file is written as the output comes, so that it outlives a run that is killed; but not for a command that prints once
and ends: making it would take longer than many a command.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

HEAD_BYTES = TAIL_BYTES = 64 * 1024
SPOOL_BYTES = 50 * 1024 * 1024
SPOOL_PREFIX = "output-"
"""Of the names of files for whole outputs."""
# How far a cut moves to fall between two lines; without a line end there it falls between two characters.
_CUT_SLACK = 4096


class OutputBuffer:
    """Takes output as it comes. At most 192 KiB are held in memory, at most 50 MiB on disk."""

    def __init__(self, spool_dir: Path) -> None:
        self.size = 0
        """Bytes taken so far."""
        self._spool_dir = spool_dir
        self._head = bytearray()
        self._tail = bytearray()
        self._spool: BinaryIO | None = None
        self._path: Path | None = None
        self._begun = False
        self._cut = False

    def add(self, chunk: bytes) -> None:
        """Take the next bytes of the output."""
        if not chunk:
            return
        if self.size:
            self.keep()
        self.size += len(chunk)
        self._write(chunk)
        if self._cut:
            self._tail += chunk
            if len(self._tail) > 2 * TAIL_BYTES:
                del self._tail[:-TAIL_BYTES]
            return
        self._head += chunk
        if len(self._head) > HEAD_BYTES + TAIL_BYTES:
            self._cut = True
            self._tail += self._head[HEAD_BYTES:]
            del self._head[HEAD_BYTES:]

    def keep(self) -> None:
        """Begin to write the file, where there is something to write: to be called when the output pauses."""
        if self.size and not self._begun:
            self._begun = True
            self._open()
            self._write(bytes(self._head))

    def finish(self) -> tuple[bytes, Path | None]:
        """The output, with a line in place of what was left out, and the file with the whole if there is one."""
        if not self._cut:
            self.discard()
            return bytes(self._head), None
        self.leave()
        head, tail = _whole_end(bytes(self._head)), _whole_start(bytes(self._tail[-TAIL_BYTES:]))
        gap = f"[... {self.size - len(head) - len(tail):,} bytes left out here ...]\n".encode()
        return head + (b"" if head.endswith(b"\n") else b"\n") + gap + tail, self._path

    def leave(self) -> None:
        """Leave what came so far in the file, for whoever looks for it."""
        self.keep()
        if self._spool is not None:
            self._close()

    def discard(self) -> None:
        """Forget the file."""
        spool, path, self._spool, self._path = self._spool, self._path, None, None
        # Where the disk is full, closing tries to write what is left, and fails again.
        with suppress(OSError):
            if spool is not None:
                spool.close()
        with suppress(OSError):
            if path is not None:
                path.unlink(missing_ok=True)

    def _open(self) -> None:
        # A full or missing disk costs the whole output, never the command.
        try:
            descriptor, name = tempfile.mkstemp(prefix=SPOOL_PREFIX, suffix=".txt", dir=self._spool_dir)
        except OSError:
            return
        self._path = Path(name)
        self._spool = os.fdopen(descriptor, "wb")

    def _write(self, chunk: bytes) -> None:
        if self._spool is None:
            return
        try:
            self._spool.write(chunk[: max(0, SPOOL_BYTES - self._spool.tell())])
            self._spool.flush()
        except OSError:
            self.discard()

    def _close(self) -> None:
        assert self._spool is not None
        try:
            self._spool.close()
        except OSError:
            self.discard()
        self._spool = None


def _whole_end(head: bytes) -> bytes:
    line_end = head.rfind(b"\n", len(head) - _CUT_SLACK)
    if line_end >= 0:
        return head[: line_end + 1]
    # Drop a character that the cut has split: its lead byte is among the last three.
    for back in range(1, 4):
        lead = head[-back]
        if lead >= 0xC0:
            width = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            return head[:-back] if width > back else head
        if lead < 0x80:
            break
    return head


def _whole_start(tail: bytes) -> bytes:
    line_end = tail.find(b"\n", 0, _CUT_SLACK)
    if line_end >= 0:
        return tail[line_end + 1 :]
    start = 0
    while start < 3 and tail[start] & 0xC0 == 0x80:
        start += 1
    return tail[start:]
