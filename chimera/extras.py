"""What to type for a part that is installed only where it is asked for."""

from __future__ import annotations


def install_command(extra: str) -> str:
    """The command that installs an extra into this Python, by the names of its packages.

    Not by ours: the package index has another program of that name, which a pip elsewhere would take for it.
    """
    from importlib.metadata import PackageNotFoundError, requires

    try:
        lines = requires("chimera") or []
    except PackageNotFoundError:
        lines = []
    parts = [line.split(";") for line in lines]
    wanted = [
        part[0].strip() for part in parts if part[1:] and part[1].split("==")[-1].strip(" '\"") == extra
    ]
    return " ".join(["pip install", *(f"'{name}'" for name in wanted or [f".[{extra}]"])])
