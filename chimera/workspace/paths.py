"""Paths that the model names: which file they mean, and that it lies in the workspace.

A path is resolved once, in `Workspace.locate`. Opening walks the resolved path folder by folder and follows no link,
so that a folder that was swapped for a link in between leads nowhere.
"""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import Path

from msgspec import Struct

from chimera.errors import ToolError, WorkspaceError
from chimera.workspace.files import (
    FileKind,
    close_names,
    fault_text,
    is_folder,
    kind_of,
    open_folder,
    read_regular_file,
    replace_file,
)
from chimera.workspace.git_folders import GIT_NAMES, git_folders, looks_like_git

RUN_PREFIX = "@run/"
RUN_FOLDERS = ("outputs", "archive")
"""What of the run directory the model may read."""
_MAX_PATH_BYTES = 4096
_MAX_NAME_BYTES = 255
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
# Files there are not stored anywhere: reading one can block or have an effect.
_KERNEL_FOLDERS = (Path("/proc"), Path("/sys"))


class Place(Struct, frozen=True, kw_only=True):
    """A file or folder the model named, resolved. It need not exist."""

    path: Path
    """Absolute, every link followed."""
    name: str
    """What to call it: relative to the workspace with `/`, `.` for the workspace itself, or `@run/...`."""


class Workspace(Struct, frozen=True, kw_only=True):
    """The one folder of a run, and the run's own record as far as the model may read it."""

    root: Path
    """Absolute, every link followed."""
    run_dir: Path | None = None

    @classmethod
    def open(cls, root: Path, *, run_dir: Path | None = None) -> Workspace:
        """The workspace at `root`.

        Raises:
            WorkspaceError: it is missing, not a folder, unreadable or not a place to work in.
        """
        try:
            real = root.resolve(strict=True)
        except (OSError, RuntimeError, ValueError) as fault:
            reason = getattr(fault, "strerror", None) or str(fault)
            raise WorkspaceError(f"the workspace {str(root)!r} cannot be used: {reason}") from fault
        if not real.is_dir():
            raise WorkspaceError(f"the workspace {str(root)!r} is not a folder")
        if real == Path("/") or any(real.is_relative_to(folder) for folder in _KERNEL_FOLDERS):
            raise WorkspaceError(f"{str(real)!r} cannot be a workspace; choose the folder of a project")
        if not os.access(real, os.R_OK | os.X_OK):
            raise WorkspaceError(f"the workspace {str(root)!r} cannot be read: permission denied")
        return cls(root=real, run_dir=None if run_dir is None else run_dir.resolve())

    def locate(self, path: str, *, write: bool = False) -> Place:
        """The place that `path`, relative or absolute, means.

        With `write`, what may only be read is refused as well: the run's record and git's own files.

        Raises:
            ToolError: it does not lie in the workspace, or cannot be a path.
        """
        _check_text(path)
        if path == RUN_PREFIX.rstrip("/") or path.startswith(RUN_PREFIX):
            return self._locate_in_record(path, write=write)
        real = _resolve(self.root / path, path)
        if not real.is_relative_to(self.root):
            raise ToolError(
                f"{path!r} leads outside the workspace. Only files in the workspace can be used: "
                "give a path relative to it."
            )
        name = real.relative_to(self.root).as_posix()
        place = Place(path=real, name=f"./{name}" if f"{name}/".startswith(RUN_PREFIX) else name)
        if "\\" in path:
            self._check_backslash(path, write=write)
        if write:
            self._check_writable(place, path)
        return place

    def kind(self, place: Place) -> FileKind:
        """What lies at the place now."""
        return kind_of(place.path)

    def read_bytes(self, place: Place, *, max_bytes: int) -> bytes:
        """The whole content of a regular file, which is at most `max_bytes` long.

        Raises:
            ToolError: missing, not a regular file, larger, or not readable.
        """
        *folders, file_name = self._parts(place)
        try:
            with open_folder(self._base(place), folders) as folder:
                return read_regular_file(folder, file_name, label=place.name, max_bytes=max_bytes)
        except FileNotFoundError as fault:
            raise ToolError(f"There is no file {place.name!r}.{self._nearby(place)}") from fault
        except OSError as fault:
            raise ToolError(f"{place.name!r} cannot be read: {fault_text(fault)}.") from fault

    def write_bytes(self, place: Place, content: bytes) -> None:
        """Make `content` the whole content of the file: all of it or, on failure, nothing of it.

        Mode, owner and extended attributes of an existing file are kept as far as permitted; a hard link is broken.
        Missing folders above a new file are made.

        Raises:
            ToolError: not a place to write to, or the write failed; the old file is whole.
        """
        self._check_writable(place, place.name)
        *folders, file_name = self._parts(place)
        try:
            with open_folder(self.root, folders, create=True) as folder:
                replace_file(folder, file_name, content, label=place.name)
        except OSError as fault:
            raise ToolError(
                f"{place.name!r} cannot be written: {fault_text(fault)}. Nothing was changed."
            ) from fault

    def _locate_in_record(self, path: str, *, write: bool) -> Place:
        if write:
            raise ToolError(f"{path!r} is part of the record of this run and can only be read.")
        inner = path.removeprefix(RUN_PREFIX).strip("/")
        if self.run_dir is None or path + "/" == RUN_PREFIX or inner.split("/")[0] not in RUN_FOLDERS:
            raise ToolError(
                f"{path!r} is not readable. Of the run's record only "
                f"{' and '.join(RUN_PREFIX + folder + '/' for folder in RUN_FOLDERS)} can be read."
            )
        real = _resolve(self.run_dir / inner, path)
        if not any(real.is_relative_to(self.run_dir / folder) for folder in RUN_FOLDERS):
            raise ToolError(f"{path!r} leads out of the run's record. Use the name as it was given.")
        return Place(path=real, name=RUN_PREFIX + real.relative_to(self.run_dir).as_posix())

    def _check_backslash(self, path: str, *, write: bool) -> None:
        if os.path.lexists(self.root / path):
            return
        slashed = path.replace("\\", "/")
        if os.path.lexists(self.root / slashed):
            raise ToolError(
                f"There is no file {path!r}. Did you mean {slashed!r}? Folders are separated by '/'."
            )
        if write:
            raise ToolError(f"{path!r} contains a backslash. Separate folders by '/': {slashed!r}.")

    def _check_writable(self, place: Place, spelled: str) -> None:
        if place.name.startswith(RUN_PREFIX):
            raise ToolError(f"{place.name!r} is part of the record of this run and can only be read.")
        if place.path == self.root:
            raise ToolError(f"{spelled!r} is the workspace itself. Name a file in it.")
        folders = git_folders(self.root)
        own = () if folders is None else (folders.own, folders.common)
        names = (*Path(spelled).parts, *self._parts(place))
        if (
            any(map(_is_git_name, names))
            or any(place.path.is_relative_to(folder) for folder in own)
            or self._is_in_git_folder(place)
        ):
            raise ToolError(
                f"{spelled!r} belongs to git and is not written by file tools. Use git itself if the task needs it."
            )

    def _is_in_git_folder(self, place: Place) -> bool:
        """Whether git would take a folder around the file for its own, or would if the file were there.

        Checkouts may lie in a git folder, under names that git does not use itself.
        """
        path, in_checkout = place.path, False
        while path != self.root:
            if looks_like_git(path.parent, adding=path.name) and not (
                in_checkout and path.name not in GIT_NAMES
            ):
                return True
            path = path.parent
            in_checkout = in_checkout or os.path.lexists(path / ".git")
        return False

    def _base(self, place: Place) -> Path:
        if place.name.startswith(RUN_PREFIX) and self.run_dir is not None:
            return self.run_dir
        return self.root

    def _parts(self, place: Place) -> tuple[str, ...]:
        base = self._base(place)
        if not place.path.is_relative_to(base):
            raise ToolError(f"{place.name!r} does not lie in this workspace.")
        return place.path.relative_to(base).parts or (".",)

    def _nearby(self, place: Place) -> str:
        folder = place.path.parent
        if not is_folder(folder):
            missing = next(parent for parent in reversed(place.path.parents) if not is_folder(parent))
            return f" There is no folder {self._call(missing)!r}."
        if close := close_names(folder, place.path.name):
            return f" Did you mean {' or '.join(repr(self._call(folder / name)) for name in close)}?"
        return f" List what {self._call(folder)!r} holds with search."

    def _call(self, path: Path) -> str:
        for base, prefix in ((self.root, ""), (self.run_dir, RUN_PREFIX)):
            if base is not None and path.is_relative_to(base):
                return prefix + path.relative_to(base).as_posix()
        return path.name


def _check_text(path: str) -> None:
    if not path.strip():
        raise ToolError(
            "The path is empty. Give a path relative to the workspace; '.' is the workspace itself."
        )
    if "\0" in path:
        raise ToolError(f"{path[:100]!r} contains a NUL character, which no path can.")
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError as fault:
        raise ToolError(f"{path[:100]!r} contains a character that no path can.") from fault
    if len(encoded) > _MAX_PATH_BYTES or any(len(name) > _MAX_NAME_BYTES for name in encoded.split(b"/")):
        raise ToolError(f"The path that begins with {path[:60]!r} is too long ({len(encoded)} bytes).")
    if path.startswith("~"):
        raise ToolError(
            f"{path!r}: '~' is not expanded, and home folders are not part of the workspace. "
            f"Give a path relative to the workspace, or './{path}' for a file of that name."
        )
    if _URL.match(path):
        raise ToolError(f"{path!r} is a URL. Give a path relative to the workspace.")


def _resolve(path: Path, spelled: str) -> Path:
    try:
        return Path(os.path.realpath(path, strict=True))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return Path(os.path.realpath(path))
    except OSError as fault:
        raise ToolError(f"{spelled!r} cannot be used: {fault_text(fault)}.") from fault


def _is_git_name(name: str) -> bool:
    # Some file systems fold letter case, drop trailing dots and spaces, and ignore invisible characters.
    visible = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
    return visible.casefold().rstrip(". ") in {".git", "git~1"}
