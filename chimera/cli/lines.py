"""What the screen and `chimera show` say about steps, calls, compactions and results. From fields of events to text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

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


def cost_of(usd: float | None, model: object) -> float | None:
    """A price in US dollars; None where it is unknown. A script costs nothing."""
    return 0.0 if usd is None and str(model).partition(":")[0] == "scripted" else usd


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


class Step(Struct, frozen=True, kw_only=True):
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
        """The step in one line: the most telling wording that fits; in words where there is no width."""
        if columns is None:
            return self._in_words()
        *longer, shortest = self._wordings()
        return next((w for w in longer if width(w) <= columns), shortest)

    @property
    def _share(self) -> float:
        return self.prompt / max(self.budget, 1)

    def _in_words(self) -> str:
        return " · ".join(
            [
                f"step {self.number}",
                f"{self.prompt:,} tokens, {self._share:.0%} of the budget",
                f"floor {self.floor:,}",
                count(self.compactions, "compaction"),
                *usage_words(self.usage),
                f"cost {cost_text(self.cost_usd)}",
            ]
        )

    def _wordings(self) -> Iterator[str]:
        about = "~" if self.usage.get("estimated") else ""
        sent, got = (f"{about}{short(self.usage.get(f'{way}_tokens', 0))}" for way in ("input", "output"))
        cached = f"{cached_share(self.usage):.0%}"
        aside = "" if about else f" ({cached} cached)"
        known = self.cost_usd is not None
        cost, n, share = cost_text(self.cost_usd), self.number, f"{self._share:.0%}"
        floor, times = short(self.floor), self.compactions
        yield (
            f"step {n} {bar(self._share, 10)} {share} of {self.budget:,} · floor {self.floor:,} · "
            f"{count(times, 'compaction')} · in {sent}{aside} · out {got} · cost {cost}"
        )
        money = cost if known else f"cost {cost}"
        tail = f"in {sent}{aside} out {got} · {money}"
        yield f"step {n} {bar(self._share, 8)} {share} · floor {self.floor} · {times} comp. · {tail}"
        yield f"step {n} {bar(self._share, 6)} {share} · floor {floor} · ↺{times} · {tail}"
        yield f"step {n} {bar(self._share, 5)} {share} · F{floor} · ↺{times} · {tail}"
        part = "" if about else f" c{cached}"
        yield f"#{n} {bar(self._share, 5)} {share} · F{floor} · ↺{times} · {sent}/{got}{part} · {money}"
        money = cost if known else "$?"
        yield f"#{n} {bar(self._share, 3)}{share} F{floor} ↺{times} {sent}/{got}{'' if about else f' c{cached}'} {money}"
        yield f"#{n} {share} F{floor} ↺{times} {sent}/{got} {money}"


def bar(share: float, cells: int) -> str:
    """A share as a bar; full only where nothing is left."""
    filled = min(cells, int(share * cells + 0.5))
    filled = min(filled, cells - 1) if share < 1 else filled
    return "█" * filled + "░" * (cells - filled)


def cached_share(usage: Fields) -> float:
    """Of the prompt, from 0 to 1."""
    return float(usage.get("cached_input_tokens", 0) / max(usage.get("input_tokens", 0), 1))


def usage_words(usage: Fields) -> list[str]:
    """Tokens in, with the share that a cache served, and out; `~` before what is only our estimate."""
    sent, got = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    if usage.get("estimated"):
        return [f"in ~{sent:,} (cached unknown)", f"out ~{got:,}"]
    return [f"in {sent:,} (cached {cached_share(usage):.0%})", f"out {got:,}"]


def call_line(call: Fields, columns: int | None) -> tuple[Span, ...]:
    """A finished call in one line: how it went, what ran, its exit code where that would be cut off, and its time."""
    ok = bool(call.get("ok"))
    mark: Span = ("  ✓ ", "green") if ok else ("  ✗ ", "red")
    what = call_words(call)
    took = f" · {duration_text(call.get('duration_ms', 0))}"
    room = (_PIPE_COLUMNS if columns is None else columns) - 4
    code = call.get("exit_code")
    if code and width(what) + width(took) > room:
        took = f" · exit {code}{took}"
    return mark, fit(what, max(room - width(took), 1)), (took, "dim")


def call_words(call: Fields) -> str:
    """What a finished call did, in one line."""
    what = one_line(str(call.get("digest") or call.get("name", "")))
    return f"check: {what}" if call.get("name") == "verify" else what


def sandbox_text(started: Fields) -> str:
    """How commands are confined."""
    sandbox = started.get("sandbox") or {}
    backend = sandbox.get("backend", "none")
    return f"sandbox {sandbox.get('level')} ({backend})" if backend != "none" else "commands run unconfined"


def compaction_text(fields: Fields, columns: int | None = None) -> str:
    """A compaction: sizes before and after, what became of the turns, and where the text that left is."""
    sizes = f"{fields.get('before', 0):,} → {fields.get('after', 0):,}"
    if not fields.get("changed"):
        return f"compaction could not help ({fields.get('failure')}): {sizes} tokens at best"
    counts = {name: fields.get(f"{name}_turns", 0) for name in ("kept", "masked", "removed")}
    turns = ", ".join(f"{number} {name}" for name, number in counts.items())
    more = " · tight" if fields.get("tight") else ""
    more += f" · {fields['archive']}" if fields.get("archive") else ""
    few = ", ".join(f"{number} {name}" for name, number in counts.items() if number and name != "kept")
    few_sizes = f"{short(fields.get('before', 0))} → {short(fields.get('after', 0))}"
    wordings = (
        f"compacted {sizes} tokens · turns: {turns}{more}",
        f"compacted {sizes} · {turns}{more}",
        f"compacted {sizes} · {few}",
        f"compacted {few_sizes} · {count(counts['masked'] + counts['removed'], 'turn')} cut",
    )
    return next((w for w in wordings if columns is None or width(w) <= columns), wordings[-1])


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


def summary_rows(result: Fields, verification: Fields | None = None) -> Iterator[tuple[str, str]]:
    """What a result comes to, as rows of a heading and a text that is safe to show.

    Args:
        result: as in the `run_finished` event.
        verification: the `tool_finished` event of the last check; None without one.
    """
    files = result.get("files_changed") or []
    for number, file in enumerate(files[:_MOST_FILES]):
        yield "files" if number == 0 else "", change_text(file)
    if len(files) > _MOST_FILES:
        yield "", f"and {len(files) - _MOST_FILES} more"
    if not files and result.get("run_id"):
        yield "files", "none changed"
    if verification is not None:
        yield (
            "check",
            f"{'passed' if verification.get('ok') else 'FAILED'}: {call_words(verification).removeprefix('check: ')}",
        )
    usage, context = result.get("usage"), result.get("context")
    if usage:
        yield "tokens", _usage_text(usage)
        yield "cost", cost_text(cost_of(usage.get("cost_usd"), result.get("model")))
    if context:
        yield "context", _context_text(context)


def next_commands(result: Fields, *, named: bool = True) -> Iterator[tuple[str, str]]:
    """What may be typed after a run, as a command and what it does.

    Args:
        result: as in the `run_finished` event.
        named: with the id of the run; without it they mean the last one.
    """
    run, reason = f" {result.get('run_id')}" if named else "", result.get("stop_reason")
    if reason == "cannot_shrink" and result.get("stop_detail") in {"floor", "task"}:
        yield "chimera floor", "what each step costs"
        return
    if reason in {"answered", "verify_failed", "no_progress"}:
        yield f'chimera resume{run} "..."', "say what is next"
    elif reason == "cannot_shrink":
        yield f"chimera resume{run} --window TOKENS", "in a larger window"
    elif reason not in {"internal_error", "state_unwritable"}:
        yield f"chimera resume{run}", "go on"
    yield f"chimera show{run}", "what it did"
    if result.get("files_changed"):
        yield f"chimera diff{run}", "what it changed"
        yield f"chimera undo{run}", "put that back"


def change_text(file: Fields) -> str:
    """`src/app.py +3 -1`."""
    return f"{one_line(str(file.get('path')))} +{file.get('added', 0)} -{file.get('removed', 0)}"


def _usage_text(usage: Fields) -> str:
    sent = usage.get("input_tokens", 0)
    if usage.get("estimated"):
        return f"about {sent:,} in and {usage.get('output_tokens', 0):,} out (our estimate)"
    return f"{sent:,} in ({cached_share(usage):.0%} cached) and {usage.get('output_tokens', 0):,} out"


def _context_text(context: Fields) -> str:
    return (
        f"{count(context.get('compactions', 0), 'compaction')}, peak {context.get('peak_prompt_tokens', 0):,} "
        f"of {context.get('trigger', 0):,} (trigger), floor {context.get('floor', {}).get('total', 0):,}"
    )
