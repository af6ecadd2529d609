"""The commands of the command line. The module of a command is imported when the command is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from chimera import __version__
from chimera.cli.options import CommandGroup, GroupedCommand
from chimera.overriding import override

if TYPE_CHECKING:
    from typer._click import Command
    from typer._click.formatting import HelpFormatter

WORK, LOOK, MEASURE, SET_UP = "Work", "Look back", "Measure", "Set up"


class Place(NamedTuple):
    """Where a command is, and what the list of commands says of it."""

    module: str
    attribute: str
    """A function, or the `typer.Typer` of further commands."""
    panel: str
    short_help: str
    grouped: bool = False
    """Its help lists the options under the headings of their groups."""
    settings: Mapping[str, Any] = {}


COMMANDS: Mapping[str, Place] = {
    "run": Place("run", "run", WORK, "Work on a task in this repository.", grouped=True),
    "resume": Place("resume", "resume", WORK, "Go on with a run.", grouped=True),
    "chat": Place("chat", "chat", WORK, "Talk with the agent, in one context.", grouped=True),
    "demo": Place("demo", "demo", WORK, "Watch a complete run, without any key."),
    "runs": Place("runs", "runs", LOOK, "List the recorded runs."),
    "show": Place("show", "show", LOOK, "Show a recorded run, step by step.", grouped=True),
    "diff": Place("diff", "diff", LOOK, "Show what a run changed, as a patch."),
    "undo": Place("undo", "undo", LOOK, "Put back what a run changed."),
    "redo": Place("undo", "redo", LOOK, "Take back the last undo of a run."),
    "floor": Place("floor", "floor", MEASURE, "Show the fixed cost of every step.", grouped=True),
    "replay": Place(
        "replay", "replay", MEASURE, "Play recorded runs in other windows, without a model.", grouped=True
    ),
    "schema-bench": Place(
        "schema_bench", "schema_bench", MEASURE, "Count the tokens of the tool schemas.", grouped=True
    ),
    "doctor": Place("doctor", "doctor", SET_UP, "Find out what works here.", grouped=True),
    "config": Place(
        "settings",
        "config",
        SET_UP,
        "Show every setting and where it comes from.",
        grouped=True,
        settings={"ignore_unknown_options": True, "allow_extra_args": True},
    ),
    "completion": Place("completion", "completion", SET_UP, "Print the completion script of a shell."),
    "bench": Place("bench_group", "bench_app", MEASURE, "Run and grade benchmark tasks."),
    "local": Place("local", "local_app", SET_UP, "Name and fetch local model files."),
}


class _Commands(Mapping[str, "Command"]):
    """The commands by name, each made when it is asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Command] = {}

    @override
    def __getitem__(self, name: str) -> Command:
        if name not in self._made:
            self._made[name] = _command(name, COMMANDS[name])
        return self._made[name]

    @override
    def __contains__(self, name: object) -> bool:
        return name in COMMANDS

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    @override
    def __len__(self) -> int:
        return len(COMMANDS)


def _command(name: str, place: Place) -> Command:
    found = getattr(importlib.import_module(f"chimera.cli.{place.module}"), place.attribute)
    command: Command
    if isinstance(found, typer.Typer):
        command = typer.main.get_group(found)
    else:
        alone = typer.Typer(rich_markup_mode=None, add_completion=False)
        cls = GroupedCommand if place.grouped else None
        alone.command(name, cls=cls, context_settings=dict(place.settings) or None)(found)
        command = typer.main.get_command(alone)
    command.name, command.short_help = name, place.short_help
    return command


class _RootGroup(CommandGroup):
    """All commands. Its help is made from what the list says of them."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands()  # type: ignore[assignment]  # it is only ever read

    @override
    def format_commands(self, ctx: Any, formatter: HelpFormatter) -> None:
        self.write_commands(
            {name: (place.panel, place.short_help) for name, place in COMMANDS.items()}, formatter
        )


app = typer.Typer(
    name="chimera",
    cls=_RootGroup,
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
