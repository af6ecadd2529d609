"""`chimera show`: one recorded run, step by step, with the curve of its context."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from chimera.cli import lines
from chimera.cli.cells import escaped, fit, one_line
from chimera.cli.curve import Curve, show_curve
from chimera.cli.output import Output
from chimera.cli.recorded import NO_BEGINNING, RecordedRun, RecordedStep, run_here, show_damage
from chimera.cli.render import show_compaction
from chimera.cli.terminal import Terminal
from chimera.config import state_dir
from chimera.errors import RecordError, WorkspaceError

_TEXT_CELLS = 200


def show(
    ctx: typer.Context,
    run: Annotated[
        str | None, typer.Argument(help="Its id or how it begins [the last one of this workspace].")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it as one page that needs nothing else.")
    ] = None,
    output_format: Annotated[Literal["text", "json"], typer.Option(help="Of the report.")] = "text",
) -> int:
    """Show a run: its settings, steps with calls and outcomes, compactions, the context curve, and how it ended."""
    output: Output = ctx.obj
    home = state_dir()
    found = RecordedRun.read(home, run_here(home, run))
    show_damage(output.terminal, found)
    if html is not None:
        _write_page(output, html, home, found)
    if output_format == "json":
        output.json(_fields(found))
        return 0
    if html is not None:
        return 0
    page = Terminal(output.stdout, output.environment)
    _show_header(page, found)
    steps = tuple(found.steps())
    for index, step in enumerate(steps):
        _show_step(page, found, step, steps[: index + 1])
    _show_curve(page, found, steps)
    _show_end(page, found)
    return 0


def _write_page(output: Output, path: Path, home: Path, run: RecordedRun) -> None:
    from chimera.cli.run_page import run_page
    from chimera.pages.document import write_document

    write_document(path, run_page(run, output.without_secrets(_patch(home, run))))
    output.terminal.line("page: ", escaped(str(path)))


def _patch(home: Path, run: RecordedRun) -> str:
    """What the run changed, as a patch, or why that cannot be told."""
    from chimera.cli.recorded_work import RecordedWork

    try:
        recorded = RecordedWork.of(home, run)
        patch = recorded.shadow.diff(recorded.work.before, recorded.work.after)
    except (RecordError, WorkspaceError) as fault:
        return f"There are no snapshots to compare: {fault}"
    return "".join([*(f"{notice}\n" for notice in recorded.notices), patch])


def _fields(run: RecordedRun) -> dict[str, Any]:
    return {
        "run_id": run.path.name,
        "state": run.state,
        "run_dir": str(run.path),
        "started": dict(run.started),
        "steps": [
            {
                "step": step.number,
                "prompt_tokens": step.prompt.get("calibrated"),
                "usage": step.completion.get("usage") if step.completion else None,
                "compactions": [dict(c) for c in step.compactions],
                "calls": [
                    {name: call.get(name) for name in ("name", "ok", "exit_code", "duration_ms", "digest")}
                    for call in step.calls
                ],
            }
            for step in run.steps()
        ],
        "result": dict(run.result) if run.result is not None else None,
    }


def _show_header(page: Terminal, run: RecordedRun) -> None:
    started = run.started
    if not started and not run.damage:
        page.block(NO_BEGINNING.format(run.path.name))
        return
    page.line((f"run {run.path.name}", "bold"), f" · {lines.local_time(run.time)} · {run.state}")
    page.block(one_line(f"{started.get('model')} in {started.get('workspace')}"), indent="  ")
    if "window" in started:
        floor = started.get("floor", {}).get("total", 0)
        page.block(
            f"window {started['window']:,} ({started.get('window_source')}) · budget {started.get('budget', 0):,} · "
            f"trigger {started.get('trigger', 0):,} · floor {floor:,} · mode {started.get('mode')}",
            indent="  ",
        )
    page.block(escaped(run.task.strip()), indent="  task: ", hang="  ")


def _show_step(page: Terminal, run: RecordedRun, step: RecordedStep, so_far: Sequence[RecordedStep]) -> None:
    if step.resumed:
        page.line(("resumed", "bold"))
    for message in step.messages:
        page.block(escaped(message), indent="  you: ", hang="  ")
    for compaction in step.compactions:
        show_compaction(page, compaction)
    page.line((_step_text(run, step, so_far, page.columns), "cyan"))
    if step.completion is None:
        page.line("  no reply")
        return
    if content := str(step.completion.get("message", {}).get("content") or "").strip():
        page.block(fit(one_line(content), _TEXT_CELLS), indent="  ")
    for call in step.calls:
        if call["type"] == "tool_finished":
            page.line(*lines.call_line(call, page.columns))
        else:
            printed = f"; what it had printed: {call['printed']}" if call.get("printed") else ""
            page.line(
                ("  ? ", "yellow"), f"{one_line(str(call.get('name')))}: no result is recorded{printed}"
            )


def _step_text(
    run: RecordedRun, step: RecordedStep, so_far: Sequence[RecordedStep], columns: int | None
) -> str:
    model = run.started.get("model")
    costs = [
        lines.cost_of(s.completion.get("usage", {}).get("cost_usd"), model) for s in so_far if s.completion
    ]
    known = [cost for cost in costs if cost is not None]
    return lines.Step(
        number=step.number,
        prompt=int(step.prompt.get("calibrated", 0)),
        budget=int(run.started.get("budget", 0)),
        floor=int(run.started.get("floor", {}).get("total", 0)),
        compactions=sum(bool(c.get("changed")) for s in so_far for c in s.compactions),
        usage=(step.completion or {}).get("usage", {}),
        cost_usd=sum(known) if len(known) == len(costs) else None,
    ).line(columns)


def _show_curve(page: Terminal, run: RecordedRun, steps: Sequence[RecordedStep]) -> None:
    window = int(run.started.get("window", 0))
    if not window or not steps:
        return
    budget, trigger = (int(run.started.get(name, 0)) for name in ("budget", "trigger"))
    curve = Curve(window=window, budget=budget, trigger=trigger, columns=page.columns)
    page.line("")
    sizes = [int(step.prompt.get("calibrated", 0)) for step in steps]
    compacted = {n for n, step in enumerate(steps) if any(c.get("changed") for c in step.compactions)}
    show_curve(page, curve, "context", sizes, compacted)


def _show_end(page: Terminal, run: RecordedRun) -> None:
    page.line("")
    result = run.result
    if result is None:
        page.block(
            "The run goes on."
            if run.running
            else f"The run died after {lines.count(run.step_count, 'step')}: its record ends without an end."
        )
        return
    page.block(lines.ending_text(result), style="green" if result.get("stop_reason") == "answered" else "red")
    for heading, text in lines.summary_rows(result, run.verification):
        page.block(text, indent=f"  {heading:<9}", hang=" " * 11)
    page.long_line("  record   " + one_line(str(result.get("run_dir"))))
    for warning in result.get("warnings", []):
        page.block(f"notice: {escaped(str(warning))}", indent="  ")
    if error := result.get("error"):
        page.block(escaped(str(error.get("message"))), indent="  ")
    if result.get("answer"):
        page.block(escaped(str(result["answer"])), indent="  ")
