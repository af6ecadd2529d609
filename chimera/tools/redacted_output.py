"""What a tool call came to, without secrets: before it joins the history, the record or the kept outputs."""

from __future__ import annotations

from contextlib import suppress

from msgspec.structs import replace

from chimera.core.ledger import CommandRun, Fact
from chimera.core.outputs import ToolOutput
from chimera.record.redaction import Redactor


def redacted_output(output: ToolOutput, redactor: Redactor) -> ToolOutput:
    """The output with every secret replaced, also in the file that holds all of it."""
    spool = output.spool
    if spool is not None:
        try:
            redactor.file(spool)
        except OSError:
            # It is gone rather than kept with what could not be taken out.
            with suppress(OSError):
                spool.unlink()
            spool = None
    return replace(
        output,
        text=redactor.text(output.text),
        digest=redactor.text(output.digest),
        facts=tuple(_fact(fact, redactor) for fact in output.facts),
        spool=spool,
    )


def _fact(fact: Fact, redactor: Redactor) -> Fact:
    if not isinstance(fact, CommandRun):
        return fact
    return replace(fact, command=redactor.text(fact.command), error=redactor.text(fact.error))
