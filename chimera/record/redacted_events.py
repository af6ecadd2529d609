"""Events and results on their way to the record and to whoever listens: no secret is in them."""

from __future__ import annotations

from msgspec.structs import replace

from chimera.core.state import RunResult
from chimera.record.events import Emit, Event
from chimera.record.redaction import Redactor


class RedactedEvents:
    """Passes each event on, to the record first. Pieces of a reply wait until no secret can begin in them.

    Args:
        redactor: knows the secrets.
        record: gets every event.
        listener: gets every event after the record has it.
    """

    def __init__(self, redactor: Redactor, record: Emit, listener: Emit | None) -> None:
        self._redactor = redactor
        self._receivers = [record] if listener is None else [record, listener]
        self._reply = redactor.stream()

    def __call__(self, event: Event) -> None:
        """Pass one event on."""
        if event.type == "text":
            self._pass_text(self._reply.add(str(event.fields["text"])))
            return
        self._pass_text(self._reply.end())
        self._pass(Event(event.type, self._redactor.value(event.fields)))

    def _pass_text(self, text: str) -> None:
        if text:
            self._pass(Event("text", {"text": text}))

    def _pass(self, event: Event) -> None:
        for receive in self._receivers:
            receive(event)


def redacted_result(result: RunResult, redactor: Redactor) -> RunResult:
    """A result as the caller gets it: no secret is in what the model or a provider said."""
    return replace(
        result,
        message=redactor.text(result.message),
        answer=None if result.answer is None else redactor.text(result.answer),
        warnings=tuple(map(redactor.text, result.warnings)),
    )
