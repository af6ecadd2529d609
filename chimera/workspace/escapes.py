"""Canary escapes: what a sandbox holds back on this machine, proved at the victims."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, Self, get_args

from msgspec import Struct, field

from chimera.errors import SandboxUnavailableError, ToolError
from chimera.workspace import process_table
from chimera.workspace.environment import child_environment
from chimera.workspace.process import CommandRunner
from chimera.workspace.sandbox import TRUSTED_PATH, Sandbox, SandboxBackend, open_sandbox

Guarantee = Literal[
    "write_outside",
    "write_system",
    "write_home",
    "modes_outside",
    "write_git",
    "mounts",
    "read_home",
    "read_environments",
    "tcp",
    "udp",
    "local_sockets",
    "abstract_sockets",
    "vsock",
    "signals",
    "survival",
]
GUARANTEES: tuple[Guarantee, ...] = get_args(Guarantee)
DESCRIPTIONS: Mapping[Guarantee, str] = {
    "write_outside": "files outside the workspace are not written",
    "write_system": "files of the system are not written",
    "write_home": "files in your home are not written",
    "modes_outside": "modes and times of files outside stay",
    "write_git": "hooks and settings of git are not written",
    "mounts": "nothing is mounted, and root has no powers",
    "read_home": "files in your home are not read",
    "read_environments": "keys of other processes are not read",
    "tcp": "no TCP connection leaves",
    "udp": "no UDP packet leaves",
    "local_sockets": "services with a socket file are not reached",
    "abstract_sockets": "services with an abstract socket are not reached",
    "vsock": "the host of a virtual machine is not reached",
    "signals": "other processes get no signals",
    "survival": "no process outlives the run",
}
ESSENTIAL: frozenset[Guarantee] = frozenset(
    {"write_outside", "write_system", "write_home", "mounts", "tcp", "udp"}
)
"""What every backend must give: without one of these it is no sandbox."""
_TIMEOUT_S = 30.0
_GRACE_S = 0.2
_SYSTEM_FOLDER = Path("/etc")


class Trial(Struct, frozen=True, kw_only=True):
    """What came of trying to get out of one backend."""

    backend: SandboxBackend
    fault: str | None = None
    """Why the backend cannot be used, or the trial did not come to its end."""
    held: Mapping[Guarantee, bool | None] = field(default_factory=dict)
    """None: could not be tried here."""
    missing: tuple[str, ...] = ()

    @property
    def works(self) -> bool:
        return self.fault is None and not any(self.held.get(name) is False for name in ESSENTIAL)


def try_escapes(
    backend: SandboxBackend, environment: Mapping[str, str], *, trusted_path: str = TRUSTED_PATH
) -> Trial:
    """Run every escape that we know of in a scratch workspace. What gets out is removed again.

    Makes, for the moment, one file in the user's home and one in the temporary folder, and sockets on loopback.

    Args:
        backend: the one to prove.
        environment: the one chimera was started with.
        trusted_path: where bwrap is looked for.
    """
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="chimera-doctor-")).resolve()
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        scene = _Scene(folder, Path(environment.get("HOME") or Path.home()))
        stack.callback(scene.clear)
        try:
            sandbox = open_sandbox(
                "workspace-write",
                scene.workspace,
                allow_net=False,
                allow_git_write=False,
                required=True,
                environment=environment,
                trusted_path=trusted_path,
                backends=(backend,),
            )
        except SandboxUnavailableError as fault:
            return Trial(backend=backend, fault=str(fault))
        with _Listeners.open(folder) as listeners, _victim(scene.canary) as victim:
            output = _attack(scene, listeners, victim, sandbox, environment)
            held = {**scene.held(victim), **listeners.held()}
        if not scene.finished:
            return Trial(backend=backend, fault=f"the trial did not come to its end: {output[-500:].strip()}")
    return Trial(backend=backend, held={n: held.get(n) for n in GUARANTEES}, missing=sandbox.missing)


def _attack(
    scene: _Scene,
    listeners: _Listeners,
    victim: subprocess.Popen[bytes],
    sandbox: Sandbox,
    environment: Mapping[str, str],
) -> str:
    source = Path(__file__).with_name("attack.py").read_text(encoding="utf-8")
    targets = {**scene.targets(), **listeners.targets(), "victim": victim.pid}
    python = os.path.realpath(sys.executable)
    runner = CommandRunner(
        scene.workspace,
        sandbox,
        child_environment(environment),
        scene.spool,
        grace_s=_GRACE_S,
        linger_s=_GRACE_S,
    )
    try:
        command = shlex.join([python, "-I", "-S", "-c", source, json.dumps(targets)])
        return runner.run(command, _TIMEOUT_S).output.decode("utf-8", "replace")
    except ToolError as fault:
        return str(fault)
    finally:
        runner.close()


class _Scene:
    """A workspace, what lies around it, and the marks by which an escape is known."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.token = secrets.token_hex(8)
        self.canary = f"canary-{self.token}"
        self.workspace = folder / "workspace"
        self.spool = folder / "spool"
        self.outside = folder / "outside"
        self.modes = folder / "modes"
        # Seconds by which the process is known that tries to stay.
        self.nap = f"299.{int(self.token, 16) % 10**9:09}"
        self.system = _SYSTEM_FOLDER / f"chimera-doctor-{self.token}"
        self.remounted = _SYSTEM_FOLDER / f"chimera-doctor-{self.token}-remounted"
        self.home = home / f".chimera-doctor-{self.token}-written"
        self.secret = _secret_file(home, self.canary)
        self.spool.mkdir()
        for file in (self.outside, self.modes):
            file.write_text("before", encoding="utf-8")
            file.chmod(0o600)
        git = self.workspace / ".git"
        for name in ("objects", "refs", "hooks"):
            (git / name).mkdir(parents=True)
        (git / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
        (git / "config").write_text("[core]\n", encoding="utf-8")

    def targets(self) -> dict[str, Any]:
        """What the attack needs to know, as JSON values."""
        return {
            "token": self.token,
            "outside": str(self.outside),
            "system": str(self.system),
            "remounted": str(self.remounted),
            "home": str(self.home),
            "modes": str(self.modes),
            "secret": str(self.secret) if self.secret else None,
            "nap": self.nap,
        }

    @property
    def _report(self) -> dict[str, Any]:
        try:
            report = json.loads((self.workspace / "report.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return report if isinstance(report, dict) else {}

    @property
    def finished(self) -> bool:
        """Whether the attack ran to its end, which also shows that the workspace can be written."""
        return self._report.get("token") == self.token

    def held(self, victim: subprocess.Popen[bytes]) -> dict[Guarantee, bool | None]:
        """What was held back, to judge by the victims."""
        report = self._report
        git = self.workspace / ".git"
        return {
            "write_outside": self.outside.read_text(encoding="utf-8") == "before",
            "write_system": not self.system.exists(),
            "write_home": not self.home.exists(),
            "modes_outside": self.modes.stat().st_mode & 0o777 == 0o600,
            "write_git": (git / "HEAD").exists() and not (git / "hooks" / "pre-commit").exists(),
            "mounts": not self.remounted.exists() and report.get("capabilities") is False,
            "read_home": None if self.secret is None else report.get("home") != self.canary,
            "read_environments": self.canary not in report.get("environments", self.canary),
            "vsock": report.get("vsock") is False,
            "signals": victim.poll() is None,
            "survival": not self._stayed() if report.get("started") else None,
        }

    def clear(self) -> None:
        """Remove what escaped, and end what stayed."""
        for path in (self.system, self.remounted, self.home, self.secret):
            if path is not None:
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        process_table.send(self._stayed(), signal.SIGKILL)

    def _stayed(self) -> set[process_table.Process]:
        words = f"sleep\0{self.nap}\0".encode()
        return {p for p in process_table.living().values() if _command_line(p.pid) == words}


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _secret_file(home: Path, canary: str) -> Path | None:
    """A file of the user's own in the home, or None where none can be made."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=".chimera-doctor-", dir=home)
    except OSError:
        return None
    with os.fdopen(descriptor, "w") as file:
        file.write(canary)
    return Path(name)


@contextmanager
def _victim(canary: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the same user with a key in its environment."""
    argv = [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(argv, env={"CANARY_API_KEY": canary}, stdin=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


class _Listeners:
    """Sockets outside the sandbox that tell who called."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._local_path = str(folder / "socket")
        self._abstract_name = f"chimera-doctor-{secrets.token_hex(8)}"
        self._open: dict[Guarantee, socket.socket] = {}
        kinds: dict[Guarantee, tuple[int, int, Any]] = {
            "tcp": (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            "udp": (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            "local_sockets": (socket.AF_UNIX, socket.SOCK_STREAM, self._local_path),
            "abstract_sockets": (socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self._abstract_name}"),
        }
        for name, (family, kind, address) in kinds.items():
            with suppress(OSError):
                one = stack.enter_context(socket.socket(family, kind))
                one.bind(address)
                one.settimeout(0)
                if kind == socket.SOCK_STREAM:
                    one.listen()
                self._open[name] = one

    @classmethod
    @contextmanager
    def open(cls, folder: Path) -> Iterator[Self]:
        """Listen until the block ends."""
        with ExitStack() as stack:
            yield cls(folder, stack)

    def targets(self) -> dict[str, Any]:
        """Where to call."""
        ports = {n: one.getsockname()[1] for n, one in self._open.items() if n in {"tcp", "udp"}}
        return {
            "tcp": ports.get("tcp"),
            "udp": ports.get("udp"),
            "local": self._local_path,
            "abstract": self._abstract_name,
        }

    def held(self) -> dict[Guarantee, bool | None]:
        """Whether nobody called; None where not even a call of our own comes through."""
        return {name: self._nobody_called(one) for name, one in self._open.items()}

    @staticmethod
    def _nobody_called(one: socket.socket) -> bool | None:
        if _heard(one):
            return False
        with suppress(OSError), socket.socket(one.family, one.type) as caller:
            caller.connect(one.getsockname())
            caller.send(b"control")
        return True if _heard(one) else None


def _heard(one: socket.socket) -> bool:
    try:
        if one.type == socket.SOCK_DGRAM:
            one.recv(100)
        else:
            one.accept()[0].close()
    except OSError:
        return False
    return True
