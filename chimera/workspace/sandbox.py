"""Confining the commands that the model runs. Whether a backend works is found out by trying it."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from chimera.config import SandboxLevel
from chimera.errors import SandboxUnavailableError
from chimera.workspace.advice import how_to_get_one
from chimera.workspace.environment import child_environment
from chimera.workspace.files import is_file, real_path
from chimera.workspace.git_guard import GitGuard
from chimera.workspace.landlock import interpreter_inside, landlock_abi, plan_landlock
from chimera.workspace.limits import limiting_shell
from chimera.workspace.mounts import Mounts, plan_mounts
from chimera.workspace.programs import find_program
from chimera.workspace.seatbelt import PROGRAM, plan_seatbelt, rule
from chimera.workspace.seccomp import system_call_filter

SandboxBackend = Literal["bwrap", "landlock", "seatbelt", "none"]
BACKENDS: tuple[SandboxBackend, ...] = (
    ("seatbelt",) if platform.system() == "Darwin" else ("bwrap", "landlock")
)
"""Those of this system, the best one first."""
TRUSTED_PATH = "/usr/bin:/bin:/usr/local/bin"
_PROBE_TIMEOUT_S = 20.0
_NAMED_FILES = 5


class Confined(Struct, frozen=True, kw_only=True):
    """A command as it is to be started."""

    arguments: list[str]
    descriptors: tuple[int, ...] = ()
    """The process must inherit these, or the command does not run."""


class Sandbox(Struct, frozen=True, kw_only=True):
    """How commands are confined in this run."""

    level: SandboxLevel
    backend: SandboxBackend
    missing: tuple[str, ...]
    """What the level promises and this machine does not give, one sentence each, for people."""
    prefix: tuple[str, ...] = ()
    """Program and arguments that confine."""
    covers: tuple[str, ...] = ()
    """Arguments of bwrap that follow those for git's files."""
    masked: tuple[Path, ...] = ()
    """Files that bwrap lets nobody open, as long as they exist: a cover over a missing one would leave a file behind."""
    inner: tuple[str, ...] = ()
    """What stands between those and the command."""
    seccomp: bytes = b""
    """A program for `bwrap --seccomp`."""
    guard: GitGuard | None = None
    """Watches over git's files, where commands may write the workspace."""

    @contextmanager
    def confine(self, argv: Sequence[str]) -> Iterator[Confined]:
        """What to start to run `argv` confined, within the block, which must not end before the command does.

        Start it in a folder of the workspace and with the environment of `child_environment`: the confined command can
        read the environment of what confines it.
        """
        with ExitStack() as stack:
            binds = stack.enter_context(self.guard.holding()) if self.guard else ()
            program, *rest = [*self.prefix, *binds, *self.covers, *self._masks(), *self.inner, *argv]
            if not self.seccomp:
                yield Confined(arguments=[program, *rest])
                return
            reading, writing = os.pipe()
            stack.callback(os.close, reading)
            # A program has some hundred bytes, which every pipe takes at once.
            os.write(writing, self.seccomp)
            os.close(writing)
            yield Confined(
                arguments=[program, "--seccomp", str(reading), *rest],
                descriptors=(reading,),
            )

    def _masks(self) -> Iterator[str]:
        for file in self.masked:
            if is_file(file) and real_path(file) == file:
                yield from ("--ro-bind", os.devnull, str(file))

    def denials(self, output: bytes) -> tuple[str, ...]:
        """What a command should know that was denied a masked file, to judge by its output."""
        if b"ermission denied" not in output and b"EACCES" not in output:
            return ()
        names = [name for name in dict.fromkeys(file.name for file in self.masked) if name.encode() in output]
        return tuple(
            f"{name} is hidden from commands, because it usually holds secrets; only the user can show it, with "
            "--allow-secret-files"
            for name in names[:_NAMED_FILES]
        )

    def narrowed(
        self,
        *,
        hidden: Iterable[Path] = (),
        read_only: Iterable[Path] = (),
        masked: Iterable[Path] = (),
    ) -> Sandbox:
        """The same with some folders empty or read-only, and some files, real paths, that cannot be opened.

        All folders must exist; without a backend nothing changes. Landlock can do none of this; then `missing` says so.
        """
        hidden, read_only, masked = [*hidden], [*read_only], [*masked]
        if self.backend == "landlock":
            losses = (
                *(f"commands can read {folder}" for folder in hidden),
                *(f"commands can change {folder}" for folder in read_only),
            )
            if masked:
                names = ", ".join(file.name for file in masked[:_NAMED_FILES])
                more = ", ..." if len(masked) > _NAMED_FILES else ""
                losses += (f"commands can read files that hold secrets: {names}{more}",)
            return replace(self, missing=(*self.missing, *losses))
        if self.backend == "none":
            return self
        if self.guard is not None:
            self.guard.pinned |= {*masked}
        if self.backend == "seatbelt":
            return self._with_rules(
                *(rule("deny file-read* file-write*", "subpath", folder.resolve()) for folder in hidden),
                *(rule("deny file-write*", "subpath", folder.resolve()) for folder in read_only),
                *(rule("deny file-read* file-write*", "literal", file) for file in masked),
            )
        empty = [part for folder in hidden for part in ("--tmpfs", str(folder.resolve()))]
        fixed = [part for f in read_only for part in ("--ro-bind", str(f.resolve()), str(f.resolve()))]
        return replace(self, covers=(*self.covers, *empty, *fixed), masked=(*self.masked, *masked))

    def _with_rules(self, *rules: str) -> Sandbox:
        """The same with rules at the end of the profile, where they count most."""
        *before, profile = self.prefix
        return replace(self, prefix=(*before, "\n".join((profile, *rules))))

    @property
    def needs_scratch(self) -> bool:
        """Whether commands have no temporary folder until `with_scratch` gives them one."""
        return self.backend in {"landlock", "seatbelt"}

    def with_scratch(self, folder: Path) -> Sandbox:
        """The same with an existing folder, a real path, for temporary files and caches."""
        if self.backend == "seatbelt":
            variables = (f"TMPDIR={folder}", f"XDG_CACHE_HOME={folder / '.cache'}")
            allowed = self._with_rules(rule("allow file-read* file-write*", "subpath", folder))
            return replace(allowed, inner=("/usr/bin/env", *variables, *self.inner))
        return replace(self, prefix=(*self.prefix, f"tmp={folder}"))


class _Variant(Struct, frozen=True, kw_only=True):
    """Arguments of bwrap that not every machine grants, and what is lost without them."""

    filtered: bool = True
    fresh_proc: bool = True
    no_nested_namespaces: bool = True

    def losses(self) -> tuple[str, ...]:
        losses = []
        if not self.fresh_proc:
            losses.append(
                "commands can see the other processes of this machine and, of their own user, the environment"
            )
        if not self.no_nested_namespaces and not self.filtered:
            losses.append("commands can create user namespaces of their own")
        if not self.filtered:
            losses.append("no system call is refused: debugging, kernel keys and rare kinds of sockets work")
        return tuple(losses)


# In the order in which they are tried. A fresh /proc is refused inside most containers; older bwrap, and one that is
# installed setuid, has no way to forbid nested user namespaces (the filter forbids them, too).
_VARIANTS = tuple(
    _Variant(filtered=filtered, fresh_proc=fresh_proc, no_nested_namespaces=no_nested)
    for filtered in (True, False)
    for no_nested in (True, False)
    for fresh_proc in (True, False)
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
    backends: Sequence[SandboxBackend] = BACKENDS,
) -> Sandbox:
    """The sandbox for commands in the workspace, proved by running one command in it.

    Args:
        level: what the user asked for.
        workspace_root: real path of the workspace.
        allow_net: commands may use the network.
        allow_git_write: commands may write `.git`, but for what makes git run programs. Landlock cannot forbid it.
        required: fail instead of going unconfined.
        environment: the one chimera was started with; names the home and the toolchains.
        trusted_path: where bwrap is looked for.
        backends: the ones to try, in this order.

    Raises:
        SandboxUnavailableError: `required`, and nothing works here.
    """
    if level == "danger-full-access":
        return Sandbox(level=level, backend="none", missing=("commands run unconfined, as asked",))
    wish = _Wish(
        level=level,
        root=workspace_root,
        allow_net=allow_net,
        allow_git_write=allow_git_write,
        environment=environment,
        trusted_path=trusted_path,
    )
    reasons: list[str] = []
    for backend in backends:
        opened = _OPENERS[backend](wish)
        if isinstance(opened, Sandbox):
            return opened
        reasons.append(opened)
    reason = "; ".join(reasons)
    if required:
        raise SandboxUnavailableError(how_to_get_one(reason))
    return Sandbox(level=level, backend="none", missing=(f"commands run unconfined: {reason}",))


class _Wish(Struct, frozen=True, kw_only=True):
    """What `open_sandbox` was asked for."""

    level: SandboxLevel
    root: Path
    allow_net: bool
    allow_git_write: bool
    environment: Mapping[str, str]
    trusted_path: str

    @property
    def writable(self) -> bool:
        return self.level == "workspace-write"

    def guard(self, *, mounting: bool) -> GitGuard | None:
        if not self.writable:
            return None
        return GitGuard(self.root, allow_write=self.allow_git_write, mounting=mounting)


def _open_bwrap(wish: _Wish) -> Sandbox | str:
    """The sandbox, or why there is none."""
    bwrap = find_program("bwrap", wish.trusted_path, outside=wish.root)
    if bwrap is None:
        return f"bwrap was not found in {wish.trusted_path}"
    mounts = plan_mounts(
        wish.root,
        writable=wish.writable,
        allow_net=wish.allow_net,
        environment=wish.environment,
    )
    guard = wish.guard(mounting=True)
    program = system_call_filter(os.uname().machine, sockets="usual")
    fault: str | None = None
    for variant in _VARIANTS:
        if variant.filtered and program is None:
            continue
        sandbox = Sandbox(
            level=wish.level,
            backend="bwrap",
            missing=(*variant.losses(), *mounts.missing, *(guard.missing if guard else ())),
            prefix=(str(bwrap), *_namespaces(variant, allow_net=wish.allow_net), *_view(variant, mounts)),
            inner=("--", *limiting_shell()),
            seccomp=program if variant.filtered and program else b"",
            guard=guard,
        )
        fault = _probe(sandbox, wish)
        if fault is None:
            return sandbox
    return f"{bwrap} does not work here: {fault}"


def _open_landlock(wish: _Wish) -> Sandbox | str:
    """The sandbox, or why there is none."""
    abi = landlock_abi()
    if abi == 0:
        return "Landlock is not offered by this kernel"
    if interpreter_inside(wish.root):
        return "Landlock needs a Python outside the workspace, where commands cannot change it"
    plan = plan_landlock(wish.root, writable=wish.writable, allow_net=wish.allow_net, abi=abi)
    sandbox = Sandbox(
        level=wish.level,
        backend="landlock",
        missing=plan.missing,
        prefix=plan.prefix,
        inner=("--",),
        guard=wish.guard(mounting=False),
    )
    fault = _probe(sandbox, wish)
    return sandbox if fault is None else f"Landlock does not work here: {fault}"


def _open_seatbelt(wish: _Wish) -> Sandbox | str:
    """The sandbox, or why there is none."""
    program = find_program(PROGRAM, wish.trusted_path, outside=wish.root)
    if program is None:
        return f"{PROGRAM} was not found in {wish.trusted_path}"
    plan = plan_seatbelt(
        wish.root,
        writable=wish.writable,
        allow_net=wish.allow_net,
        allow_git_write=wish.allow_git_write,
        environment=wish.environment,
    )
    sandbox = Sandbox(
        level=wish.level,
        backend="seatbelt",
        missing=plan.missing,
        prefix=(str(program), "-p", plan.profile),
        inner=limiting_shell(),
        guard=wish.guard(mounting=False),
    )
    fault = _probe(sandbox, wish) or _writes_outside(sandbox, wish)
    return sandbox if fault is None else f"{program} does not work here: {fault}"


_OPENERS: Mapping[SandboxBackend, Callable[[_Wish], Sandbox | str]] = {
    "bwrap": _open_bwrap,
    "landlock": _open_landlock,
    "seatbelt": _open_seatbelt,
}


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


def _writes_outside(sandbox: Sandbox, wish: _Wish) -> str | None:
    """Why it is no sandbox, found out at a file that must not change; None if it is one."""
    with tempfile.TemporaryDirectory() as folder:
        victim = Path(folder).resolve() / "victim"
        victim.write_bytes(b"")
        _probe(sandbox, wish, ["sh", "-c", 'echo x > "$0"', str(victim)])
        return "commands write outside the workspace" if victim.read_bytes() else None


def _probe(sandbox: Sandbox, wish: _Wish, command: Sequence[str] = ("true",)) -> str | None:
    """Why a command cannot be run this way, or None if it can."""
    if sandbox.guard is not None:
        sandbox = replace(sandbox, guard=None, covers=sandbox.guard.arguments)
    try:
        with sandbox.confine(command) as confined:
            done = subprocess.run(
                confined.arguments,
                cwd=wish.root,
                env=child_environment(wish.environment, extra={"PATH": TRUSTED_PATH}),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PROBE_TIMEOUT_S,
                check=False,
                pass_fds=confined.descriptors,
            )
    except subprocess.TimeoutExpired:
        return f"a trial did not end within {_PROBE_TIMEOUT_S:.0f} s"
    except OSError as fault:
        return str(fault)
    if done.returncode == 0:
        return None
    text = done.stderr.decode("utf-8", "replace").strip()
    return text.splitlines()[-1] if text else f"a trial ended with exit code {done.returncode}"
