"""What a git tree cannot hold of the same moment: permissions, folders, and the names of what was left out."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from chimera.errors import WorkspaceError

FILE, PROGRAM, LINK = "100644", "100755", "120000"
"""The modes that git knows."""


def git_mode(bits: int) -> str:
    """The mode that git gives a regular file with these permission bits."""
    return PROGRAM if bits & 0o100 else FILE


class Annex(Struct, frozen=True, kw_only=True):
    """Goes with one tree. Paths are relative to the workspace, bytes as the file system has them."""

    usual: Mapping[str, int] = field(default_factory=lambda: {FILE: 0o644, PROGRAM: 0o755})
    """Git's mode of a file -> the permission bits that most files of that mode have."""
    modes: Mapping[bytes, int] = field(default_factory=dict)
    """Permission bits of the files that have others."""
    folders: Mapping[bytes, int] = field(default_factory=dict)
    """Permission bits of every folder that holds recorded files or nothing at all."""
    unrecorded: Mapping[bytes, str] = field(default_factory=dict)
    """What was there but is not in the tree, with a note that begins with the reason and is another after every change.
    Folders end in `/`, and `/` alone stands for anything."""

    @classmethod
    def of_modes(
        cls, files: Mapping[bytes, int], folders: Mapping[bytes, int], unrecorded: Mapping[bytes, str]
    ) -> Annex:
        """The annex for files with these permission bits."""
        usual = {FILE: 0o644, PROGRAM: 0o755}
        for bits, _ in sorted(Counter(files.values()).items(), key=lambda item: item[1]):
            usual[git_mode(bits)] = bits
        return cls(
            usual=usual,
            modes={name: bits for name, bits in files.items() if bits != usual[git_mode(bits)]},
            folders=folders,
            unrecorded=unrecorded,
        )

    def bits(self, path: bytes, mode: str) -> int:
        """Permission bits of a file that the tree has with this git mode."""
        return self.modes.get(path, self.usual[mode])

    def usual_bits(self, bits: int) -> int:
        """The permission bits that most files have whose git mode is that of these."""
        return self.usual[git_mode(bits)]

    def misses(self, path: bytes) -> bool:
        """Whether the path was there, or may have been, although the tree does not have it."""
        if not self.unrecorded.keys().isdisjoint((path, path + b"/", b"/")):
            return True
        parts = path.split(b"/")
        return any(b"/".join(parts[:n]) + b"/" in self.unrecorded for n in range(1, len(parts)))

    def to_bytes(self) -> bytes:
        """The annex as JSON; the same annex always as the same bytes."""
        fields = {
            "usual": self.usual,
            "modes": {os.fsdecode(path): bits for path, bits in sorted(self.modes.items())},
            "folders": {os.fsdecode(path): bits for path, bits in sorted(self.folders.items())},
            "unrecorded": {os.fsdecode(path): note for path, note in sorted(self.unrecorded.items())},
        }
        return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode("ascii")

    @classmethod
    def from_bytes(cls, content: bytes) -> Annex:
        """The inverse of `to_bytes`.

        Raises:
            ValueError: it is no annex.
        """
        fields = json.loads(content)
        try:
            return cls(
                usual=dict(fields["usual"]),
                modes={os.fsencode(path): bits for path, bits in fields["modes"].items()},
                folders={os.fsencode(path): bits for path, bits in fields["folders"].items()},
                unrecorded={os.fsencode(path): note for path, note in fields["unrecorded"].items()},
            )
        except (KeyError, TypeError, AttributeError) as fault:
            raise ValueError(str(fault)) from fault


def keep_annex(folder: Path, annex: Annex) -> str:
    """Write an annex into a folder, once however often it comes, and return its name there.

    Raises:
        OSError: it cannot be written.
    """
    content = annex.to_bytes()
    name = hashlib.sha256(content).hexdigest()[:32]
    if not (folder / name).exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = folder / f"{secrets.token_hex(8)}.tmp"
        temporary.write_bytes(content)
        temporary.replace(folder / name)
    return name


def load_annex(folder: Path, name: str) -> Annex:
    """The annex of that name.

    Raises:
        WorkspaceError: it is gone or damaged.
    """
    try:
        return Annex.from_bytes((folder / Path(name).name).read_bytes())
    except (OSError, ValueError) as fault:
        raise WorkspaceError(f"the snapshot {name!r} is gone or damaged: {fault}") from fault
