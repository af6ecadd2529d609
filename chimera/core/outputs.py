"""What a tool call came to."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from msgspec.structs import force_setattr

from chimera.core.ledger import Fact
from chimera.core.plan import Plan

DIGEST_CHARACTERS = 240


class ToolOutput(Struct, frozen=True, kw_only=True):
    """What one call came to."""

    text: str
    """For the model, strict UTF-8 without control characters but newline and tab; admission may cut it."""
    digest: str
    """One factual line that can stand for `text` once the turn is old: what ran and how it ended."""
    ok: bool = True
    exit_code: int | None = None
    """Only for commands; None when killed."""
    size: int | None = None
    """Bytes of the whole output where `text` is only its head and tail."""
    excerpt: bool = False
    """Whether `text` is only head and tail of what there was."""
    spool: Path | None = None
    """File with the whole output. Whoever runs the tool keeps it or deletes it."""
    kept: str | None = None
    """The name under which the whole output can be read, once it is kept."""
    facts: tuple[Fact, ...] = ()
    plan: Plan | None = None
    """The plan that replaces the old one."""
    whole: bool = True
    """Whether `spool`, or the text where there is none, holds everything that there was."""

    def __post_init__(self) -> None:
        force_setattr(self, "digest", one_line(self.digest))


def one_line(text: str, limit: int = DIGEST_CHARACTERS) -> str:
    """Text on one line, so that nothing in it can look like the beginning of another."""
    flat = " ".join(text.split())
    flat = "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in flat)
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
