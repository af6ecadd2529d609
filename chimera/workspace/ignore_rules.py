"""Git's ignore rules as they were at one moment, so that rules written later hide nothing.

All rules of a checkout become one list with the meaning that they have in their files: the last that matches decides.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from chimera.errors import WorkspaceError

_NAME = b".gitignore"
_BOM = b"\xef\xbb\xbf"
_MAX_BYTES = 1024**2
"""Of one file with rules; what is longer is not looked into."""


class IgnoreRules(Struct, frozen=True, kw_only=True):
    """The rules of a workspace, checkout by checkout."""

    checkouts: Mapping[str, tuple[str, bytes]] = field(default_factory=dict)
    """Path of a checkout -> the folder to which its rules are relative, and the rules."""

    def text(self, checkout: Path, top: Path) -> bytes | None:
        """The rules of a checkout; None where it was not there, or belonged to another repository."""
        known = self.checkouts.get(os.fspath(checkout))
        return known[1] if known is not None and known[0] == os.fspath(top) else None

    def keep(self, place: Path) -> None:
        """Write the rules into a file.

        Raises:
            OSError: it cannot be written.
        """
        fields = {path: [top, os.fsdecode(text)] for path, (top, text) in self.checkouts.items()}
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = place.with_name(f"{secrets.token_hex(8)}.tmp")
        temporary.write_bytes(json.dumps(fields).encode("ascii"))
        temporary.replace(place)

    @classmethod
    def load(cls, place: Path) -> IgnoreRules | None:
        """The rules that were kept there; None where there are none.

        Raises:
            WorkspaceError: the file cannot be read, or is none of ours.
        """
        try:
            fields = json.loads(place.read_bytes())
            return cls(checkouts={path: (top, os.fsencode(text)) for path, (top, text) in fields.items()})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, AttributeError) as fault:
            raise WorkspaceError(
                f"the ignore rules kept at {str(place)!r} cannot be read: {fault}"
            ) from fault


def rules_now(
    top: Path, general: Iterable[Path | None], names: Iterable[bytes], ignored: Set[bytes]
) -> bytes:
    """The rules that hold in a checkout now.

    Args:
        top: of the repository.
        general: files with rules for all of it, the weakest first.
        names: the files that are not ignored, relative to `top`.
        ignored: those that are; folders end in `/`.
    """
    holding = _folders_above(names)
    folders = {*holding, *(b"".join(name.rpartition(b"/")[:2]) for name in ignored if _is_rules(name))}
    found = [_read(path.resolve()) for path in general if path is not None]
    for folder in sorted(folders, key=lambda name: (name.count(b"/"), name)):
        lines = _read(top / os.fsdecode(folder + _NAME)).split(b"\n")
        found += [_anchored(folder, line) for line in lines]
    for name in sorted(ignored):
        # A folder that ignores itself, as those of caches and virtual environments do.
        rules = top / os.fsdecode(name + _NAME)
        if name.endswith(b"/") and name not in holding and os.path.lexists(rules):
            found.append(b"/" + _literal(name))
    return b"".join(text + b"\n" for text in found if text)


def self_ignoring(base: bytes, names: Iterable[bytes], known: Set[bytes]) -> frozenset[bytes]:
    """The folders, each with `/` at its end, with nothing `known` in them, whose own rules ignore all that is in them.

    Args:
        base: the folder that the names are relative to, with `/` at its end.
        names: files.
        known: files.
    """
    found = {
        name[: -len(_NAME)]
        for name in names
        if _is_rules(name) and name != _NAME and _ignores_all(base + name)
    }
    return frozenset(found - _folders_above(known)) if found else frozenset()


def _ignores_all(path: bytes) -> bool:
    lines = (line.strip() for line in _read(Path(os.fsdecode(path))).split(b"\n"))
    return [line for line in lines if line and not line.startswith(b"#")] in ([b"*"], [b"**"])


def _is_rules(name: bytes) -> bool:
    return name == _NAME or name.endswith(b"/" + _NAME)


def _folders_above(names: Iterable[bytes]) -> set[bytes]:
    """The folders above the names, each with `/` at its end; the top is the empty name."""
    found = {b""}
    for name in names:
        folder = b"".join(name.rpartition(b"/")[:2])
        while folder not in found:
            found.add(folder)
            folder = b"".join(folder[:-1].rpartition(b"/")[:2])
    return found


def _read(path: Path) -> bytes:
    """A file with rules; git follows no link to one in a checkout."""
    with suppress(OSError):
        status = path.lstat()
        if stat.S_ISREG(status.st_mode) and status.st_size <= _MAX_BYTES:
            return path.read_bytes().removeprefix(_BOM)
    return b""


def _anchored(folder: bytes, line: bytes) -> bytes:
    """A rule from a folder's file as one of the top's; see gitignore(5)."""
    line = line.removesuffix(b"\r")
    if not line or line.startswith(b"#") or not folder:
        return line
    negation, body = (b"!", line[1:]) if line.startswith(b"!") else (b"", line)
    between = b"" if b"/" in body.rstrip(b" ")[:-1] else b"**/"
    return negation + b"/" + _literal(folder) + between + body.removeprefix(b"/")


def _literal(name: bytes) -> bytes:
    """A pattern that stands for the name itself; a line end, which no pattern can hold, for any character."""
    escaped = b"".join(b"\\" + bytes([c]) if c in b"*?[\\" else bytes([c]) for c in name)
    return escaped.replace(b"\n", b"?")
