"""A conversation: one run that is taken up again with each message, and the commands between them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chimera import interruption
from chimera.cli import lines
from chimera.cli.cells import escaped, one_line
from chimera.cli.input_line import ReadLine
from chimera.cli.output import Output
from chimera.cli.render import Screen, show_fault, show_next
from chimera.cli.terminal import Terminal
from chimera.core.messages import Usage
from chimera.errors import ChimeraError

if TYPE_CHECKING:
    from chimera.core.state import RunResult
    from chimera.record.events import Event
    from chimera.tools.approval import Ask

COMMANDS: Mapping[str, str] = {
    "/help": "list these commands",
    "/plan": "show plan and task list",
    "/diff": "show what was changed so far",
    "/undo": "put back what the last message changed",
    "/compact": "shorten the history before each message from here on",
    "/cost": "show tokens and cost so far",
    "/exit": "leave (or Ctrl-D, or Ctrl-C twice)",
}
# A path at the beginning of a message is none.
_COMMAND = re.compile(r"/\w*(?:\s|$)")
_UNDONE = "[I have put back what you changed after my last message.]\n\n"


class Conversation:
    """What was said so far, and what may be said next.

    Args:
        output: where everything goes.
        settings: of the run, as `chimera.run` takes them.
        ask: decides on a call in the modes that ask.
        invoke: runs another command of the command line.
    """

    def __init__(
        self,
        output: Output,
        settings: Mapping[str, Any],
        ask: Ask | None,
        invoke: Callable[[Sequence[str]], object],
    ) -> None:
        self._output = output
        self._settings = settings
        self._ask = ask
        self._invoke = invoke
        self._run_id: str | None = None
        self._result: RunResult | None = None
        self._usage = Usage()
        self._compact = False
        self._remark = ""
        self._plan_text = ""
        self._notices: set[str] = set()
        """What earlier messages began with."""
        self._screen: Screen | None = None
        """What showed the last message that the run took."""

    @property
    def exit_code(self) -> int:
        """Of the last message; 0 before there was one."""
        return self._result.exit_code if self._result is not None else 0

    def hear(self, line: str) -> bool:
        """Take one line of the user; False if they want to leave.

        Raises:
            KeyboardInterrupt: the work on a message was stopped; what there is of it is recorded.
        """
        text = line.strip()
        if not text:
            return True
        if not _COMMAND.match(text):
            self.say(text)
            return True
        if text in {"/exit", "/quit"}:
            return False
        try:
            self._carry_out(text)
        except ChimeraError as fault:
            show_fault(self._output.terminal, self._output.without_secrets(str(fault)))
        return True

    def say(self, message: str) -> None:
        """One message to the model, and its work until it answers or stops."""
        from chimera import api

        screen = Screen(self._output.terminal, verbose=self._output.verbose, earlier=self._screen)
        opening: set[str] | None = set()

        def emit(event: Event) -> None:
            nonlocal opening
            self._output.observe(event)
            if event.type == "prompt" and opening is not None:
                self._notices |= opening
                opening = None
            elif event.type == "plan":
                self._plan_text = str(event.fields.get("text") or "")
            elif event.type == "warning" and (opening is not None or event.fields.get("notice")):
                text = str(event.fields["text"])
                if text in self._notices:
                    return
                (self._notices if opening is None else opening).add(text)
            screen(event)

        with screen.waiting:
            if self._run_id is None:
                result = api.run(message, emit=emit, ask=self._ask, **self._settings)
            else:
                message, self._remark = self._remark + message, ""
                result = api.resume(
                    self._run_id, message, emit=emit, ask=self._ask, compact=self._compact, **self._limits
                )
        self._take_in(result, screen)

    @property
    def _limits(self) -> dict[str, Any]:
        """Settings that hold for each message anew, or that the record may not hold."""
        names = ("max_steps", "max_cost", "max_seconds", "api_base", "model_options")
        return {name: self._settings.get(name) for name in names}

    def _take_in(self, result: RunResult, screen: Screen) -> None:
        page = self._output.terminal
        fields, before = result.fields(), self._result.fields() if self._result is not None else {}
        self._run_id = self._run_id or result.run_id
        self._screen = screen if self._run_id is not None else None
        self._result = result
        # What cannot be made smaller now will not be asked for again.
        self._compact = self._compact and bool(fields["context"] and fields["context"]["compactions"])
        self._usage += result.usage or Usage()
        if result.answer is not None and not (screen.answer_shown and self._output.on_terminal):
            self._output.text(escaped(result.answer))
        if str(result.stop_reason) != "answered":
            page.block(lines.ending_text(fields), style="red")
        if result.message and str(result.stop_reason) != "interrupted":
            show_fault(page, result.message)
        changed = fields["files_changed"] or []
        for file in changed if changed != before.get("files_changed") else []:
            page.block(lines.change_text(file), indent="  changed so far: ", style="dim")
        if str(result.stop_reason) == "interrupted":
            raise KeyboardInterrupt

    def _carry_out(self, command: str) -> None:
        page = self._output.terminal
        known = {
            "/help": self._help,
            "/cost": self._cost,
            "/plan": self._plan,
            "/compact": self._shorten,
            "/diff": self._diff,
            "/undo": self._undo,
        }.get(command)
        if known is None:
            page.block(f"There is no command {one_line(command)}; the commands are: {', '.join(COMMANDS)}")
        elif self._run_id is None and command != "/help":
            page.line("Nothing has been said yet.")
        else:
            known()

    def _help(self) -> None:
        for name, effect in COMMANDS.items():
            self._output.terminal.block(effect, indent=f"  {name:<10}", hang=" " * 12)
        self._output.terminal.block("Anything else goes to the model. Ctrl-C stops it.", indent="  ")

    def _cost(self) -> None:
        result = {
            "usage": self._usage_fields(),
            "model": self._result.fields()["model"] if self._result is not None else None,
        }
        for heading, text in lines.summary_rows(result):
            self._output.terminal.block(text, indent=f"  {heading:<9}", hang=" " * 11)

    def _usage_fields(self) -> dict[str, Any]:
        from msgspec.structs import asdict

        return asdict(self._usage)

    def _plan(self) -> None:
        plan = self._result.fields()["plan"] if self._result is not None else None
        if not (plan or self._plan_text):
            self._output.terminal.line("There is no plan.")
        if self._plan_text:
            self._output.terminal.block(self._plan_text, indent="  ")
        for task in plan or []:
            self._output.terminal.block(
                one_line(str(task["title"])), indent=f"  {task['status']:<8}", hang=" " * 10
            )

    def leave(self) -> None:
        """Say how to come back, where somebody sees it."""
        page = self._output.terminal
        if page.live and self._run_id is not None and self._result is not None:
            show_next(page, {**self._result.fields(), "run_id": self._run_id})

    def _shorten(self) -> None:
        self._compact = True
        self._output.terminal.block("The history is shortened before each message from here on.")

    def _diff(self) -> None:
        self._invoke(["diff", str(self._run_id)])

    def _undo(self) -> None:
        from chimera import undo as undoing
        from chimera.cli.undo import show_outcome
        from chimera.config import state_dir
        from chimera.record.run_directory import find_run

        home = state_dir()
        outcome = undoing.undo(home, find_run(home, self._run_id), step=1)
        show_outcome(Terminal(self._output.stdout, self._output.environment), "undo", outcome)
        self._remark = _UNDONE if outcome.put_back else self._remark


def converse(conversation: Conversation, read: ReadLine, terminal: Terminal, message: str | None) -> int:
    """Take lines until the user leaves; the exit code.

    Args:
        conversation: takes them.
        read: brings them.
        terminal: to say how to leave.
        message: taken before the first of them.
    """
    stopped = False
    while True:
        try:
            line, message = (read() if message is None else message), None
            stopped = False
            if line is None or not conversation.hear(line):
                conversation.leave()
                return conversation.exit_code
        except KeyboardInterrupt:
            if not interruption.go_on() or stopped:
                conversation.leave()
                return 130
            terminal.block("Ctrl-C again, Ctrl-D or /exit leaves.", style="dim")
            stopped = True
