"""A run on the screen: its events as lines on standard error, as they happen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chimera.cli import lines
from chimera.cli.cells import escaped, one_line, width
from chimera.cli.changes import STYLES, ChangedLine, changed_lines
from chimera.cli.terminal import Terminal
from chimera.cli.waiting import Waiting
from chimera.record.events import Event

Fields = Mapping[str, Any]
_INDENT = "  "
_OUTPUT_LINES = 8
"""Of a call's output, with `verbose`."""
_COLUMNS_OF_AN_ID = 60
"""Below them a command that names its run would be broken."""
_CHANGED_LINES = 16
"""Of an edit, without `verbose`."""


class Screen:
    """Shows events; call it with each one.

    Args:
        terminal: where to.
        verbose: with the parts of compactions and the end of every output.
        earlier: what showed the run until now; model, window and place are not shown again, and its counts go on.
    """

    def __init__(self, terminal: Terminal, *, verbose: bool = False, earlier: Screen | None = None) -> None:
        self._terminal = terminal
        self._verbose = verbose
        self._introduced = earlier is not None
        self.answer_shown = False
        """The text of the last reply without calls is on the screen."""
        self._model = ""
        self._budget = 1
        self._floor = 0
        self._prompt = 0
        self.compactions: int = earlier.compactions if earlier is not None else 0
        """Of the run so far."""
        self.cost: float | None = earlier.cost if earlier is not None else 0.0
        """In US dollars, of the run so far; None where it is unknown."""
        self._held = ""
        self._streamed = False
        self._asked: dict[str, tuple[str, str]] = {}
        """Name and arguments of calls that have begun, by id."""
        self.waiting = Waiting(terminal)
        """A context for the duration of the run, in which the terminal shows that it goes on."""
        self.verification: Fields | None = None
        """The `tool_finished` event of the last check."""

    def __call__(self, event: Event) -> None:
        """Show one event."""
        show = {
            "run_started": self._run_started,
            "prompt": self._prompt_sent,
            "text": self._text,
            "completion": self._completion,
            "tool_started": self._tool_started,
            "tool_finished": self._tool_finished,
            "message": self._message,
            "compaction": self._compaction,
            "warning": self._warning,
            "progress": self._progress,
        }.get(event.type)
        if show is not None:
            show(event.fields)

    def _run_started(self, fields: Fields) -> None:
        self._budget, self._floor = fields["budget"], fields["floor"]["total"]
        self._model = str(fields["model"])
        if self._introduced:
            return
        self._terminal.line((f"chimera {fields.get('version', '')} · {one_line(fields['model'])}", "bold"))
        self._terminal.block(
            f"window {fields['window']:,} ({fields['window_source']}) · budget {self._budget:,} · "
            f"trigger {fields['trigger']:,} · floor {self._floor:,}",
            indent=_INDENT,
        )
        self._terminal.block(f"mode {fields.get('mode')} · {lines.sandbox_text(fields)}", indent=_INDENT)
        self._terminal.block(
            f"run {fields.get('run_id')} in {one_line(str(fields.get('workspace')))}", indent=_INDENT
        )
        if files := (quoted := fields.get("instructions") or {}).get("files"):
            named = one_line(", ".join(map(str, files)))
            self._terminal.block(
                f"{named}: {quoted.get('tokens', 0):,} tokens quoted in every request, as data",
                indent=_INDENT,
            )

    def _prompt_sent(self, fields: Fields) -> None:
        self._prompt = fields["calibrated"]
        share = round(100 * self._prompt / max(self._budget, 1))
        self.waiting.begin(f"waiting for the model · step {fields['step']} · {share}% of budget")

    def _text(self, fields: Fields) -> None:
        """A piece of a reply. On a pipe the reply comes whole, with its completion."""
        if not self._terminal.live:
            return
        piece = str(fields["text"])
        if not self._streamed:
            piece = piece.lstrip("\n")
        if piece:
            self._terminal.flow(piece)
            self.waiting.heard()
            self._streamed = True

    def _completion(self, fields: Fields) -> None:
        message, usage = fields["message"], fields["usage"]
        content, calls = str(message.get("content") or "").strip("\n"), message.get("tool_calls")
        self.waiting.end()
        self._terminal.end_flow()
        self.answer_shown = self._streamed and not calls
        if content and not self._streamed:
            # The answer itself goes to standard output; a reply that turns out not to be one is shown later.
            self._held = "" if calls else content
            if calls:
                self._reply(content)
        self._streamed = False
        cost = lines.cost_of(usage.get("cost_usd"), self._model)
        self.cost = None if cost is None or self.cost is None else self.cost + cost
        step = lines.Step(
            number=fields["step"],
            prompt=self._prompt,
            budget=self._budget,
            floor=self._floor,
            compactions=self.compactions,
            usage=usage,
            cost_usd=self.cost,
        )
        self._terminal.line((step.line(self._terminal.columns), "cyan"))

    def _reply(self, content: str) -> None:
        self._terminal.block(escaped(content))

    def _tool_started(self, fields: Fields) -> None:
        if self._verbose:
            self._terminal.block(
                one_line(f"{fields['name']} {fields['arguments']}"), indent="  > ", style="dim"
            )
        self._asked[str(fields.get("id"))] = (str(fields["name"]), str(fields["arguments"]))
        self.waiting.begin(one_line(f"{fields['name']} {fields['arguments']}"))

    def _tool_finished(self, fields: Fields) -> None:
        self.waiting.end()
        if fields["name"] == "verify":
            self.verification = fields
        self._terminal.line(*lines.call_line(fields, self._terminal.columns))
        name, arguments = self._asked.pop(str(fields.get("id")), ("", ""))
        if fields["ok"] and self._terminal.live:
            self._changes(changed_lines(name, arguments))
        if self._verbose and isinstance(output := fields.get("output"), str):
            for line in escaped(output).split("\n")[-_OUTPUT_LINES:]:
                self._terminal.line((f"    {line}", "dim"))

    def _changes(self, changes: Sequence[ChangedLine]) -> None:
        """An edit as a diff, as far as it is short."""
        most = len(changes) if self._verbose or len(changes) == _CHANGED_LINES + 1 else _CHANGED_LINES
        for sign, text in changes[:most]:
            line = f"    {sign} {text}".replace("\t", "    ")
            self._terminal.line((line, STYLES[sign]) if sign in STYLES else line)
        if len(changes) > most:
            self._terminal.line((f"    … {len(changes) - most:,} more lines", "dim"))

    def _message(self, fields: Fields) -> None:
        if self._held:
            self._reply(self._held)
            self._held = ""
        if self._introduced and fields.get("source") == "user":
            return
        first = one_line(str(fields["content"]).partition("\n")[0])
        self._terminal.block(f"told the model: {first}", indent=_INDENT, style="yellow")

    def _compaction(self, fields: Fields) -> None:
        self.compactions += bool(fields["changed"])
        show_compaction(self._terminal, fields)
        if self._verbose:
            self._terminal.block(f"after: {lines.parts_text(fields)}", indent=_INDENT, style="dim")

    def _progress(self, fields: Fields) -> None:
        self._terminal.block(escaped(str(fields["text"])), hang=_INDENT, style="dim")

    def _warning(self, fields: Fields) -> None:
        self._terminal.block(f"notice: {escaped(str(fields['text']))}", hang=_INDENT, style="yellow")


def show_compaction(terminal: Terminal, fields: Fields) -> None:
    """A compaction as one visible line, where the terminal is wide enough for it."""
    columns = terminal.columns
    text = lines.compaction_text(fields, None if columns is None else columns - len(_INDENT))
    terminal.block(text, indent="↺ ", hang=_INDENT, style="yellow")


def show_summary(terminal: Terminal, result: Fields, verification: Fields | None = None) -> None:
    """The end of a run that began: why it stopped, what it changed and cost, and what to type next."""
    answered = result.get("stop_reason") == "answered"
    terminal.line("")
    terminal.block(lines.ending_text(result), style="green" if answered else "red")
    for heading, text in lines.summary_rows(result, verification):
        terminal.block(text, indent=f"  {heading:<9}", hang=" " * 11)
    if result.get("run_id"):
        show_next(terminal, result)


def show_next(terminal: Terminal, result: Fields) -> None:
    """Commands as one may copy them: never broken, and explained where there is room."""
    narrow = terminal.columns is not None and terminal.columns < _COLUMNS_OF_AN_ID
    commands = list(lines.next_commands(result, named=not narrow))
    widest = max(width(command) for command, _ in commands)
    for number, (command, effect) in enumerate(commands):
        line = f"  {'next' if number == 0 else '':<9}{command:<{widest}}"
        explained = f"{line}  {effect}"
        room = terminal.columns
        terminal.long_line(explained if room is None or width(explained) <= room else line.rstrip())


def show_fault(terminal: Terminal, message: str) -> None:
    """What went wrong and what to do: prose wrapped, tables as they are."""
    for number, line in enumerate(escaped(message).split("\n")):
        prefix = "error: " if number == 0 else ""
        if line.startswith(" "):
            terminal.long_line(line)
        else:
            terminal.block(prefix + line, hang=_INDENT if number == 0 else "", style="red")
