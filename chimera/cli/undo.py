"""`chimera undo` and `chimera redo`: what a run changed is put back, and taken back again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from chimera.cli import lines
from chimera.cli.cells import escaped
from chimera.cli.output import Output
from chimera.cli.recorded import run_here
from chimera.cli.terminal import Terminal
from chimera.config import state_dir
from chimera.errors import WorkspaceLockedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from chimera.undo import Outcome

Run = Annotated[str | None, typer.Argument(help="Its id or how it begins [the last one of this workspace].")]
Force = Annotated[
    bool,
    typer.Option(
        "--force", help="Also where you changed something since. Your version is copied away first."
    ),
]
Format = Annotated[Literal["text", "json"], typer.Option(help="Of the report.")]
_MOST = 20


def undo(
    ctx: typer.Context,
    run: Run = None,
    step: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only what it changed in step N and later.")
    ] = None,
    force: Force = False,
    output_format: Format = "text",
) -> int:
    """Put back what a run changed. What you changed since stays as it is; your index, branches and stash always do.

    Exit code: 0 if everything was put back, 1 if something was left alone, 2 if there is nothing to go back to, 14 if a
    run is at work in the workspace.
    """
    from chimera import undo as undoing

    return _carry_out(
        ctx.obj,
        "undo",
        run,
        output_format,
        lambda home, path: undoing.undo(home, path, step=step, force=force),
    )


def redo(ctx: typer.Context, run: Run = None, force: Force = False, output_format: Format = "text") -> int:
    """Take back the last undo of a run. What you changed since stays as it is.

    Exit code: as for undo.
    """
    from chimera import undo as undoing

    return _carry_out(
        ctx.obj, "redo", run, output_format, lambda home, path: undoing.redo(home, path, force=force)
    )


def _carry_out(
    output: Output,
    command: Literal["undo", "redo"],
    run: str | None,
    output_format: str,
    carry_out: Callable[[Path, Path], Outcome],
) -> int:
    from chimera.core.state import StopReason

    home = state_dir()
    try:
        outcome = carry_out(home, run_here(home, run))
    except WorkspaceLockedError as fault:
        return output.fail(StopReason.WORKSPACE_LOCKED, str(fault))
    code = 1 if outcome.left else 0
    if output_format == "json":
        output.json(_fields(outcome, code))
    else:
        show_outcome(Terminal(output.stdout, output.environment), command, outcome)
    return code


def _fields(outcome: Outcome, code: int) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "run_id": outcome.run_id,
        "exit_code": code,
        "put_back": [{"path": path, "done": done} for path, done in outcome.put_back.items()],
        "left": [
            {
                "path": left.path,
                "reason": left.reason,
                "old_version": str(left.old_version) if left.old_version else None,
            }
            for left in outcome.left
        ],
        "replaced": [{"path": path, "copy": str(copy)} for path, copy in outcome.replaced.items()],
        "not_covered": [{"path": item.path, "reason": item.reason} for item in outcome.not_covered],
    }


def show_outcome(page: Terminal, command: Literal["undo", "redo"], outcome: Outcome) -> None:
    """What was put back, what was left alone and why, and what undo does not cover."""
    what = "Undid" if command == "undo" else "Redid"
    if outcome.put_back:
        page.line((f"{what} run {outcome.run_id}: {lines.count(len(outcome.put_back), 'path')}", "bold"))
    else:
        page.block(f"Nothing of run {outcome.run_id} was left to {command}.")
    for path, done in list(outcome.put_back.items())[:_MOST]:
        page.line((f"  {done:<10}", "green"), _path(path))
        if path in outcome.replaced:
            page.block(f"your version is now {_path(str(outcome.replaced[path]))}", indent=" " * 12)
    _show_more(page, len(outcome.put_back))
    for left in outcome.left:
        page.block(f"{_path(left.path)}: {left.reason}", indent="  left alone ", hang=" " * 4, style="yellow")
        if left.old_version is not None:
            page.block(f"the recorded version: {_path(str(left.old_version))}", indent=" " * 12)
    for item in outcome.not_covered[:_MOST]:
        page.block(f"{_path(item.path)}: {item.reason}", indent="  not covered ", hang=" " * 4, style="dim")
    _show_more(page, len(outcome.not_covered))


def _show_more(page: Terminal, count: int) -> None:
    if count > _MOST:
        page.line(f"  and {count - _MOST:,} more (--output-format json lists all)")


def _path(path: str) -> str:
    return escaped(path).replace("\n", "\\n").replace("\t", "\\t")
