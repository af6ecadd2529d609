"""The tools of a run as they are advertised, to be counted and never called."""

from __future__ import annotations

from pathlib import Path

from chimera.tools.base import Tool
from chimera.tools.default import default_tools
from chimera.workspace.paths import Workspace
from chimera.workspace.process import CommandRunner
from chimera.workspace.sandbox import Sandbox


def advertised_tools() -> tuple[Tool, ...]:
    """The default tools over no workspace."""
    nowhere = Path("/nonexistent")
    idle = Sandbox(level="read-only", backend="none", missing=())
    runner = CommandRunner(root=nowhere, sandbox=idle, environment={}, spool_dir=nowhere)
    return default_tools(Workspace(root=nowhere), runner)
