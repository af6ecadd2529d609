"""How a user gets a sandbox where none works."""

from __future__ import annotations

import sys
from pathlib import Path

_APPARMOR_SWITCH = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")


def how_to_get_one(reason: str) -> str:
    """What to tell a user whose run needs a sandbox that there is not, for the `reason` given."""
    if sys.platform == "darwin":
        way = "chimera doctor shows what works here"
    elif not sys.platform.startswith("linux"):
        way = "commands can be confined on Linux and macOS only"
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
