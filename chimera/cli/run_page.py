"""A recorded run as one HTML page: the curve, tokens and cost, the transcript, receipts of compactions, the diff."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from chimera.bench.row import Tokens
from chimera.cli import lines
from chimera.cli.changes import changed_lines, patch_lines
from chimera.cli.recorded import RecordedRun, RecordedStep
from chimera.core.messages import Usage
from chimera.pages import context_plot
from chimera.pages.context_plot import Column, Limits
from chimera.pages.document import document, plain, table
from chimera.pages.tokens import TOKEN_CLASSES, parts_figure, tokens_by_class
from chimera.workspace.terminal_text import plain_text

Fields = Mapping[str, Any]
PARTS = {
    "system": "system message",
    "tools": "tool schemas",
    "task": "task",
    "context": "plan, file and note put back",
    "turns": "turns",
}
"""Parts of a request, and what people call them."""
_PUT_BACK = {
    "fixed": "system message, tools, task",
    "follow_up": "your newest message",
    "plan": "plan and task list",
    "file": "file being edited",
    "summary": "summary by the model",
    "note": "note",
    "context": "earlier plan, file and note",
    "turns": "turns",
}
_MOST_OUTPUT = 64 * 1024
_MOST_ARCHIVE = 256 * 1024
_MOST_PATCH = 1024 * 1024
_FILE_NAME = re.compile(r"@run/(outputs|archive)/(\d+\.\w+)")
_STYLE = (
    context_plot.STYLE
    + """
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;padding:0;margin:0 0 1rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1.1rem;margin:0 0 1rem}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
pre,.said{white-space:pre-wrap;overflow-wrap:anywhere;margin:.3rem 0}pre{font:13px/1.45 ui-monospace,monospace;background:var(--card);
border:1px solid var(--line);border-radius:.4rem;padding:.6rem .8rem;max-height:32rem;overflow-y:auto}
.said{border-left:3px solid var(--line);padding-left:.8rem}.said.you{border-color:var(--c2)}.said.told{border-color:var(--c1);color:var(--soft)}
section.step{margin:1.3rem 0;scroll-margin-top:.5rem}section.step h3{margin:0}section.step:target h3{text-decoration:underline}
.meta{color:var(--soft);font-size:.875rem;margin:0 0 .3rem;font-variant-numeric:tabular-nums}
details{margin:.25rem 0}details.receipt{border-left:3px solid var(--c1);padding-left:.8rem}
summary{overflow-wrap:anywhere;padding:.15rem 0}.took{color:var(--soft);font-size:.875rem}
.add{color:var(--good)}.del{color:var(--bad)}.hunk{color:var(--c0)}figure{margin-top:.7rem}
@media(max-width:30rem){dl{grid-template-columns:1fr}dt{margin-top:.4rem}pre{padding:.5rem}}
"""
)


def run_page(run: RecordedRun, patch: str) -> str:
    """The page of a run.

    Args:
        run: as recorded.
        patch: what it changed, or a remark on why that is not known.
    """
    steps = tuple(run.steps())
    sections = [
        _navigation(),
        _facts(run),
        f'<h2 id="context">Context</h2>{_curve(run, steps)}',
        f'<h2 id="tokens">Tokens</h2>{_tokens(run, steps)}',
        f'<h2 id="compactions">Compactions</h2>{_receipts(run, steps)}',
        f'<h2 id="transcript">Transcript</h2>{"".join(_transcript(run, steps))}',
        f'<h2 id="changes">Changes</h2>{_patch(patch)}',
    ]
    title = f"Run {run.path.name}"
    return document(title, "".join(sections), skip=("transcript", "Skip to the transcript"), style=_STYLE)


def _navigation() -> str:
    names = ("context", "tokens", "compactions", "transcript", "changes")
    links = "".join(f'<li><a href="#{name}">{name.capitalize()}</a></li>' for name in names)
    return f'<nav aria-label="Sections"><ul>{links}</ul></nav>'


def _facts(run: RecordedRun) -> str:
    started, result = run.started, run.result
    ending = lines.ending_text(result) if result is not None else run.state
    kind = "good" if run.state == "answered" else "bad"
    rows = [
        ("task", f'<div class="said you">{plain(run.task.strip())}</div>'),
        ("outcome", f'<strong class="{kind}">{plain(ending)}</strong>'),
        ("model", plain(started.get("model"))),
        ("workspace", plain(started.get("workspace"))),
        ("begun", plain(lines.local_time(run.time))),
        ("mode", plain(f"{started.get('mode')}, {lines.sandbox_text(started)}")),
    ]
    if result is not None:
        rows += [(heading, plain(text)) for heading, text in lines.summary_rows(result, run.verification)]
        rows += [("notice" if n == 0 else "", plain(w)) for n, w in enumerate(result.get("warnings") or [])]
    if result is not None and result.get("answer"):
        rows.append(("answer", f'<div class="said">{plain(result["answer"])}</div>'))
    shown = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows if value not in {"", "None"})
    return f"<dl>{shown}</dl>"


def _curve(run: RecordedRun, steps: Sequence[RecordedStep]) -> str:
    started = run.started
    if not steps or not started.get("window"):
        return "<p>No request is recorded.</p>"
    columns = [
        Column(
            name=f"step {step.number}",
            size=_size(step),
            parts={name: int(size) for name, size in (step.prompt.get("parts") or {}).items()},
            compacted=any(c.get("changed") for c in step.compactions),
            before=max((int(c.get("before", 0)) for c in step.compactions if c.get("changed")), default=None),
            target=f"step-{place}",
        )
        for place, step in enumerate(steps, 1)
    ]
    limits = Limits(**{name: int(started.get(name, 0)) for name in ("trigger", "budget", "window")})
    plot = context_plot.context_plot("Tokens of each request", columns, limits, PARTS)
    return (
        f"<p>Tokens of each request, by part. Window {limits.window:,}, budget {limits.budget:,}, trigger {limits.trigger:,}. "
        f"A red arrow is a compaction. Each column leads to its step.</p><figure>{plot}</figure>"
    )


def _tokens(run: RecordedRun, steps: Sequence[RecordedStep]) -> str:
    if not steps:
        return "<p>No request is recorded.</p>"
    peak = max(steps, key=_size)
    every = {name: sum(_parts(step).get(name, 0) for step in steps) for name in PARTS}
    by_part = [
        parts_figure(f"Tokens by part, {label}", PARTS, [(label, sizes)])
        for label, sizes in (
            ("all requests", every),
            (f"the largest request, step {peak.number}", _parts(peak)),
        )
    ]
    usages = [
        usage for event in run.events if (usage := event.get("usage")) and event["type"] == "completion"
    ]
    total = sum((_usage(usage) for usage in usages), Usage())
    classes = {name: int(value) for name, value in asdict(Tokens.of(total)).items() if name in TOKEN_CLASSES}
    by_class = tokens_by_class([("all requests and replies", classes)])
    about = (
        " The provider counted none of them: the numbers are chimera's estimate." if total.estimated else ""
    )
    return (
        f"<p>Cost: {plain(lines.cost_text(lines.cost_of(total.cost_usd, run.started.get('model'))))}.{about}</p>"
        f'<div class="plots"><div><h3>By part, all requests</h3>{by_part[0]}</div>'
        f"<div><h3>By part, largest request</h3>{by_part[1]}</div>"
        f"<div><h3>By class, as charged</h3>{by_class}</div></div>"
    )


def _parts(step: RecordedStep) -> dict[str, int]:
    """The parts of a request, in the calibrated size that its sum has."""
    parts = {name: int(size) for name, size in (step.prompt.get("parts") or {}).items()}
    factor = _size(step) / max(sum(parts.values()), 1)
    return {name: round(size * factor) for name, size in parts.items()}


def _usage(fields: Fields) -> Usage:
    known = {name: fields[name] for name in Usage.__struct_fields__ if name in fields}
    return Usage(**known)


def _size(step: RecordedStep) -> int:
    return int(step.prompt.get("calibrated", 0))


def _receipts(run: RecordedRun, steps: Sequence[RecordedStep]) -> str:
    receipts = [
        _receipt(run, compaction, step.number, f"step-{place}")
        for place, step in enumerate(steps, 1)
        for compaction in step.compactions
    ]
    return "".join(receipts) or "<p>There was none: the history stayed below the trigger.</p>"


def _receipt(run: RecordedRun, compaction: Fields, step: int, place: str) -> str:
    before, after = compaction.get("parts_before") or {}, compaction.get("parts") or {}
    rows = [
        [plain(words), *(f"{int(size):,}" if (size := side.get(name)) else "-" for side in (before, after))]
        for name, words in _PUT_BACK.items()
        if before.get(name) or after.get(name)
    ]
    rows.append(["whole request", *(f"{int(compaction.get(name, 0)):,}" for name in ("before", "after"))])
    restored = "; ".join(
        f"{file.get('path')} (sha256 {str(file.get('sha256'))[:12]})"
        for file in compaction.get("restored") or []
        if isinstance(file, Mapping)
    )
    said = [f'Before the request of <a href="#{place}">step {step}</a>.']
    said += [f"Read again from disk: {plain(restored)}."] if restored else []
    blocks = [
        _folded("Put back, as the model saw it", str(compaction.get("put_back") or "")),
        _folded("Taken out, as it is kept", _kept(run, compaction.get("archive"), _MOST_ARCHIVE)),
    ]
    numbers = table(("part", "before", "after"), rows, left={0}, label="sizes before and after")
    return (
        f'<details class="receipt"><summary>Step {step}: {plain(lines.compaction_text(compaction))}</summary>'
        f"<p>{' '.join(said)}</p>{numbers}{''.join(blocks)}</details>"
    )


def _transcript(run: RecordedRun, steps: Sequence[RecordedStep]) -> Iterator[str]:
    for place, step in enumerate(steps, 1):
        said = ['<p class="meta">The run was taken up again here.</p>'] if step.resumed and place > 1 else []
        said += [f'<div class="said you">{plain(message)}</div>' for message in step.messages]
        said += [f'<div class="said told">told the model: {plain(message)}</div>' for message in step.told]
        said += [
            f'<p class="meta">↺ {plain(lines.compaction_text(compaction))}</p>'
            for compaction in step.compactions
        ]
        body = "".join([*said, *_reply(run, step)])
        yield (
            f'<section class="step" id="step-{place}" aria-labelledby="name-{place}">'
            f'<h3 id="name-{place}">Step {step.number}</h3>{body}</section>'
        )


def _reply(run: RecordedRun, step: RecordedStep) -> Iterator[str]:
    completion = step.completion
    if completion is None:
        yield '<p class="meta">No reply is recorded.</p>'
        return
    usage = completion.get("usage") or {}
    meta = [f"{_size(step):,} tokens", *lines.usage_words(usage)]
    meta.append(lines.duration_text(int(completion.get("latency_ms") or 0)))
    yield f'<p class="meta">{plain(" · ".join(meta))}</p>'
    message = completion.get("message") or {}
    if content := str(message.get("content") or "").strip():
        yield f'<div class="said">{plain(content)}</div>'
    asked = {call.get("id"): call.get("function") or {} for call in message.get("tool_calls") or []}
    for call in step.calls:
        yield _call(run, call, asked.get(call.get("id")) or {})


def _call(run: RecordedRun, call: Fields, function: Fields) -> str:
    name = str(call.get("name"))
    arguments = str(function.get("arguments") or call.get("arguments") or "")
    if call["type"] != "tool_finished":
        mark, what, took = '<span class="bad">?</span>', f"{name}: no result is recorded", ""
    else:
        ok = bool(call.get("ok"))
        mark = '<span class="good">✓</span>' if ok else '<span class="bad">✗ failed:</span>'
        what = lines.call_words(call)
        took = lines.duration_text(int(call.get("duration_ms") or 0))
    output = (
        call.get("output")
        if call.get("output") is not None
        else _kept(run, call.get("output_file"), _MOST_OUTPUT)
    )
    return (
        f'<details><summary>{mark} {plain(what)} <span class="took">{plain(took)}</span></summary>'
        f"{_arguments(name, arguments)}{_pre(str(output or ''))}</details>"
    )


def _arguments(name: str, arguments: str) -> str:
    """What a call asked for: an edit as a diff, anything else as its arguments."""
    changes = changed_lines(name, arguments)
    if changes:
        return _marked_lines(f"{sign} {line}" for sign, line in changes)
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        return _pre(arguments)
    if isinstance(values, dict) and values.keys() == {"command"}:
        return _pre(f"$ {values['command']}")
    return _pre(json.dumps(values, ensure_ascii=False, indent=1)) if values else ""


def _patch(patch: str) -> str:
    if not patch:
        return "<p>Nothing was changed.</p>"
    shown = patch[:_MOST_PATCH]
    more = (
        f"<p>{len(patch) - len(shown):,} more characters: chimera diff shows all.</p>"
        if shown != patch
        else ""
    )
    return f"{_marked_lines(patch_lines(shown))}{more}"


def _marked_lines(found: Iterable[str]) -> str:
    kinds = {"+": "add", "-": "del", "@": "hunk"}
    marked = [
        f'<span class="{kind}">{plain(line)}</span>' if (kind := kinds.get(line[:1])) else plain(line)
        for line in found
    ]
    return f'<pre tabindex="0">{chr(10).join(marked)}</pre>'


def _kept(run: RecordedRun, name: object, most_bytes: int) -> str:
    """The beginning of a file of the run directory; a name that leads elsewhere is not followed."""
    match = _FILE_NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        return ""
    path = run.path / match[1] / match[2]
    try:
        with path.open("rb") as file:
            content = file.read(most_bytes)
            size = path.stat().st_size
    except OSError:
        return f"[{name} cannot be read]"
    more = f"\n[{size - most_bytes:,} more bytes in {path}]" if size > most_bytes else ""
    return plain_text(content) + more


def _folded(heading: str, content: str) -> str:
    return f"<details><summary>{heading}</summary>{_pre(content)}</details>" if content else ""


def _pre(content: str) -> str:
    return f'<pre tabindex="0">{plain(content)}</pre>' if content else ""
