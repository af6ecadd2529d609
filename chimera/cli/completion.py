"""`chimera completion`: the completion script of a shell, printed and never installed."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from chimera.cli.output import Output


def completion(
    ctx: typer.Context,
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="Your shell.")],
) -> int:
    """Print the completion script of a shell: source it from the shell's start-up file."""
    from typer._completion_shared import get_completion_script

    output: Output = ctx.obj
    output.text(get_completion_script(prog_name="chimera", complete_var="_CHIMERA_COMPLETE", shell=shell))
    return 0
