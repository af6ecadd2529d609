"""Confining commands on macOS: a profile for `sandbox-exec`, in the language of its kernel extension.

Written after the public profiles that ship with macOS, and tested as text only: nobody has tried it on a Mac yet. Everything
is refused that no rule allows; of several rules that fit, the last one counts. The kernel compares real paths.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from chimera.workspace.git_folders import GOVERNING
from chimera.workspace.mounts import homes_of, toolchain_secrets, toolchains

PROGRAM = "sandbox-exec"
_DEVICES = (
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/tty",
    "/dev/random",
    "/dev/urandom",
    "/dev/dtracehelper",
)
# Looking up users and groups, the time zone, preferences, the log, and the trust that TLS libraries ask for.
_SERVICES = (
    "com.apple.system.opendirectoryd.libinfo",
    "com.apple.system.opendirectoryd.membership",
    "com.apple.system.notification_center",
    "com.apple.system.logger",
    "com.apple.logd",
    "com.apple.cfprefsd.agent",
    "com.apple.cfprefsd.daemon",
)
_SERVICES_OF_NETWORK = (
    "com.apple.SystemConfiguration.configd",
    "com.apple.SystemConfiguration.DNSConfiguration",
    "com.apple.dnssd.service",
    "com.apple.trustd",
    "com.apple.trustd.agent",
)
# Each is a link to the folder of the same name in /private.
_LINKED_FOLDERS = ("/tmp", "/var", "/etc")  # noqa: S108 - spelled, not used
_MISSING = (
    "this way to confine commands was never tried by its makers; chimera doctor tries it here",
    "commands can see names, sizes and times of all files, and the other processes of this machine",
    "of git folders those are protected that are called .git",
    "a process that leaves its session and clears its environment outlives its command",
)


class SeatbeltPlan(Struct, frozen=True, kw_only=True):
    """How commands are confined by Seatbelt, and what that cannot promise."""

    profile: str
    missing: tuple[str, ...]


def plan_seatbelt(
    workspace: Path,
    *,
    writable: bool,
    allow_net: bool,
    allow_git_write: bool,
    environment: Mapping[str, str],
) -> SeatbeltPlan:
    """The plan for commands in `workspace`, a real path. Later rules may be added to its profile."""
    lines = ["(version 1)", "(deny default)", *_basics(), *_reading(workspace, environment)]
    lines += [rule("allow file-write*", "literal", device) for device in map(Path, _DEVICES)]
    if writable:
        lines.append(rule("allow file-write*", "subpath", workspace))
        lines += _protected_git(workspace, allow_write=allow_git_write)
    if allow_net:
        lines += ["(allow network*)", "(allow system-socket)"]
        lines += [f'(allow mach-lookup (global-name "{name}"))' for name in _SERVICES_OF_NETWORK]
    return SeatbeltPlan(profile="\n".join(lines), missing=_MISSING)


def rule(action: str, kind: str, *paths: Path) -> str:
    """A rule for these paths, each as the kernel spells it and as people do."""
    filters = " ".join(f"({kind} {_quoted(spelling)})" for path in paths for spelling in _spellings(path))
    return f"({action} {filters})"


def _basics() -> Iterator[str]:
    yield "(allow process-exec)"
    yield "(allow process-fork)"
    yield "(allow process-info* (target same-sandbox))"
    yield "(allow signal (target same-sandbox))"
    yield "(allow sysctl-read)"
    yield "(allow ipc-posix-sem)"
    yield "(allow pseudo-tty)"
    for name in _SERVICES:
        yield f'(allow mach-lookup (global-name "{name}"))'


def _reading(workspace: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Everything but homes and temporary folders, of these only toolchains and the workspace."""
    homes = homes_of(environment)
    yield "(allow file-read*)"
    yield rule("deny file-read-data", "subpath", *homes, Path("/private/tmp"), Path("/private/var/folders"))
    for folder in dict.fromkeys(toolchains(homes, environment)):
        yield rule("allow file-read-data", "subpath", folder)
        yield rule("deny file-read-data", "subpath", *toolchain_secrets(folder))
    yield rule("allow file-read-data", "subpath", workspace)


def _protected_git(workspace: Path, *, allow_write: bool) -> Iterator[str]:
    """By name, so that it holds wherever a command moves a folder, and in any case, since file systems fold it."""
    inside = "^" + _escaped(str(workspace)) + "/(.*/)?" + _any_case(".git")
    if not allow_write:
        yield f'(deny file-write* (regex #"{inside}(/|$)"))'
        return
    names = "|".join(_any_case(name) for name in (*GOVERNING, "gitdir"))
    yield f'(deny file-write* (regex #"{inside}/(.*/)?({names})(/|$)"))'
    # With the folder itself its protected parts would move away.
    yield f'(deny file-write-unlink (regex #"{inside}$"))'


def _any_case(name: str) -> str:
    return "".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else _escaped(c) for c in name)


def _escaped(text: str) -> str:
    """The text for a pattern between quotes. A quote cannot stand there, so any character does for it."""
    return re.sub(r"[.\[\]{}()*+?^$|\\]", r"\\\g<0>", text).replace('"', ".")


def _spellings(path: Path) -> Iterable[str]:
    text = str(path)
    yield text
    for folder in _LINKED_FOLDERS:
        if path.is_relative_to(f"/private{folder}"):
            yield text.removeprefix("/private")
        elif path.is_relative_to(folder):
            yield f"/private{text}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
