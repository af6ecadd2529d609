"""What is installed that must not be: releases of litellm known to steal keys, code that starts with every Python."""

from __future__ import annotations

import fnmatch
import os
import site
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from chimera.errors import ConfigError

DENIED_LITELLM = ("1.82.7", "1.82.8", "1.107.*")
"""1.82.7 and 1.82.8 (24 March 2026) sent keys away; 1.107.0 was named compromised in October 2026 by the maker of a
checking tool, and nobody has cleared it."""
_DENIED_PATH_FILES = ("litellm_init.pth",)
_METADATA = ".dist-info"
# Made by tools that record no owner.
_USUAL_PATH_FILES = ("_virtualenv.pth", "*-nspkg.pth", "__editable__*.pth")


def refuse_bad_installation() -> None:
    """Let nothing begin with a bad installation.

    Raises:
        ConfigError: `installation_faults` finds something.
    """
    if faults := installation_faults(litellm_version(), package_folders()):
        raise ConfigError("; ".join(faults))


def litellm_version() -> str | None:
    """The release that an import would take, by the folder that installers name after it."""
    folders = dict.fromkeys((*map(Path, filter(None, sys.path)), *package_folders()))
    names = (name.partition("-") for folder in folders for name in _entries(folder))
    found = (rest.removesuffix(_METADATA) for name, _, rest in names if name == "litellm")
    return next((version for version in found if version[:1].isdigit()), None)


def package_folders() -> tuple[Path, ...]:
    """Where this Python finds installed packages and the `.pth` files that it reads at its start."""
    folders = site.getsitepackages()
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return tuple(dict.fromkeys(Path(folder) for folder in folders))


def installation_faults(version: str | None, folders: Iterable[Path]) -> tuple[str, ...]:
    """Why nothing should be run with this installation, one sentence each; empty if nothing speaks against it.

    Args:
        version: of litellm; None if it is not installed.
        folders: as of `package_folders`.
    """
    return (*_version_faults(version), *_path_file_faults([folder for folder in folders if folder.is_dir()]))


def _version_faults(version: str | None) -> Iterator[str]:
    if version is not None and any(fnmatch.fnmatch(version, denied) for denied in DENIED_LITELLM):
        yield (
            f"litellm {version} is one of the releases that must not run ({', '.join(DENIED_LITELLM)}): "
            "uninstall it and change every key that this machine holds"
        )


def _path_file_faults(folders: list[Path]) -> Iterator[str]:
    for file in (file for folder in folders for file in sorted(folder.glob("*.pth"))):
        if file.name in _DENIED_PATH_FILES:
            yield f"{file} is part of a release of litellm that steals keys: remove it, and change every key"
        elif _starts_code(file) and not _has_owner(file):
            yield f"{file} starts code with every Python and belongs to no installed package: find out why, or remove it"


def _starts_code(file: Path) -> bool:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    # As the module site reads them.
    return any(line.startswith(("import ", "import\t")) for line in lines)


def _has_owner(file: Path) -> bool:
    if any(fnmatch.fnmatch(file.name, usual) for usual in _USUAL_PATH_FILES):
        return True
    name = os.fsencode(file.name)
    packages = [entry for entry in _entries(file.parent) if entry.endswith(_METADATA)]
    # Most start-up files are named after the package that they belong to.
    packages.sort(key=lambda package: package.partition("-")[0] not in file.name)
    return any(
        line.partition(b",")[0].strip(b'"') == name
        for package in packages
        if name in (record := _read(file.parent / package / "RECORD"))
        for line in record.splitlines()
    )


def _entries(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208  (names are all that is needed, of many)
    except OSError:
        return []


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
