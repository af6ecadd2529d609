"""`shell`: runs a command."""

from __future__ import annotations

import re
from typing import Annotated

from chimera.core.ledger import CommandRun
from chimera.errors import ToolError
from chimera.tools.base import Tool, ToolOutput
from chimera.tools.schema import schema_of
from chimera.tools.wording import count_text, folded, one_line, size_text
from chimera.workspace.process import CommandResult, CommandRunner
from chimera.workspace.terminal_text import plain_text

DEFAULT_TIMEOUT_S = 120
MAX_TIMEOUT_S = 3600
_ERROR_CHARACTERS = 160
_COMMAND_CHARACTERS = 80
_TELLING = re.compile(r"error|exception|fail(?:ed|ure)|assert", re.IGNORECASE)


def shell_tool(runner: CommandRunner) -> Tool:
    """The tool over the commands of a run."""

    def shell(
        command: str,
        timeout_s: Annotated[
            float | None, f"Default {DEFAULT_TIMEOUT_S}.", {"minimum": 0.1, "maximum": MAX_TIMEOUT_S}
        ] = None,
    ) -> ToolOutput:
        _check(command)
        limit_s = timeout_s or DEFAULT_TIMEOUT_S
        result = runner.run(command, limit_s)
        return _output(command, result, plain_text(result.output), limit_s)

    return Tool(
        name="shell",
        description=(
            "Run a bash command. Every call starts in the workspace root with a new shell; stdin is empty. Returns exit "
            "code, then stdout and stderr together."
        ),
        parameters=schema_of(shell),
        effect="command",
        run=shell,
    )


def telling_line(output: str) -> str:
    """The line of a failed command's output that says most: the last that speaks of an error, else the last."""
    lines = [line for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.search(line)]
    return one_line((telling or lines or [""])[-1], _ERROR_CHARACTERS)


def _check(command: str) -> None:
    if not command.strip():
        raise ToolError("The command is empty. Give a bash command.")
    if "\0" in command:
        raise ToolError(
            "The command contains a NUL character, which no command line can hold, so nothing was run. Leave it out, or "
            "let the command make it: printf '\\0'."
        )
    try:
        command.encode("utf-8")
    except UnicodeEncodeError as fault:
        raise ToolError(
            f"The command contains half of a surrogate pair ({command[fault.start]!r}), so nothing was run. Send whole "
            "characters."
        ) from fault


def _output(command: str, result: CommandResult, output: str, limit_s: float) -> ToolOutput:
    ended = f"killed after {limit_s:g} s" if result.timed_out else f"exit {result.exit_code}"
    head = ended
    if result.run_ended:
        ended = f"killed after {result.duration_s:.1f} s"
        head = f"{ended}: the time of the run is up; all it started was ended"
    elif result.timed_out:
        head = f"{ended}: all it started was ended; raise timeout_s if it needs longer"
    parts = [head, folded(output.rstrip("\n")) if output.strip() else "(no output)"]
    if result.spool is not None:
        parts.append(f"[output cut: {size_text(result.size)} in all]")
    if result.left_running:
        parts.append("[processes it started are still running in the background; they end with the run]")
    parts += [f"[{note}]" for note in result.notes]
    if "\r\n" in command:
        parts.append("[the command has CRLF line ends; bash takes the CR for a part of the words: send LF]")
    failed = result.exit_code != 0
    error = telling_line(output) or ended if failed else ""
    amount = "no output"
    if result.size:
        lines = "" if result.spool else count_text(len(output.splitlines()), "line") + ", "
        amount = lines + size_text(result.size)
    return ToolOutput(
        text="\n".join(parts),
        digest=f"ran `{one_line(command, _COMMAND_CHARACTERS)}`: {ended}, {amount}",
        ok=not failed,
        exit_code=result.exit_code,
        size=result.size if result.spool else None,
        excerpt=result.spool is not None,
        spool=result.spool,
        facts=(CommandRun(command=command, exit_code=result.exit_code, error=error),),
    )
