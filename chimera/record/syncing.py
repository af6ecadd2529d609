"""When what was written to a file is to be on disk: before anything goes on, or while it does."""

from __future__ import annotations

import os
import sys
import threading
from queue import SimpleQueue

if sys.platform == "darwin":
    _bring_to_disk = os.fsync  # macOS has no fdatasync
else:
    _bring_to_disk = os.fdatasync


class Syncing:
    """Brings what was written to one descriptor to disk. The thread for it is started when first needed."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._asked: SimpleQueue[bool] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._fault: OSError | None = None

    def now(self) -> None:
        """Return when everything written so far is on disk.

        Raises:
            OSError: it cannot be brought there, or something earlier could not.
        """
        if self._fault is not None:
            raise self._fault
        _bring_to_disk(self._descriptor)

    def soon(self) -> None:
        """Have everything written so far brought to disk while the caller goes on. A fault shows at the next `now`."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="record", daemon=True)
            self._thread.start()
        self._asked.put(True)

    def close(self) -> None:
        """Wait for what was asked for. The descriptor stays open."""
        if self._thread is not None:
            self._asked.put(False)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while self._asked.get():
            try:
                _bring_to_disk(self._descriptor)
            except OSError as fault:
                self._fault = fault
