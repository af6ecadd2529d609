"""From arguments to an exit code. The one place that catches everything."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from itertools import pairwise

import typer

from chimera import interruption
from chimera.cli.cells import escaped
from chimera.cli.output import Output, with_next_command
from chimera.cli.signals import kill_descendants
from chimera.config import process_environment
from chimera.errors import ChimeraError

_LEAST_COLUMNS, _LEAST_USUAL_COLUMNS = 24, 52


def run_command_line(arguments: Sequence[str], app: typer.Typer | None = None) -> int:
    """Run one command. Every failure is told on standard error and, where the format is JSON, as one object.

    Args:
        arguments: without the name of the program.
        app: the commands; chimera's own by default.
    """
    output = Output.of(arguments)
    try:
        code = _invoke(list(arguments), output, app or _app())
    except typer.Exit as fault:
        code = fault.exit_code
    except typer.TyperException as fault:
        code = _usage_fault(output, fault, arguments)
    except ChimeraError as fault:
        code = _expected_fault(output, fault)
    except KeyboardInterrupt as signal:
        interruption.seen()
        code = _interrupted(output, signal)
    except BrokenPipeError:
        output.silence()
        code = 0
    except Exception as fault:  # noqa: BLE001  (the last line: a bug becomes a message, too)
        code = _internal_fault(output, fault)
    output.close()
    if output.fault is not None:
        output.terminal.line(("error: ", "red"), output.fault)
        return code or 1
    return code


def _app() -> typer.Typer:
    from chimera.cli.app import app

    return app


def _invoke(arguments: list[str], output: Output, app: typer.Typer) -> int:
    command = typer.main.get_command(app)
    if process_environment().get("_CHIMERA_COMPLETE"):
        from typer._completion_classes import completion_init

        completion_init()
        command.main(arguments, prog_name="chimera")
    if {"--verbose", "-v"} & set(arguments):
        from chimera.cli.debug_log import show_log

        show_log(output)
    interruption.hurry_with(kill_descendants)
    with (
        interruption.raising(),
        command.make_context("chimera", arguments, obj=output, terminal_width=_help_width(output)) as context,
    ):
        gc.freeze()
        gc.enable()
        code = command.invoke(context)
    return code if isinstance(code, int) else 0


def _help_width(output: Output) -> int | None:
    """The width of help on a terminal that is narrower than any the parser thinks of; None: it knows by itself."""
    given = output.environment.get("COLUMNS", "")
    try:
        columns = int(given) if given.isdecimal() else os.get_terminal_size(output.stdout.fileno()).columns
    except (OSError, ValueError):
        return None
    return max(columns, _LEAST_COLUMNS) - 1 if 0 < columns < _LEAST_USUAL_COLUMNS else None


def _usage_fault(output: Output, fault: typer.TyperException, arguments: Sequence[str]) -> int:
    from chimera.core.state import StopReason

    context = getattr(fault, "ctx", None)
    path = context.command_path if context is not None else f"chimera {output.command or ''}".strip()
    message = fault.format_message().replace("Value error, ", "")
    if not message or type(fault).__name__ == "NoArgsIsHelpError":
        typer.echo(message, err=True)
        return StopReason.USAGE_ERROR.exit_code
    given = _given(arguments, getattr(getattr(fault, "param", None), "opts", []))
    if given is not None and repr(given) not in message:
        message = f"{message} (given: {given!r})"
    return output.fail(StopReason.USAGE_ERROR, f"{message}\nTry: {path} --help")


def _given(arguments: Sequence[str], names: Sequence[str]) -> str | None:
    """The value that was given to an option, which the parser's own message leaves out."""
    for word, following in pairwise(arguments):
        if word in names and not following.startswith("--"):
            return following
    return None


def _expected_fault(output: Output, fault: ChimeraError) -> int:
    """Before a run begins, and in the commands that only look, every expected fault is one of usage."""
    from chimera.core.state import StopReason

    return output.fail(StopReason.USAGE_ERROR, with_next_command(str(fault), output.command))


def _interrupted(output: Output, signal: KeyboardInterrupt) -> int:
    from chimera.core.state import StopReason

    name = str(signal.args[0]) if signal.args else "SIGINT"
    return output.fail(StopReason.INTERRUPTED, f"Interrupted by {name}.", detail=name)


def _internal_fault(output: Output, fault: Exception) -> int:
    from chimera.core.state import StopReason

    if output.verbose or process_environment().get("CHIMERA_DEBUG"):
        import traceback

        output.terminal.raw(escaped(output.without_secrets("".join(traceback.format_exception(fault)))))
        how = ""
    else:
        how = " CHIMERA_DEBUG=1 shows where."
    record = f" The record: {output.known['run_dir']}" if output.known.get("run_dir") else ""
    return output.fail(
        StopReason.INTERNAL_ERROR, f"A bug in chimera: {type(fault).__name__}: {fault}.{how}{record}"
    )
