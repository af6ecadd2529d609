"""Keeps every request of a run below the trigger: the floor check, admission, compaction, learning from a refusal."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from chimera.core.admission import admit, cut, cut_message
from chimera.core.compaction import Compaction, Compactor, compact
from chimera.core.context_budget import (
    REFUSED_SHARE,
    SUMMARY_SHARE,
    ContextBudget,
    Part,
    Room,
    check_floor,
    floor_ledger,
)
from chimera.core.history import Turn
from chimera.core.messages import Message, Usage, settled, system, user
from chimera.core.model import Request, Window
from chimera.core.outputs import ToolOutput
from chimera.core.protocol import NATIVE, ToolProtocol
from chimera.core.restoration import EditedFile, Restored
from chimera.core.state import RunState, Stop, StopReason
from chimera.core.summary import MIN_SUMMARY_TOKENS, Summariser
from chimera.core.tokens import FACTOR_RANGE, TokenCounter
from chimera.errors import ContextOverflowError, ToolError
from chimera.record.events import Emit, Event
from chimera.record.run_directory import RunFiles
from chimera.tools.known_files import KnownFiles
from chimera.tools.schema_compact import compact_schema
from chimera.tools.text_file import TextFile
from chimera.workspace.paths import Workspace

# A file above this is restored as one line: reading it at each compaction would cost more than it helps.
_MAX_RESTORED_BYTES = 10 * 1024 * 1024
# Of the room: what the size of a task may be at most to be counted while the model answers. Until then it counts with its
# bytes, which takes as much from the first completion.
_UNCOUNTED_SHARE = 0.05
# The sentences around the output of a failed check.
_FRAME_TOKENS = 80


class Context(Struct, frozen=True, kw_only=True):
    """What the loop asks about the window. Stateless: all that changes is in the `RunState`."""

    counter: TokenCounter
    schemas: tuple[dict[str, Any], ...]
    workspace: Workspace
    known: KnownFiles
    files: RunFiles
    emit: Emit
    summariser: Summariser | None = None
    compactor: Compactor = compact
    meanwhile: Callable[[], None] = lambda: None

    def begin(
        self,
        system_text: str,
        task: str,
        budget: ContextBudget,
        started: float,
        protocol: ToolProtocol = NATIVE,
        *,
        counted: bool = True,
    ) -> RunState:
        """The state of a run before its first step, with the floor measured and checked.

        Without `counted` a small task is not counted where that takes loading the vocabulary: it waits for `settle`.
        """
        message = system(system_text)
        floor = self.counter.floor(message, protocol.schemas(self.schemas))
        bound = self.counter.bound(user(task))
        room = Room.of(budget, floor, bound)
        counted = counted or self.counter.ready or bound > room.share(_UNCOUNTED_SHARE)
        history = self.counter.history(system_text, task, task_tokens=None if counted else bound)
        state = RunState(history=history, floor=floor, budget=budget, started=started, protocol=protocol)
        state.counted = counted
        state.uncompacted_tokens = floor.total + history.task_tokens
        state.stop = self._check_floor(state)
        return state

    def change_protocol(self, state: RunState, protocol: ToolProtocol, system_text: str) -> Stop | None:
        """Go on with another way for calls to travel: another floor, the same turns. The stop if there is no room."""
        message = system(system_text)
        state.protocol = protocol
        state.history = replace(state.history, system=message)
        state.floor = self.counter.floor(message, protocol.schemas(self.schemas))
        state.history_rewrites += 1
        return self._check_floor(state) or self.fit(state)

    def fit(self, state: RunState) -> Stop | None:
        """Compact if the request about to be sent is at or above the trigger. The stop if that cannot help."""
        if self._estimate(state) < self._room(state).trigger:
            return None
        return self._compact(state, state.steps + 1, self._room(state))

    def shorten(self, state: RunState) -> None:
        """Compact because somebody asked for it, as if the trigger were reached now. What cannot shrink stays as it is."""
        if state.stop is None:
            room = self._room(state)
            room = replace(room, trigger=min(room.trigger, self._estimate(state)))
            self._compact(state, state.steps + 1, room)

    def request(self, state: RunState) -> Request:
        """The next request, counted and recorded; one whose task is not counted yet is recorded by `settle`."""
        if state.counted:
            self._record_request(state)
        size = state.budget.calibration.size(self._estimate(state))
        cap = self._room(state).completion_cap(self.counter.text(state.follow_up))
        max_tokens = min(state.budget.window.tokens - size, state.budget.calibration.size(cap))
        request = Request(
            messages=state.history.messages(),
            tools=state.protocol.schemas(self.schemas),
            max_tokens=max(1, max_tokens),
            meanwhile=self.meanwhile,
        )
        return state.protocol.request(request, self.schemas)

    def settle(self, state: RunState) -> None:
        """To be called when a request was answered, before anything else is recorded: count what could wait until then."""
        if state.counted:
            return
        state.counted = True
        tokens = self.counter.message(state.history.opening)
        state.uncompacted_tokens += tokens - state.history.task_tokens
        state.history = replace(state.history, task_tokens=tokens, opening_tokens=tokens)
        self._record_request(state)

    def _record_request(self, state: RunState) -> None:
        estimate = self._estimate(state)
        size = state.budget.calibration.size(estimate)
        state.peak_prompt_tokens = max(state.peak_prompt_tokens, size)
        state.prompt_tokens_sent += size
        parts = {
            "system": state.floor.system,
            "tools": sum(state.floor.tools.values()),
            "task": state.history.task_tokens,
            "context": state.history.opening_tokens - state.history.task_tokens,
            "turns": sum(turn.tokens for turn in state.history.turns),
        }
        self.emit(
            Event("prompt", {"step": state.steps, "estimated": estimate, "calibrated": size, "parts": parts})
        )

    def observe(self, state: RunState, reply: Message, usage: Usage | None) -> Usage:
        """Take a reply's usage into account, or our own estimate of it where the provider reports none."""
        estimate = self._estimate(state)
        size = state.budget.calibration.size
        settled_usage = settled(usage, size(estimate), size(self.counter.message(reply)))
        if not settled_usage.estimated:
            state.budget = state.budget.observe(estimate, settled_usage.input_tokens)
        # Unreported, the prompt may have been as small as the lowest calibration would make it.
        surely = estimate * FACTOR_RANGE[0] if settled_usage.estimated else settled_usage.input_tokens
        state.accepted_tokens = max(state.accepted_tokens, int(surely))
        state.usage += settled_usage
        return settled_usage

    def admit(self, state: RunState, assistant: Message, outputs: Sequence[ToolOutput]) -> None:
        """Add a turn with the results of its calls, cut to what a turn may take."""
        turn, state.newest_outputs = self._turn(state, assistant, outputs)
        self._add(state, turn)

    def answer_back(self, state: RunState, assistant: Message, text: str) -> None:
        """Add a turn in which the loop itself answers a message without calls, and record the answer as added."""
        text = self.add_answer(state, assistant, text)
        self.emit(Event("message", {"role": "user", "source": "loop", "content": text}))

    def cut_to_turn(self, state: RunState, assistant: Message, output: ToolOutput) -> str:
        """The text of an output as far as it fits into a user message that answers `assistant`."""
        size = self.counter.text(output.text)
        cap = self._answer_cap(state, assistant) - _FRAME_TOKENS
        if size <= cap and not output.excerpt:
            return output.text
        where = f"{'in full' if output.whole else 'its beginning'}: {output.kept or self._keep(output)}"
        shown = f"{output.text}\n[{where}]"
        fits = self.counter.text(shown) <= cap
        return shown if fits else cut(output, size, cap, self.counter, where=where)

    def add_answer(self, state: RunState, assistant: Message, text: str) -> str:
        """Add a turn of a message without calls and an answer to it, cut to what a turn may take. Returns the answer.

        A long message is cut, too: nothing came of it, and its whole text is kept.
        """
        assistant = cut_message(assistant, self._room(state).turn_cap // 2, self.counter, self._keep)
        size = self.counter.text(text)
        cap = self._answer_cap(state, assistant)
        if size > cap:
            whole = ToolOutput(text=text, digest="output of the check")
            text = cut(whole, size, cap, self.counter, where=f"in full: {self.files.keep_output(text)}")
        self.add_exchange(state, assistant, text)
        return text

    def _answer_cap(self, state: RunState, assistant: Message) -> int:
        """What an answer to a message may take: at least half a turn, or a long reply would leave nothing to answer it."""
        cap = self._room(state).turn_cap
        return max(cap - self.counter.message(assistant), cap // 2)

    def add_exchange(self, state: RunState, assistant: Message, text: str) -> None:
        """Add a turn of a message without calls and the user message that follows it, whole."""
        state.newest_outputs = ()
        self._add(state, self.counter.turn(assistant, user(text)))

    def learn(self, state: RunState, refusal: ContextOverflowError) -> Stop | None:
        """Believe a refusal: a smaller window, the newest results cut again, and a compaction if it takes one."""
        refused = self._estimate(state)
        size = state.budget.calibration.size(refused)
        limit = refusal.limit or 0
        # A limit below what was accepted before is another number that stands in the message.
        named = state.accepted_tokens < limit < state.budget.window.tokens
        tokens = limit if named else max(1, int(REFUSED_SHARE * size))
        if named:
            state.budget = state.budget.observe(refused, limit) if limit > size else state.budget
        state.budget = state.budget.with_window(Window(tokens=tokens, source="refusal"))
        self.warn(
            state,
            f"The provider refused a request of about {size:,} tokens. Window is now {tokens:,} "
            f"({'as it says' if named else 'a guess: 0.85 of that request'}); --window sets it.",
        )
        self._cut_again(state)
        if stop := self._check_floor(state):
            return stop
        stop = self._compact(state, state.steps, self._room(state))
        if stop is not None and self._estimate(state) >= self._room(state).trigger:
            return stop
        if self._estimate(state) >= refused:
            return Stop(StopReason.CONTEXT_OVERFLOW, message=f"The request cannot be made smaller. {refusal}")
        return None

    def conclude(self, state: RunState) -> None:
        """At the end of a run: say so if the margin made it compact although nothing would have overflowed."""
        peak = state.budget.calibration.size(state.uncompacted_tokens)
        if state.compactions and peak < state.budget.window.tokens:
            self.warn(
                state,
                f"Without compaction this run would have peaked at {peak:,} tokens, within the window of "
                f"{state.budget.window.tokens:,}: --budget-fraction or --trigger set the margin.",
            )

    def warn(self, state: RunState, text: str) -> None:
        """Tell the user, once per text."""
        if text not in state.warnings:
            state.warnings.append(text)
            self.emit(Event("warning", {"text": text}))

    def _estimate(self, state: RunState) -> int:
        return state.floor.total + state.history.tokens

    def _room(self, state: RunState) -> Room:
        return Room.of(state.budget, state.floor, state.history.task_tokens)

    def _check_floor(self, state: RunState) -> Stop | None:
        size = state.budget.calibration.size(state.floor.total + state.history.task_tokens)
        if size < state.budget.trigger:
            return None
        compacted = [compact_schema(schema) for schema in state.protocol.schemas(self.schemas)]
        compact_total = self.counter.floor(state.history.system, compacted).total
        floor = self.counter.by_tool(state.floor, state.protocol.written(self.schemas))
        shortfall = check_floor(state.budget, floor, state.history.task_tokens, compact_total)
        if shortfall is None:
            return None
        return Stop(StopReason.CANNOT_SHRINK, shortfall.part, shortfall.message)

    def _keep(self, output: ToolOutput) -> str:
        spool = output.spool if output.spool and output.spool.exists() else None
        return self.files.keep_output(output.text, spool)

    def _turn(
        self, state: RunState, assistant: Message, outputs: Sequence[ToolOutput]
    ) -> tuple[Turn, tuple[ToolOutput, ...]]:
        """The turn with its results cut, and the outputs with the names under which they are now kept."""
        names: dict[int, str] = {}

        def keep(output: ToolOutput) -> str:
            names[id(output)] = self._keep(output)
            return names[id(output)]

        cap = self._room(state).turn_cap
        turn = self.counter.turn(assistant, *admit(assistant, outputs, cap, self.counter, keep))
        return turn, tuple(replace(output, kept=names.get(id(output), output.kept)) for output in outputs)

    def _add(self, state: RunState, turn: Turn) -> None:
        state.history = state.history.with_turn(turn)
        state.uncompacted_tokens += turn.tokens

    def _cut_again(self, state: RunState) -> None:
        """Admit the newest results once more: they came in under the cap of a larger window."""
        *older, newest = state.history.turns or (None,)
        if newest is None or not state.newest_outputs:
            return
        turn, state.newest_outputs = self._turn(state, newest.assistant, state.newest_outputs)
        # What the user said behind the results, when the run was taken up again, stays there.
        spoken = newest.replies[len(turn.replies) :]
        turn = self.counter.turn(turn.assistant, *turn.replies, *spoken)
        if turn.tokens < newest.tokens:
            state.history = replace(state.history, turns=(*older, turn))
            state.history_rewrites += 1

    def _compact(self, state: RunState, step: int, room: Room) -> Stop | None:
        if room.size <= 0 and (stop := self._check_floor(state)):
            return stop
        restored = Restored(
            plan=state.plan,
            ledger=state.ledger,
            file=self._edited_file(state),
            archive=self.files.next_archive(),
            earlier_archives=self.files.archives,
            follow_up=state.follow_up,
        )
        result = self.compactor(state.history, restored, state.budget, room, self.counter)
        if result.removed_turns and state.budget.mode == "summary":
            summarised = replace(restored, summary=self._summary(state, result, room))
            again = self.compactor(state.history, summarised, state.budget, room, self.counter)
            result = again if again.changed else result
        archive = self.files.keep_archive(result.archive) if result.changed else None
        self._emit_compaction(state, step, result, restored, archive)
        if not result.changed:
            return self._cannot_shrink(state, result.failure or "tail", result)
        if result.file_shown and restored.file is not None and restored.file.content is not None:
            self.known.saw(self.workspace.locate(restored.file.path), restored.file.content)
        state.history = result.history
        state.compactions += 1
        state.history_rewrites += 1
        state.progress.forget(state.ledger.news)
        if state.tight.note(tight=result.tight, step=state.steps, news=state.ledger.news):
            return self._cannot_shrink(state, "tail", result)
        return None

    def _summary(self, state: RunState, result: Compaction, room: Room) -> str:
        """The model's notes on what goes. Asked only once arithmetic has shown that removing it helps."""
        cap = room.share(SUMMARY_SHARE)
        if self.summariser is None or cap < MIN_SUMMARY_TOKENS:
            return ""
        return self.summariser.summarise(state, result.archive, cap=cap, limit=room.trigger)

    def _edited_file(self, state: RunState) -> EditedFile | None:
        edited = state.ledger.edited
        if edited is None:
            return None
        try:
            place = self.workspace.locate(edited.path)
            content = self.workspace.read_bytes(place, max_bytes=_MAX_RESTORED_BYTES)
        except ToolError as fault:
            return EditedFile(path=edited.path, problem=str(fault).splitlines()[0])
        if b"\0" in content:
            return EditedFile(path=edited.path, problem=f"now binary, {len(content):,} bytes")
        try:
            shown = TextFile.parse(content, edited.path).shown
        except ToolError as fault:
            return EditedFile(path=edited.path, problem=str(fault))
        return EditedFile(
            path=edited.path,
            text=self.files.redactor.text(shown),
            content=content,
            line=edited.line,
            sha256=hashlib.sha256(content).hexdigest(),
        )

    def _emit_compaction(
        self, state: RunState, step: int, result: Compaction, restored: Restored, archive: str | None
    ) -> None:
        size = state.budget.calibration.size
        file = restored.file
        fields = {
            "step": step,
            "changed": result.changed,
            "before": size(result.before),
            "after": size(result.after),
            "parts_before": {name: size(tokens) for name, tokens in result.parts_before.items()},
            "parts": {name: size(tokens) for name, tokens in result.parts.items()},
            "removed_turns": result.removed_turns,
            "masked_turns": result.masked_turns,
            "kept_turns": result.kept_turns,
            "mode": state.budget.mode,
            "tight": result.tight,
            "archive": archive,
            "put_back": result.history.context if result.changed else "",
            "restored": [{"path": file.path, "sha256": file.sha256 or None}] if file else [],
            "failure": result.failure,
        }
        self.emit(Event("compaction", fields))

    def _cannot_shrink(self, state: RunState, part: Part, result: Compaction) -> Stop:
        why = {
            "tail": "the newest turn leaves no room for anything else",
            "pinned": "with task, plan and task list nothing is left for one turn",
        }.get(part, part)
        size = state.budget.calibration.size
        sizes = f"{size(result.before):,} tokens, {size(result.after):,} at best"
        lines = [
            f"The history cannot be shrunk below the trigger: {why} ({sizes}).",
            *floor_ledger(state.budget, state.floor, state.history.task_tokens),
            "The work done so far is kept. A larger window (--window) or --budget-fraction would let it go on.",
        ]
        return Stop(StopReason.CANNOT_SHRINK, part, "\n".join(lines))
