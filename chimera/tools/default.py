"""The tools every run has."""

from __future__ import annotations

from chimera.core.plan import Plan
from chimera.tools.base import Tool
from chimera.tools.edit import edit_file_tool
from chimera.tools.files import read_file_tool, write_file_tool
from chimera.tools.known_files import KnownFiles
from chimera.tools.planning import update_plan_tool
from chimera.tools.search import search_tool
from chimera.tools.shell import shell_tool
from chimera.workspace.paths import Workspace
from chimera.workspace.process import CommandRunner


def default_tools(
    workspace: Workspace, runner: CommandRunner, *, known: KnownFiles | None = None, plan: Plan | None = None
) -> tuple[Tool, ...]:
    """The default tools in the fixed order in which they are advertised.

    Args:
        workspace: what the file tools see.
        runner: runs the commands.
        known: the files the run has seen; give one to tell the tools of text that was shown by other means.
        plan: the plan the run begins with, for a resumed run.
    """
    known = known or KnownFiles()
    return (
        read_file_tool(workspace, known),
        search_tool(workspace),
        edit_file_tool(workspace, known),
        write_file_tool(workspace, known),
        shell_tool(runner),
        update_plan_tool(plan or Plan()),
    )
