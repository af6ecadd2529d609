"""`chimera diff`: what a run changed, as a patch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chimera.cli import lines
from chimera.cli.cells import escaped
from chimera.cli.output import Output
from chimera.cli.recorded import RecordedRun
from chimera.cli.terminal import Style, Terminal
from chimera.config import state_dir
from chimera.errors import RecordError

if TYPE_CHECKING:
    from chimera.workspace.checkpoint import ShadowRepository

_STYLES: dict[str, Style] = {"+": "green", "-": "red", "@": "cyan"}


def diff(
    ctx: typer.Context,
    run: Annotated[str | None, typer.Argument(help="Its id or how it begins [the last one].")] = None,
    stat: Annotated[bool, typer.Option("--stat", help="Only the files and their changed lines.")] = False,
) -> int:
    """Show what a run changed as a unified patch. On a pipe the patch is as git writes it, fit for git apply."""
    from chimera.record.run_directory import find_run
    from chimera.workspace.checkpoint import ShadowRepository

    output: Output = ctx.obj
    home = state_dir()
    found = RecordedRun.read(home, find_run(home, run))
    started = found.started
    before = started.get("start_tree")
    if not before:
        raise RecordError(f"run {found.path.name} has no snapshot from its start, so nothing to compare with")
    shadow = ShadowRepository(home, Path(str(started.get("workspace"))))
    after = found.last_tree or _now(output, found, shadow)
    if stat:
        for change in shadow.changes(before, after):
            output.text(
                lines.change_text({"path": change.path, "added": change.added, "removed": change.removed})
            )
        return 0
    patch = shadow.diff(before, after)
    if output.on_terminal:
        page = Terminal(output.stdout, output.environment)
        for line in patch.splitlines():
            page.long_line(escaped(line), _STYLES.get(line[:1]))
    elif patch:
        output.text(patch)
    return 0


def _now(output: Output, run: RecordedRun, shadow: ShadowRepository) -> str:
    """The workspace as it is, for a run that left no last snapshot."""
    how = "goes on" if run.running else "died"
    output.terminal.block(
        f"notice: run {run.path.name} {how}; compared with the workspace as it is now", hang="  "
    )
    return shadow.snapshot().tree
