"""`--compaction summary`: the model writes a few lines about the turns that go. The factual note stays beside them.

Whatever goes wrong with it, the note alone does: an empty, failed or overlong summary is thrown away, with a warning.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import asdict

from chimera import prompts
from chimera.core.admission import cut
from chimera.core.messages import settled, system, user
from chimera.core.model import Completion, Model, Request
from chimera.core.outputs import ToolOutput
from chimera.core.restoration import render_summary
from chimera.core.state import RunState
from chimera.core.tokens import REQUEST_OVERHEAD, TokenCounter
from chimera.errors import ModelError
from chimera.record.events import Emit, Event

MIN_SUMMARY_TOKENS = 160
"""With less room than this, about 80 words, hardly a model keeps within it: nothing is asked and nothing paid."""


class Summariser(Struct, frozen=True, kw_only=True):
    """Asks the run's own model for a summary; the request offers no tools and its cost counts."""

    model: Model
    counter: TokenCounter
    emit: Emit

    def summarise(self, state: RunState, removed: str, *, cap: int, limit: int) -> str:
        """A summary of what is about to be removed, or an empty text where there is none that can be used.

        Args:
            state: of the run; its usage grows.
            removed: the text that goes, cut to fit the request.
            cap: most tokens of the summary.
            limit: most tokens of the request.
        """
        request, estimate = self._request(state, removed, cap, limit)
        state.prompt_tokens_sent += state.budget.calibration.size(estimate)
        try:
            completion = self.model.complete(request, lambda text: None)
        except ModelError as fault:
            return self._unusable(f"the request for it failed: {fault}")
        self._account(state, completion, estimate)
        text = completion.message.content.strip()
        if completion.finish_reason == "length" or self.counter.text(render_summary(text)) > cap:
            return self._unusable("it was longer than its room")
        return text or self._unusable("it was empty")

    def _request(self, state: RunState, removed: str, cap: int, limit: int) -> tuple[Request, int]:
        instruction = system(prompts.SUMMARY_SYSTEM)
        frame = prompts.summary_request(state.history.task, "", words=cap // 2)
        overhead = REQUEST_OVERHEAD + self.counter.message(instruction) + self.counter.message(user(frame))
        size, room = self.counter.text(removed), max(1, limit - overhead - cap)
        if size > room:
            whole = ToolOutput(text=removed, digest="the turns that go")
            removed = cut(whole, size, room, self.counter, where="in full: the archive")
        message = user(prompts.summary_request(state.history.task, removed, words=cap // 2))
        estimate = REQUEST_OVERHEAD + self.counter.message(instruction) + self.counter.message(message)
        return Request(messages=(instruction, message), max_tokens=cap), estimate

    def _account(self, state: RunState, completion: Completion, estimate: int) -> None:
        size = state.budget.calibration.size
        usage = settled(completion.usage, size(estimate), size(self.counter.message(completion.message)))
        state.usage += usage
        fields = {
            "step": state.steps,
            "purpose": "summary",
            "message": completion.message.wire(),
            "finish_reason": completion.finish_reason,
            "usage": asdict(usage),
        }
        self.emit(Event("completion", fields))

    def _unusable(self, why: str) -> str:
        self.emit(
            Event(
                "warning",
                {"text": f"No summary of the removed turns ({why}); the factual note stands alone."},
            )
        )
        return ""
