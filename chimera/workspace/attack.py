"""Runs confined and tries to get out, for `chimera doctor`: `python -I -S -c SOURCE TARGETS`, targets as JSON.

Imports nothing of chimera. What can be seen at a victim is looked at there; what cannot is written into the workspace.
"""

import json
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

_MS_REMOUNT, _MS_BIND = 32, 4096
_AF_VSOCK = 40
_NAMESPACE_OF_USERS = 0x1000_0000
_PATIENCE_S = 1.0


def main(targets: dict[str, Any]) -> None:
    """Try everything, each attempt on its own, and write the report."""
    report: dict[str, Any] = {"token": targets["token"]}
    for attempt in (
        _write,
        _change_modes,
        _take_git,
        _mount,
        _read,
        _call,
        _rare_socket,
        _stay,
        _kill,
        _mount_as_root,
    ):
        with suppress(OSError):
            attempt(targets, report)
    Path("report.json").write_text(json.dumps(report), encoding="utf-8")


def _write(targets: dict[str, Any], report: dict[str, Any]) -> None:
    for name in ("outside", "system", "home"):
        with suppress(OSError):
            Path(targets[name]).write_text("escaped", encoding="utf-8")


def _change_modes(targets: dict[str, Any], report: dict[str, Any]) -> None:
    Path(targets["modes"]).chmod(0o777)


def _take_git(targets: dict[str, Any], report: dict[str, Any]) -> None:
    with suppress(OSError):
        Path(".git").rename("moved")
    hooks = Path(".git", "hooks")
    hooks.mkdir(parents=True, exist_ok=True)
    Path(hooks, "pre-commit").write_text("#!/bin/sh\n", encoding="utf-8")


def _mount(targets: dict[str, Any], report: dict[str, Any]) -> None:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    report["capabilities"] = any(
        int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff")
    )
    _make_writable(targets)


def _mount_as_root(targets: dict[str, Any], report: dict[str, Any]) -> None:
    """As the root of a user namespace of its own. The last attempt: from there, less can be reached."""
    import ctypes

    ctypes.CDLL(None).unshare(_NAMESPACE_OF_USERS)
    _make_writable(targets)


def _make_writable(targets: dict[str, Any]) -> None:
    import ctypes

    ctypes.CDLL(None).mount(None, b"/", None, ctypes.c_ulong(_MS_REMOUNT | _MS_BIND), None)
    Path(targets["remounted"]).write_text("escaped", encoding="utf-8")


def _read(targets: dict[str, Any], report: dict[str, Any]) -> None:
    with suppress(OSError, TypeError):
        report["home"] = Path(targets["secret"]).read_text(encoding="utf-8")
    seen = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            seen.append((entry / "environ").read_bytes())
    report["environments"] = b"\0".join(seen).decode("utf-8", "replace")


def _call(targets: dict[str, Any], report: dict[str, Any]) -> None:
    def stream(family: int, address: Any) -> None:
        with socket.socket(family, socket.SOCK_STREAM) as caller:
            caller.settimeout(_PATIENCE_S)
            caller.connect(address)

    def datagram() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as caller:
            caller.sendto(b"escaped", ("127.0.0.1", targets["udp"]))

    calls: list[Callable[[], None]] = [
        lambda: stream(socket.AF_INET, ("127.0.0.1", targets["tcp"])),
        datagram,
        lambda: stream(socket.AF_UNIX, targets["local"]),
        lambda: stream(socket.AF_UNIX, "\0" + targets["abstract"]),
    ]
    for call in calls:
        with suppress(OSError, TypeError):
            call()


def _rare_socket(targets: dict[str, Any], report: dict[str, Any]) -> None:
    report["vsock"] = False
    socket.socket(_AF_VSOCK, socket.SOCK_STREAM).close()
    report["vsock"] = True


def _stay(targets: dict[str, Any], report: dict[str, Any]) -> None:
    """A process of a session of its own, without parent and environment."""
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        # Closed by the exec below: by then it has left everything behind by which it could be known.
        os.read(reading, 1)
        report["started"] = True
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)
    os.execve("/bin/sleep", ["sleep", targets["nap"]], {})  # noqa: S606


def _kill(targets: dict[str, Any], report: dict[str, Any]) -> None:
    os.kill(targets["victim"], 9)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
