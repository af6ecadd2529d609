"""What the screen and `chimera show` say about steps, calls, compactions and results. From fields of events to text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from chimera.cli.cells import fit, one_line, width
from chimera.cli.terminal import Span

Fields = Mapping[str, Any]
_MOST_FILES = 10
_PIPE_COLUMNS = 240
"""Where a pipe has no width of its own, a line about a call still ends somewhere."""


def count(number: int, noun: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def short(tokens: int) -> str:
    """Tokens in at most five characters: `912`, `3.2k`, `31k`, `1.2M`."""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if tokens >= size:
            return f"{tokens / size:.1f}{unit}" if tokens < 10 * size else f"{tokens // size}{unit}"
    return str(tokens)


def cost_text(usd: float | None) -> str:
    """A price in US dollars, or "unknown"; never a zero that only stands for unknown."""
    if usd is None:
        return "unknown"
    return f"${usd:,.2f}" if usd >= 1 or usd == 0 else f"${max(usd, 0.0001):.4f}"


def duration_text(milliseconds: int) -> str:
    """`340 ms`, `2.1 s`, `3 min 5 s`."""
    if milliseconds < 1_000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1_000
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds // 60)} min {int(seconds % 60)} s"


def local_time(text: str) -> str:
    """An event's UTC time as local time, to the minute."""
    try:
        return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step as the status line tells it."""

    number: int
    prompt: int
    """Calibrated size of the request."""
    budget: int
    floor: int
    compactions: int
    """So far in the run."""
    usage: Fields
    cost_usd: float | None
    """So far in the run."""

    def line(self, columns: int | None) -> str:
        """The step in one line: the most telling wording that fits."""
        *longer, shortest = self._wordings()
        return next((w for w in longer if columns is None or width(w) <= columns), shortest)

    def _wordings(self) -> Iterator[str]:
        about = "~" if self.usage.get("estimated") else ""
        sent, got = self.usage.get("input_tokens", 0), self.usage.get("output_tokens", 0)
        share = f"{round(100 * self.prompt / max(self.budget, 1))}%"
        cached = self.usage.get("cached_input_tokens", 0)
        part = f"{round(100 * cached / max(sent, 1))}%" if not about else "unknown"
        cost, n = cost_text(self.cost_usd), self.number
        yield (
            f"step {n} · {self.prompt:,} tokens, {share} of the budget · floor {self.floor:,} · "
            f"{count(self.compactions, 'compaction')} · in {about}{sent:,} (cached {part}) · out {about}{got:,} · cost {cost}"
        )
        into, out = f"in {about}{short(sent)}", f"out {about}{short(got)}"
        cached_short = "" if about else f" ({part} cached)"
        yield (
            f"step {n} · {share} of budget · floor {self.floor} · {count(self.compactions, 'compaction')} · "
            f"{into}{cached_short} {out} · cost {cost}"
        )
        money = f"cost {cost}" if self.cost_usd is None else cost
        yield f"step {n} · {share} · floor {self.floor} · {self.compactions} comp. · {into}{cached_short} {out} · {money}"
        yield f"step {n} · {share} · floor {self.floor} · {self.compactions} comp. · {into} {out} · {money}"
        yield f"step {n} · {share} · F{short(self.floor)} · {self.compactions}c · {into} {out} · {money}"
        sums = f"{about}{short(sent)}/{about}{short(got)}"
        yield f"#{n} · {share} · F{short(self.floor)} · {self.compactions}c · {sums} · {'$?' if self.cost_usd is None else cost}"


def call_line(call: Fields, columns: int | None) -> tuple[Span, ...]:
    """A finished call in one line: how it went, what ran, its exit code where that would be cut off, and its time."""
    ok = bool(call.get("ok"))
    mark: Span = ("  ✓ ", "green") if ok else ("  ✗ ", "red")
    what = one_line(str(call.get("digest") or call.get("name", "")))
    if call.get("name") == "verify":
        what = f"check: {what}"
    took = f" · {duration_text(call.get('duration_ms', 0))}"
    room = (_PIPE_COLUMNS if columns is None else columns) - 4
    code = call.get("exit_code")
    if code is not None and width(what) + width(took) > room:
        took = f" · exit {code}{took}"
    return mark, fit(what, max(room - width(took), 1)), (took, "dim")


def compaction_text(fields: Fields, columns: int | None = None) -> str:
    """A compaction: sizes before and after, what became of the turns, and where the text that left is."""
    sizes = f"{fields.get('before', 0):,} → {fields.get('after', 0):,}"
    if not fields.get("changed"):
        return f"compaction could not help ({fields.get('failure')}): {sizes} tokens at best"
    turns = ", ".join(f"{fields.get(f'{name}_turns', 0)} {name}" for name in ("kept", "masked", "removed"))
    tight = " · tight" if fields.get("tight") else ""
    where = f" · {fields['archive']}" if fields.get("archive") else ""
    whole = f"compacted {sizes} tokens · turns: {turns}{tight}{where}"
    return (
        whole if columns is None or width(whole) <= columns else f"compacted {sizes} · {turns}{tight}{where}"
    )


def parts_text(fields: Fields) -> str:
    """The parts of the request after a compaction."""
    return ", ".join(f"{name} {size:,}" for name, size in fields.get("parts", {}).items())


def ending_text(result: Fields) -> str:
    """Why a run ended, in a few words."""
    steps = count(result.get("steps") or 0, "step")
    if result.get("stop_reason") == "answered":
        return f"answered after {steps}"
    detail = f" ({result['stop_detail']})" if result.get("stop_detail") else ""
    return f"stopped after {steps}: {result.get('stop_reason')}{detail}"


def summary_rows(result: Fields) -> Iterator[tuple[str, str]]:
    """What a result comes to, as rows of a heading and a text that is safe to show."""
    files = result.get("files_changed") or []
    for number, file in enumerate(files[:_MOST_FILES]):
        yield "files" if number == 0 else "", change_text(file)
    if len(files) > _MOST_FILES:
        yield "", f"and {len(files) - _MOST_FILES} more"
    if not files and result.get("run_id"):
        yield "files", "none changed"
    usage, context = result.get("usage"), result.get("context")
    if usage:
        yield "tokens", _usage_text(usage)
        yield "cost", cost_text(usage.get("cost_usd"))
    if context:
        yield "context", _context_text(context)


def change_text(file: Fields) -> str:
    """`src/app.py +3 -1`."""
    return f"{one_line(str(file.get('path')))} +{file.get('added', 0)} -{file.get('removed', 0)}"


def _usage_text(usage: Fields) -> str:
    sent, cached = usage.get("input_tokens", 0), usage.get("cached_input_tokens", 0)
    if usage.get("estimated"):
        return f"about {sent:,} in and {usage.get('output_tokens', 0):,} out (our estimate)"
    return f"{sent:,} in ({round(100 * cached / max(sent, 1))}% cached) and {usage.get('output_tokens', 0):,} out"


def _context_text(context: Fields) -> str:
    return (
        f"{count(context.get('compactions', 0), 'compaction')}, peak {context.get('peak_prompt_tokens', 0):,} "
        f"of {context.get('trigger', 0):,} (trigger), floor {context.get('floor', {}).get('total', 0):,}"
    )
