"""`chimera local`: model files on this machine, by a short name."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from chimera.cli.options import CommandGroup
from chimera.cli.output import Output
from chimera.config import state_dir

local_app = typer.Typer(cls=CommandGroup, no_args_is_help=True, rich_markup_mode=None)


@local_app.callback()
def local() -> None:
    """Model files on this machine, served by llama.cpp.

    chimera run --model local:NAME (or local:PATH.gguf) starts a llama-server for the time of the run.
    """


@local_app.command("list", short_help="Show what there is and what can be fetched.")
def list_models(
    ctx: typer.Context,
    output_format: Annotated[Literal["text", "json"], typer.Option(help="Of the list.")] = "text",
) -> int:
    """Show the models that were added, and those that can be fetched."""
    from chimera.models.local_models import KNOWN_MODELS, LocalModels
    from chimera.workspace.terminal_text import visible

    output: Output = ctx.obj
    models = LocalModels(state_dir()).listed()
    missing = {name: known for name, known in KNOWN_MODELS.items() if name not in models}
    if output_format == "json":
        output.json(
            {
                "models": [
                    {"name": name, "path": str(path), "exists": path.is_file()}
                    for name, path in models.items()
                ],
                "known": [
                    {"name": name, "bytes": known.size, "licence": known.licence, "sha256": known.sha256}
                    for name, known in KNOWN_MODELS.items()
                ],
            }
        )
        return 0
    for name, path in models.items():
        gone = "" if path.is_file() else "  (the file is gone)"
        output.text(f"{visible(name)}  {visible(str(path))}{gone}")
    if not models:
        output.text("No model was added yet: chimera local add PATH.gguf")
    for name, known in missing.items():
        output.text(f"chimera local pull {name}  {known.size / 1e9:.2f} GB, {known.licence}: {known.about}")
    return 0


@local_app.command(short_help="Give a model file a name.")
def add(
    ctx: typer.Context,
    path: Annotated[Path, typer.Argument(help="A GGUF file; it stays where it is.")],
    name: Annotated[str | None, typer.Option(help="Its name [that of the file].")] = None,
) -> int:
    """Give a model file a name, so that --model local:NAME means it."""
    from chimera.models.local_models import LocalModels

    output: Output = ctx.obj
    output.text(_now(LocalModels(state_dir()).add(path, name)))
    return 0


@local_app.command(short_help="Forget a name; the file stays.")
def rm(
    ctx: typer.Context, name: Annotated[str, typer.Argument(help="As chimera local list shows it.")]
) -> int:
    """Forget the name of a model. The file stays where it is."""
    from chimera.models.local_models import LocalModels
    from chimera.workspace.terminal_text import visible

    output: Output = ctx.obj
    output.text(f"Forgotten. The file stays: {visible(str(LocalModels(state_dir()).remove(name)))}")
    return 0


@local_app.command(short_help="Fetch a model of the list.")
def pull(
    ctx: typer.Context, name: Annotated[str, typer.Argument(help="As chimera local list shows it.")]
) -> int:
    """Fetch a model by huggingface_hub into the user's cache, check its hash, and give it its name.

    A download that was cut is taken up where it ended. HF_HOME says where the cache is.
    """
    from chimera.models.local_models import LocalModels

    output: Output = ctx.obj
    LocalModels(state_dir()).pull(name, say=lambda text: typer.echo(text, err=True))
    output.text(_now(name))
    return 0


def _now(name: str) -> str:
    return f"Now: chimera run --model {shlex.quote(f'local:{name}')} TASK"
