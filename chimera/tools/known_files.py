"""Which files a run has seen, and in which state: the guard against writing over somebody else's change."""

from __future__ import annotations

import hashlib
from pathlib import Path

from chimera.errors import ToolError
from chimera.workspace.paths import Place


class KnownFiles:
    """The content of each file as the run last read or wrote it, as a hash."""

    def __init__(self) -> None:
        self._hashes: dict[Path, str] = {}

    def saw(self, place: Place, content: bytes) -> None:
        """The run has been shown `content`, or a part of it, or has written it."""
        self._hashes[place.path] = hashlib.sha256(content).hexdigest()

    def knows(self, place: Place) -> bool:
        """Whether the run has read or written the file."""
        return place.path in self._hashes

    def check_unchanged(self, place: Place, content: bytes) -> None:
        """Refuse to go on if a file that the run has seen is no longer as it was.

        Raises:
            ToolError: somebody else changed it.
        """
        seen = self._hashes.get(place.path)
        if seen is not None and seen != hashlib.sha256(content).hexdigest():
            raise ToolError(
                f"{place.name!r} was changed on disk after this run last read or wrote it (by a command or by somebody "
                "else). Nothing was changed. Read it again, then repeat the change against what it holds now."
            )
