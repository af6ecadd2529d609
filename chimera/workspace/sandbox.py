"""Confining the commands that the model runs. Whether a backend works is found out by trying it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from chimera.config import SandboxLevel
from chimera.errors import SandboxUnavailableError
from chimera.workspace.environment import child_environment
from chimera.workspace.mounts import Mounts, plan_mounts
from chimera.workspace.programs import find_program

SandboxBackend = Literal["bwrap", "none"]
TRUSTED_PATH = "/usr/bin:/bin:/usr/local/bin"
_PROBE_TIMEOUT_S = 20.0
_APPARMOR_SWITCH = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """How commands are confined in this run."""

    level: SandboxLevel
    backend: SandboxBackend
    missing: tuple[str, ...]
    """What the level promises and this machine does not give, one sentence each, for people."""
    prefix: tuple[str, ...] = ()

    def wrap(self, argv: Sequence[str]) -> list[str]:
        """The command that runs `argv` confined.

        Start it in a folder of the workspace and with the environment of `child_environment`: the confined command can
        read the environment of what confines it.
        """
        return [*self.prefix, *argv]

    def narrowed(self, *, hidden: Iterable[Path] = (), read_only: Iterable[Path] = ()) -> Sandbox:
        """The same with some folders empty or read-only. All must exist; without a backend nothing changes."""
        if self.backend == "none":
            return self
        empty = [part for folder in hidden for part in ("--tmpfs", str(folder.resolve()))]
        fixed = [part for f in read_only for part in ("--ro-bind", str(f.resolve()), str(f.resolve()))]
        return replace(self, prefix=(*self.prefix[:-1], *empty, *fixed, self.prefix[-1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Variant:
    """Arguments of bwrap that not every machine grants, and what is lost without them."""

    fresh_proc: bool = True
    no_nested_namespaces: bool = True

    def losses(self) -> tuple[str, ...]:
        losses = []
        if not self.fresh_proc:
            losses.append(
                "commands can see the other processes of this machine and, of their own user, the environment"
            )
        if not self.no_nested_namespaces:
            losses.append("commands can create user namespaces of their own")
        return tuple(losses)


# In the order in which they are tried. A fresh /proc is refused inside most containers; older bwrap, and one that is
# installed setuid, has no way to forbid nested user namespaces.
_VARIANTS = (
    _Variant(),
    _Variant(fresh_proc=False),
    _Variant(no_nested_namespaces=False),
    _Variant(fresh_proc=False, no_nested_namespaces=False),
)


def open_sandbox(
    level: SandboxLevel,
    workspace_root: Path,
    *,
    allow_net: bool,
    allow_git_write: bool,
    required: bool,
    environment: Mapping[str, str],
    trusted_path: str = TRUSTED_PATH,
) -> Sandbox:
    """The sandbox for commands in the workspace, proved by running one command in it.

    Args:
        level: what the user asked for.
        workspace_root: real path of the workspace.
        allow_net: commands may use the network.
        allow_git_write: commands may write `.git`, but for what makes git run programs.
        required: fail instead of going unconfined.
        environment: the one chimera was started with; names the home and the toolchains.
        trusted_path: where bwrap is looked for.

    Raises:
        SandboxUnavailableError: `required`, and nothing works here.
    """
    if level == "danger-full-access":
        return Sandbox(level=level, backend="none", missing=("commands run unconfined, as asked",))
    bwrap = find_program("bwrap", trusted_path, outside=workspace_root)
    reason = f"bwrap was not found in {trusted_path}"
    if bwrap is not None:
        mounts = plan_mounts(
            workspace_root,
            writable=level == "workspace-write",
            allow_net=allow_net,
            allow_git_write=allow_git_write,
            environment=environment,
        )
        for variant in _VARIANTS:
            prefix = (str(bwrap), *_namespaces(variant, allow_net=allow_net), *_view(variant, mounts), "--")
            fault = _probe(prefix, workspace_root, environment)
            if fault is None:
                missing = (*variant.losses(), *mounts.missing)
                return Sandbox(level=level, backend="bwrap", missing=missing, prefix=prefix)
            reason = f"{bwrap} does not work here: {fault}"
    if required:
        raise SandboxUnavailableError(_how_to_get_one(reason))
    return Sandbox(level=level, backend="none", missing=(f"commands run unconfined: {reason}",))


def _namespaces(variant: _Variant, *, allow_net: bool) -> list[str]:
    # Without a user namespace of its own and without dropping capabilities, a command of root could remount everything
    # writable.
    arguments = ["--unshare-all", "--unshare-user", "--cap-drop", "ALL", "--die-with-parent", "--new-session"]
    if allow_net:
        arguments.append("--share-net")
    if variant.no_nested_namespaces:
        arguments.append("--disable-userns")
    return arguments


def _view(variant: _Variant, mounts: Mounts) -> list[str]:
    proc = ["--proc", "/proc"] if variant.fresh_proc else []
    return ["--ro-bind", "/", "/", "--dev", "/dev", *proc, *mounts.arguments]


def _probe(prefix: Sequence[str], workspace_root: Path, environment: Mapping[str, str]) -> str | None:
    """Why a command cannot be run this way, or None if it can."""
    try:
        done = subprocess.run(
            [*prefix, "true"],
            cwd=workspace_root,
            env=child_environment(environment, extra={"PATH": TRUSTED_PATH}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"a trial did not end within {_PROBE_TIMEOUT_S:.0f} s"
    except OSError as fault:
        return str(fault)
    if done.returncode == 0:
        return None
    text = done.stderr.decode("utf-8", "replace").strip()
    return text.splitlines()[-1] if text else f"a trial ended with exit code {done.returncode}"


def _how_to_get_one(reason: str) -> str:
    if not sys.platform.startswith("linux"):
        way = "commands can be confined on Linux only for now"
    elif _apparmor_forbids():
        way = (
            "AppArmor forbids user namespaces on this system (kernel.apparmor_restrict_unprivileged_userns = 1); "
            "give bwrap an AppArmor profile that allows `userns`, or set that switch to 0"
        )
    else:
        way = (
            "install bubblewrap (`apt install bubblewrap`, `dnf install bubblewrap` or `pacman -S bubblewrap`); "
            "in a container it also needs permission to create user namespaces"
        )
    return (
        f"no sandbox for commands: {reason}. To get one: {way}. "
        "To run without, say so with --sandbox danger-full-access."
    )


def _apparmor_forbids() -> bool:
    try:
        return _APPARMOR_SWITCH.read_text(encoding="ascii").strip() == "1"
    except OSError:
        return False
