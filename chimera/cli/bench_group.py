"""The commands below `chimera bench`, and the one that needs no name: running tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from chimera.cli.bench import bench
from chimera.cli.bench_context import context
from chimera.cli.bench_reports import compare, export, regrade, report
from chimera.cli.bench_tasks import check, list_tasks, new
from chimera.cli.options import GroupedCommand
from chimera.overriding import override

if TYPE_CHECKING:
    from typer._click.formatting import HelpFormatter
    from typer._click.shell_completion import CompletionItem

_RUN = "run"


class _DefaultGroup(TyperGroup):
    """A group whose command `run` is meant where no command is named."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        completing_first_word = ctx.resilient_parsing and not args
        if not completing_first_word and (not args or args[0] not in self.commands):
            args = [_RUN, *args]
        return super().parse_args(ctx, args)

    @override
    def shell_complete(self, ctx: Any, incomplete: str) -> list[CompletionItem]:
        run = self.commands[_RUN]
        return [*super().shell_complete(ctx, incomplete), *run.shell_complete(ctx, incomplete)]


class _RunCommand(GroupedCommand):
    """Running tasks. Its help lists the other commands, since it is the help of all of them."""

    @override
    def format_options(self, ctx: Any, formatter: HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        ctx.parent.command.format_commands(ctx.parent, formatter)


bench_app = typer.Typer(cls=_DefaultGroup, rich_markup_mode=None, add_completion=False)
bench_app.command(_RUN, cls=_RunCommand, short_help="Run and grade tasks; the name may be left out.")(bench)
bench_app.command(cls=GroupedCommand, short_help="Check tasks with solution, nobody and a cheat.")(check)
bench_app.command("list", cls=GroupedCommand, short_help="List tasks.")(list_tasks)
bench_app.command(short_help="Write a new task to begin with.")(new)
bench_app.command(cls=GroupedCommand, short_help="Compare ways to shrink a history, without a model.")(
    context
)
bench_app.command(cls=GroupedCommand, short_help="Report on jobs, with intervals and plots.")(report)
bench_app.command(short_help="Compare arms, trial by trial.")(compare)
bench_app.command(short_help="Grade again, with the tests as they are now.")(regrade)
bench_app.command(short_help="Write a job in the formats of others.")(export)
