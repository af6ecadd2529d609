"""The commands of the command line, each registered from its own module."""

from __future__ import annotations

from typing import Annotated

import typer

from chimera import __version__
from chimera.cli.bench_group import bench_app
from chimera.cli.chat import chat
from chimera.cli.completion import completion
from chimera.cli.demo import demo
from chimera.cli.diff import diff
from chimera.cli.doctor import doctor
from chimera.cli.floor import floor
from chimera.cli.local import local_app
from chimera.cli.options import CommandGroup, GroupedCommand
from chimera.cli.replay import replay
from chimera.cli.resume import resume
from chimera.cli.run import run
from chimera.cli.runs import runs
from chimera.cli.schema_bench import schema_bench
from chimera.cli.settings import config
from chimera.cli.show import show
from chimera.cli.undo import redo, undo

WORK, LOOK, MEASURE, SET_UP = "Work", "Look back", "Measure", "Set up"

app = typer.Typer(
    name="chimera",
    cls=CommandGroup,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
)


@app.callback()
def chimera(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """A coding agent that spends the context window as a budget.

    To see it work, without a key or a model: chimera demo
    """
    if version:
        typer.echo(f"chimera {__version__}")
        raise typer.Exit


app.command(cls=GroupedCommand, short_help="Work on a task in this repository.", rich_help_panel=WORK)(run)
app.command(cls=GroupedCommand, short_help="Go on with a run.", rich_help_panel=WORK)(resume)
app.command(cls=GroupedCommand, short_help="Talk with the agent, in one context.", rich_help_panel=WORK)(chat)
app.command(short_help="Watch a complete run, without any key.", rich_help_panel=WORK)(demo)
app.command(short_help="List the recorded runs.", rich_help_panel=LOOK)(runs)
app.command(cls=GroupedCommand, short_help="Show a recorded run, step by step.", rich_help_panel=LOOK)(show)
app.command(short_help="Show what a run changed, as a patch.", rich_help_panel=LOOK)(diff)
app.command(short_help="Put back what a run changed.", rich_help_panel=LOOK)(undo)
app.command(short_help="Take back the last undo of a run.", rich_help_panel=LOOK)(redo)
app.command(cls=GroupedCommand, short_help="Show the fixed cost of every step.", rich_help_panel=MEASURE)(
    floor
)
app.command(
    cls=GroupedCommand,
    short_help="Play recorded runs in other windows, without a model.",
    rich_help_panel=MEASURE,
)(replay)
app.command(cls=GroupedCommand, short_help="Count the tokens of the tool schemas.", rich_help_panel=MEASURE)(
    schema_bench
)
app.add_typer(bench_app, name="bench", short_help="Run and grade benchmark tasks.", rich_help_panel=MEASURE)
app.command(cls=GroupedCommand, short_help="Find out what works here.", rich_help_panel=SET_UP)(doctor)
app.command(
    cls=GroupedCommand,
    short_help="Show every setting and where it comes from.",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    rich_help_panel=SET_UP,
)(config)
app.add_typer(local_app, name="local", short_help="Name and fetch local model files.", rich_help_panel=SET_UP)
app.command(short_help="Print the completion script of a shell.", rich_help_panel=SET_UP)(completion)
