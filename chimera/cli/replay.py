"""`chimera replay`: recorded runs through the context manager at other windows, without a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from chimera.cli import lines
from chimera.cli.cells import escaped, one_line, width
from chimera.cli.curve import Curve, show_curve
from chimera.cli.options import CONTEXT, OUTPUT
from chimera.cli.output import Output
from chimera.cli.recorded import run_here
from chimera.cli.terminal import Terminal
from chimera.config import CompactionMode, state_dir
from chimera.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from chimera.core.context_budget import ContextBudget
    from chimera.replay import Recording, Replay

T = TypeVar("T")
_WINDOWS = "4000,8000,16000,32000,64000"
_MODES: tuple[CompactionMode, ...] = ("note", "mask")
_MOST_ROWS = 25
"""Of one curve of many."""
_HEADINGS = (
    "window",
    "share",
    "mode",
    "steps",
    "comp.",
    "gap",
    "peak",
    "floor",
    "re-sent",
    "cached",
    "archive",
    "stop",
)
_KEPT_IN_SIGHT = 3
"""Leading columns that name a replay."""


def replay(
    ctx: typer.Context,
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Ids, how they begin, or run directories [the last run].",
            show_default=False,
        ),
    ] = None,
    window: Annotated[
        str, typer.Option(metavar="TOKENS,...", help="Windows to play in.", rich_help_panel=CONTEXT)
    ] = _WINDOWS,
    compaction: Annotated[
        str, typer.Option(metavar="MODE,...", help="note, mask or both.", rich_help_panel=CONTEXT)
    ] = ",".join(_MODES),
    budget_fraction: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE,...",
            help="Shares of the window for the prompt [the run's].",
            rich_help_panel=CONTEXT,
        ),
    ] = None,
    curve: Annotated[
        bool, typer.Option("--curve/--no-curve", help="Draw each replay.", rich_help_panel=OUTPUT)
    ] = True,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a page with the curves.", rich_help_panel=OUTPUT),
    ] = None,
    output_format: Annotated[
        Literal["text", "json"], typer.Option(help="Of the report.", rich_help_panel=OUTPUT)
    ] = "text",
) -> int:
    """Show what the context manager would have done with recorded runs at other windows. Calls no model.

    Replies and results are as recorded; only the context around them changes. So this shows what the policy does, not
    what the model would have done. A file that is put back is read from the workspace as it is now.
    """
    from chimera.core.tokens import TokenCounter
    from chimera.replay import read_recording
    from chimera.replay import replay as play

    output: Output = ctx.obj
    windows = _values(window, _window, "--window")
    modes = _values(compaction, _mode, "--compaction")
    fractions = _values(budget_fraction, _fraction, "--budget-fraction") if budget_fraction else None
    recordings = [read_recording(path) for path in _places(runs or [])]
    counter = TokenCounter()
    played: list[tuple[Recording, list[_Played]]] = [
        (
            recording,
            [
                (budget, play(recording, budget, counter))
                for budget in _budgets(recording, windows, modes, fractions)
            ],
        )
        for recording in recordings
    ]
    if html is not None:
        from chimera.pages.document import write_document

        write_document(html, _page(played))
        output.terminal.line("page: ", escaped(str(html)))
    if output_format == "json":
        output.json({"runs": [_fields(recording, replays) for recording, replays in played]})
        return 0
    if html is not None:
        return 0
    page = Terminal(output.stdout, output.environment)
    for number, (recording, replays) in enumerate(played):
        if number:
            page.line("")
        show_replays(page, recording, replays, curves=curve)
    return 0


_Played = tuple["ContextBudget", "Replay"]


def _places(names: Sequence[str]) -> list[Path]:
    """The run directories that are meant, each once."""
    from chimera.record.run_directory import find_run

    found = [
        Path(name).resolve() if Path(name, "events.jsonl").is_file() else find_run(state_dir(), name)
        for name in names
    ]
    return list(dict.fromkeys(found or [run_here(state_dir(), None)]))


def _values(text: str, read: Callable[[str], T], option: str) -> list[T]:
    """The values of a list option, each once, in order.

    Raises:
        ConfigError: one that cannot be read, or none.
    """
    values = []
    for word in filter(None, (word.strip() for word in text.split(","))):
        try:
            values.append(read(word))
        except ValueError as fault:
            raise ConfigError(f"{option} takes {fault}, separated by commas; {word!r} is none") from fault
    if not values:
        raise ConfigError(f"{option} is empty: give at least one value, or leave it out")
    return list(dict.fromkeys(values))


def _window(word: str) -> int:
    if not word.isdecimal() or int(word) == 0:
        raise ValueError("numbers of tokens")
    return int(word)


def _mode(word: str) -> CompactionMode:
    for mode in _MODES:
        if word == mode:
            return mode
    raise ValueError(f"{' or '.join(_MODES)} (a summary needs a model)")


def _fraction(word: str) -> float:
    expected = "shares above 0 and up to 1"
    try:
        value = float(word)
    except ValueError as fault:
        raise ValueError(expected) from fault
    if not 0 < value <= 1:
        raise ValueError(expected)
    return value


def _budgets(
    recording: Recording,
    windows: Sequence[int],
    modes: Sequence[CompactionMode],
    fractions: Sequence[float] | None,
) -> Iterator[ContextBudget]:
    """Every combination, over the shares that the run itself had."""
    from msgspec.structs import replace

    from chimera.core.model import Window
    from chimera.replay import recorded_budget

    own = recorded_budget(recording)
    for tokens, fraction, mode in product(windows, fractions or [own.fraction], modes):
        yield replace(own, window=Window(tokens=tokens, source="argument"), fraction=fraction, mode=mode)


def _fields(recording: Recording, replays: Sequence[_Played]) -> dict[str, Any]:
    return {
        "run_id": recording.run_id,
        "steps": len(recording.steps),
        "replays": [
            {
                "window": budget.window.tokens,
                "budget_fraction": budget.fraction,
                "budget": budget.budget,
                "trigger": budget.trigger,
                "mode": budget.mode,
                "steps": replay.steps,
                "stop": replay.stop,
                "compactions": replay.compactions,
                "gap": replay.gap,
                "peak_prompt_tokens": replay.peak,
                "prompt_tokens_sent": replay.sent,
                "cacheable_share": round(replay.cacheable, 4),
                "floor_share": round(replay.floor_share, 4),
                "archive_bytes": replay.archive_bytes,
                "curve": list(replay.curve),
                "compacted_at": list(replay.compacted_at),
            }
            for budget, replay in replays
        ],
    }


def show_replays(page: Terminal, recording: Recording, replays: Sequence[_Played], *, curves: bool) -> None:
    """The replays of one run: a table and, if wanted, the curve of each."""
    page.line((f"run {escaped(recording.run_id)}", "bold"), f" · {lines.count(len(recording.steps), 'step')}")
    page.line(f"  task: {one_line(recording.task)}")
    page.line("")
    _show_table(page, [_row(budget, replay) for budget, replay in replays])
    for budget, replay in replays if curves else ():
        page.line("")
        _show_curve(page, budget, replay)


def _row(budget: ContextBudget, replay: Replay) -> tuple[str, ...]:
    """The cells under `_HEADINGS`."""
    from chimera.tools.wording import size_text

    return (
        f"{budget.window.tokens:,}",
        f"{budget.fraction:g}",
        budget.mode,
        str(replay.steps),
        str(replay.compactions),
        "-" if replay.gap is None else f"{replay.gap:g}",
        f"{replay.peak:,}",
        f"{replay.floor_share:.0%}",
        lines.short(replay.sent),
        f"{replay.cacheable:.0%}",
        size_text(replay.archive_bytes).replace(" ", "") if replay.archive_bytes else "-",
        replay.stop or "-",
    )


def _show_table(page: Terminal, rows: Sequence[tuple[str, ...]]) -> None:
    """The rows as a table or, where that is too wide for the page, each as a paragraph."""
    widths = [max(width(cell) for cell in column) for column in zip(_HEADINGS, *rows, strict=True)]
    gap = next(
        (n for n in (2, 1) if page.columns is None or sum(widths) + n * (len(widths) - 1) <= page.columns), 0
    )
    if gap:
        for row in (_HEADINGS, *rows):
            page.line((" " * gap).join(cell.rjust(size) for cell, size in zip(row, widths, strict=True)))
        return
    for row in rows:
        named = [*zip(_HEADINGS, row, strict=True)]
        page.line((" · ".join(f"{name} {cell}" for name, cell in named[:_KEPT_IN_SIGHT]), "bold"))
        page.block(" · ".join(f"{name} {cell}" for name, cell in named[_KEPT_IN_SIGHT:]), indent="  ")


def _show_curve(page: Terminal, budget: ContextBudget, replay: Replay) -> None:
    curve = Curve(
        window=budget.window.tokens, budget=budget.budget, trigger=budget.trigger, columns=page.columns
    )
    title = f"window {budget.window.tokens:,}, {budget.mode}"
    if replay.curve:
        show_curve(page, curve, title, replay.curve, replay.compacted_at, most_rows=_MOST_ROWS)
    if replay.stop is not None:
        where = f"after {lines.count(len(replay.curve), 'step')}" if replay.curve else "before its first step"
        page.block(f"{title}: stopped {where}, cannot_shrink ({replay.stop})", style="red")


def _page(played: Sequence[tuple[Recording, Sequence[_Played]]]) -> str:
    """The report as HTML."""
    from chimera.pages.context_plot import STYLE
    from chimera.pages.document import document, plain, table

    sections = []
    for number, (recording, replays) in enumerate(played):
        rows = [list(map(plain, _row(budget, replay))) for budget, replay in replays]
        sections.append(
            f'<h2 id="run-{number}">Run {plain(recording.run_id)}</h2><p>{plain(one_line(recording.task))}</p>'
            f"{table(_HEADINGS, rows, left={2, len(_HEADINGS) - 1}, label='replays')}"
            f'<div class="plots">{"".join(_figure(budget, replay) for budget, replay in replays)}</div>'
        )
    title = "Replays: what the context manager does in other windows"
    return document(title, "".join(sections), skip=("run-0", "Skip to the first run"), style=STYLE)


def _figure(budget: ContextBudget, replay: Replay) -> str:
    from chimera.pages.context_plot import Column, Limits, context_plot
    from chimera.pages.document import plain

    title = f"window {budget.window.tokens:,}, {budget.mode}"
    if not replay.curve:
        return f"<figure><h3>{title}</h3><p>Stopped before its first step: {plain(replay.stop)}.</p></figure>"
    before = dict(zip(replay.compacted_at, replay.compacted_from, strict=True))
    columns = [
        Column(
            name=f"step {place + 1}",
            size=size,
            parts={},
            compacted=place in before,
            before=before.get(place),
        )
        for place, size in enumerate(replay.curve)
    ]
    limits = Limits(trigger=budget.trigger, budget=budget.budget, window=budget.window.tokens)
    return f"<figure><h3>{title}</h3>{context_plot(title, columns, limits, {}, small=True)}</figure>"
