"""`chimera diff`: what a run changed, as a patch."""

from __future__ import annotations

from typing import Annotated

import typer

from chimera.cli import lines
from chimera.cli.cells import escaped, one_line
from chimera.cli.output import Output
from chimera.cli.recorded import RecordedRun, run_here, show_damage
from chimera.cli.terminal import Terminal
from chimera.config import state_dir


def diff(
    ctx: typer.Context,
    run: Annotated[
        str | None, typer.Argument(help="Its id or how it begins [the last one of this workspace].")
    ] = None,
    stat: Annotated[bool, typer.Option("--stat", help="Only the files and their changed lines.")] = False,
) -> int:
    """Show what a run changed as a unified patch. On a pipe the patch is as git writes it, fit for git apply.

    What you changed while the run was under way is not part of it.
    """
    from msgspec.structs import asdict

    from chimera.cli.changes import STYLES, patch_lines
    from chimera.cli.recorded_work import RecordedWork

    output: Output = ctx.obj
    home = state_dir()
    found = RecordedRun.read(home, run_here(home, run))
    recorded = RecordedWork.of(home, found)
    show_damage(output.terminal, found)
    for notice in recorded.notices:
        output.terminal.block(f"notice: {one_line(notice)}", hang="  ")
    if stat:
        for file in recorded.work.files(recorded.shadow):
            output.text(lines.change_text(asdict(file)))
        return 0
    patch = recorded.shadow.diff(recorded.work.before, recorded.work.after)
    if output.on_terminal:
        page = Terminal(output.stdout, output.environment)
        for line in patch_lines(patch):
            page.long_line(escaped(line), STYLES.get(line[:1]))
    elif patch:
        output.text(patch)
    return 0
