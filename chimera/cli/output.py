"""What a command hands over on standard output, and how a failure is told: exactly one result, whatever happens."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TextIO

from chimera.cli.cells import escaped
from chimera.cli.terminal import Terminal
from chimera.config import process_environment
from chimera.record.events import NOT_RECORDED, Event

if TYPE_CHECKING:
    from chimera.core.state import StopReason

OutputFormat = Literal["text", "json", "stream-json"]


def with_next_command(message: str, command: str | None) -> str:
    """A message about wrong usage that ends with what to type, if it does not say so itself.

    Args:
        message: what is wrong.
        command: the subcommand.
    """
    if "chimera " in message:
        return message
    return f"{message}\nTry: chimera {f'{command} ' if command else ''}--help"


class Output:
    """The streams of one invocation of the command line.

    Args:
        command: the subcommand, as far as it can be told from the arguments.
        output_format: of the result.
        stdout: for results.
        stderr: for everything else.
    """

    def __init__(
        self, command: str | None, output_format: OutputFormat, stdout: TextIO, stderr: TextIO
    ) -> None:
        self.command = command
        self.format = output_format
        self.environment = process_environment()
        self.stdout = stdout
        self.terminal = Terminal(stderr, self.environment)
        self.verbose = False
        self.known: Mapping[str, Any] = {}
        """What the events of a run have said about it so far: run id, directory, at the end its result."""
        self.fault: str | None = None
        """Why standard output could not be written, unless its reader just went away."""
        self._arguments: Sequence[str] = ()
        self._delivered = False
        self._gone = False
        self._seq = 0

    @classmethod
    def of(cls, arguments: Sequence[str]) -> Output:
        """The output that the arguments ask for, read without the parser: its complaints need one already."""
        command = next((word for word in arguments if not word.startswith("-")), None)
        found: OutputFormat = "text"
        words = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
        for word, following in zip(words, [*words, ""][1:], strict=True):
            value = following if word == "--output-format" else word.removeprefix("--output-format=")
            if word.startswith("--output-format"):
                found = "json" if value == "json" else "stream-json" if value == "stream-json" else "text"
        output = cls(command, found, sys.stdout, sys.stderr)
        output._arguments = words
        output.verbose = bool({"--verbose", "-v"} & set(words))
        return output

    @property
    def on_terminal(self) -> bool:
        return self.stdout.isatty()

    def observe(self, event: Event) -> None:
        """Remember what a failure must be able to say; with `stream-json`, print the event as it is recorded."""
        if event.type in {"run_started", "run_finished"}:
            self.known = {**self.known, **event.fields}
        if self.format != "stream-json" or event.type in NOT_RECORDED:
            return
        self._print_json(event.record(self._seq))
        self._seq += 1

    def deliver(self, fields: Mapping[str, Any], *, answer_shown: bool = False) -> None:
        """Print the result of a run. The first one counts."""
        if self._delivered:
            return
        self._delivered = True
        match self.format:
            case "json":
                self._print_json(fields)
            case "stream-json":
                self._print_json({"type": "result", **fields})
            case "text":
                if fields.get("answer") is not None and not answer_shown:
                    self.text(escaped(str(fields["answer"])))

    def fail(self, reason: StopReason, message: str, *, detail: str | None = None) -> int:
        """Tell a failure on both streams and return its exit code."""
        from chimera.core.state import RunResult, Stop

        message = self.without_secrets(message)
        stop = Stop(reason, detail, message)
        from chimera.cli.render import show_fault

        show_fault(self.terminal, message)
        fields = RunResult.of_stop(stop).fields()
        known = {name: self.known[name] for name in fields if name in self.known}
        ending = {
            name: fields[name] for name in ("stop_reason", "stop_detail", "exit_code", "answer", "error")
        }
        if self.command == "run":
            self.deliver({**fields, **known, **ending})
        elif self.format != "text" and not self._delivered:
            self._print_json({"exit_code": stop.exit_code, "error": fields["error"]})
        return stop.exit_code

    def without_secrets(self, text: str) -> str:
        """What an exception or an argument said, fit to be shown."""
        from chimera.record.known_secrets import make_redactor

        pairs = (given.partition("=") for given in self._given("--model-option"))
        redactor = make_redactor(
            self.environment,
            options={name.strip(): value for name, _, value in pairs},
            api_base=next(reversed(self._given("--api-base")), None),
        )
        return redactor.text(text)

    def _given(self, option: str) -> list[str]:
        """The values of an option among the arguments."""
        pairs = pairwise((*self._arguments, ""))
        return [
            following if word == option else word.removeprefix(f"{option}=")
            for word, following in pairs
            if word == option or word.startswith(f"{option}=")
        ]

    def json(self, value: Mapping[str, Any]) -> None:
        """Print one JSON object."""
        self._delivered = True
        self._print_json(value)

    def text(self, text: str) -> None:
        """Print text that is safe to show, with a line end."""
        self._write(text if text.endswith("\n") else text + "\n")

    def close(self) -> None:
        """Write what is still buffered."""
        self._write("")

    def silence(self) -> None:
        """The reader of standard output went away: nothing more is written, and nothing complains at exit."""
        self._gone = True
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123  (a descriptor is wanted)
            os.dup2(nowhere.fileno(), self.stdout.fileno())

    def _print_json(self, value: Mapping[str, Any]) -> None:
        # ASCII, so that no encoding of the terminal and no lone surrogate can break it.
        self._write(json.dumps(value) + "\n")

    def _write(self, text: str) -> None:
        if self._gone:
            return
        try:
            self.stdout.write(text)
            self.stdout.flush()
        except BrokenPipeError:
            self.silence()
        except OSError as fault:
            self.silence()
            self.fault = f"standard output cannot be written: {fault.strerror}"
