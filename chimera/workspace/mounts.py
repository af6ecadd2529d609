"""What of the file system a confined command sees, as arguments of bwrap.

Everything is read-only, homes and temporary folders are hidden, the workspace is writable. Git's own files in it are the
business of `git_guard`, since they change from command to command.
"""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from chimera.workspace.environment import TOOLCHAIN_HOMES
from chimera.workspace.files import is_file, is_folder, real_path
from chimera.workspace.git_folders import enclosing_checkout

_TEMPORARY_FOLDERS = ("/tmp", "/var/tmp", "/run")  # noqa: S108 - hidden, not used
# A home in one of these is that of a service; hiding it would hide programs.
_SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/etc", "/dev", "/proc", "/sys", "/boot", "/nix")
_TOOLCHAINS = (
    *(".asdf", ".bun", ".cargo", ".conda", ".deno", ".dotnet", ".elan", ".fnm", ".ghcup", ".juliaup", ".nvm"),
    *(
        ".opam",
        ".pyenv",
        ".rbenv",
        ".rustup",
        ".rye",
        ".sdkman",
        ".volta",
        "anaconda3",
        "bin",
        "go",
        "miniconda3",
    ),
    *("miniforge3", ".gem/ruby", ".m2/repository", ".local/bin", ".local/lib", ".local/pipx"),
    *(".local/share/fnm", ".local/share/gem", ".local/share/mise", ".local/share/pipx", ".local/share/pnpm"),
    *(".local/share/uv",),
)
_TOOLCHAIN_SECRETS = ("credentials", "credentials.toml", "auth.json", ".npmrc")


class Mounts(Struct, frozen=True, kw_only=True):
    """Arguments for bwrap that follow `--ro-bind / /`, and what they cannot promise."""

    arguments: tuple[str, ...]
    missing: tuple[str, ...]


def plan_mounts(
    workspace: Path,
    *,
    writable: bool,
    allow_net: bool,
    environment: Mapping[str, str],
) -> Mounts:
    """The view of commands in `workspace`, a real path."""
    missing: list[str] = []
    homes = [home for home in homes_of(environment) if _can_hide(home, workspace, missing)]
    hidden = [real for folder in _TEMPORARY_FOLDERS if is_folder(real := real_path(Path(folder)))]
    arguments = [part for folder in dict.fromkeys([*hidden, *homes]) for part in ("--tmpfs", str(folder))]
    for home in homes:
        arguments += ["--dir", str(home / ".cache")]
    arguments += _shown(toolchains(homes, environment), hidden=[*hidden, *homes])
    if allow_net:
        arguments += _name_resolution()
    if (checkout := enclosing_checkout(workspace)) and checkout != workspace:
        arguments += _shown([checkout], hidden=[*hidden, *homes])
    arguments += [*("--bind" if writable else "--ro-bind", str(workspace), str(workspace))]
    arguments += ["--setenv", "TMPDIR", "/tmp"]  # noqa: S108 - a private one
    return Mounts(arguments=tuple(arguments), missing=tuple(missing))


def homes_of(environment: Mapping[str, str]) -> list[Path]:
    """The home in the environment and the one of the account: both hold keys."""
    homes = [environment.get("HOME", "")]
    with suppress(KeyError):  # a container may run under a user id without an account
        homes.append(pwd.getpwuid(os.getuid()).pw_dir)
    return list(dict.fromkeys(real_path(Path(home)) for home in homes if home.startswith("/")))


def _can_hide(home: Path, workspace: Path, missing: list[str]) -> bool:
    if not is_folder(home):
        return False
    if home.is_relative_to(workspace):
        missing.append(f"commands can read all of {home}, keys included, because the workspace holds it")
        return False
    if home == Path("/") or any(home.is_relative_to(real_path(Path(folder))) for folder in _SYSTEM_FOLDERS):
        missing.append(f"commands can read all of {home}, because programs lie in the same place")
        return False
    return True


def toolchains(homes: Iterable[Path], environment: Mapping[str, str]) -> Iterator[Path]:
    """Where languages keep their programs and libraries, whether such folders exist or not."""
    for home in homes:
        yield from (home / name for name in _TOOLCHAINS)
    yield from (
        Path(environment[name]) for name in TOOLCHAIN_HOMES if environment.get(name, "").startswith("/")
    )
    yield from (Path(sys.base_prefix), Path(sys.prefix))


def _shown(folders: Iterable[Path], *, hidden: list[Path]) -> Iterator[str]:
    """Read-only binds of those folders that exist, lie in a hidden one and are none themselves; keys in them covered."""
    for folder in dict.fromkeys(folders):
        real = real_path(folder)
        if not is_folder(real) or any(place.is_relative_to(real) for place in hidden):
            continue
        if not any(place.is_relative_to(cover) for place in (folder, real) for cover in hidden):
            continue
        for place in dict.fromkeys((folder, real)):
            yield from ("--ro-bind-try", str(real), str(place))
            yield from _covered_secrets(place)


def toolchain_secrets(toolchain: Path) -> list[Path]:
    """What in the folder of a toolchain may hold keys."""
    return [toolchain / name for name in _TOOLCHAIN_SECRETS]


def _covered_secrets(toolchain: Path) -> Iterator[str]:
    for secret in toolchain_secrets(toolchain):
        if is_file(secret):
            yield from ("--ro-bind", os.devnull, str(secret))
        elif is_folder(secret):
            yield from ("--tmpfs", str(secret))


def _name_resolution() -> list[str]:
    """Back into view: the file that names the resolver, where it lies in /run."""
    real = str(real_path(Path("/etc/resolv.conf")))
    return ["--ro-bind-try", real, real] if real.startswith("/run/") else []
