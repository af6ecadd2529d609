"""The tools of a run as they are advertised, to be counted and never called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chimera.config import Config, process_environment
from chimera.tools.base import Tool
from chimera.tools.default import default_tools
from chimera.workspace.paths import Workspace
from chimera.workspace.process import CommandRunner
from chimera.workspace.sandbox import Sandbox


@contextmanager
def advertised_tools(config: Config) -> Iterator[tuple[tuple[Tool, ...], tuple[str, ...]]]:
    """The tools that a run with these settings would have, the default ones over no workspace, and what it would say of them.

    Servers that the settings name are started for the block, since only they know their tools.
    """
    from chimera.profile import choose_tools
    from chimera.tools.imported import imported_tools

    nowhere = Path("/nonexistent")
    idle = Sandbox(level="read-only", backend="none", missing=())
    runner = CommandRunner(root=nowhere, sandbox=idle, environment={}, spool_dir=nowhere)
    with imported_tools(config, process_environment()) as imported:
        tools = (*default_tools(Workspace(root=nowhere), runner), *imported.tools)
        yield choose_tools(tools, config), imported.notices
