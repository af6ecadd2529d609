"""What compaction puts back, written by code: plan and task list, last verification, the file being edited, the note.

Each part is rendered within a cap in tokens. The block can not be forged from inside: its frame stands alone on a
line, and every line of file, plan or command text in it carries a prefix (a line number or a dash).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from chimera.core.ledger import FileRead, Ledger, Verification
from chimera.core.plan import Plan, Task
from chimera.core.tokens import TokenCounter

FRAME_OPEN = "<chimera-state>"
FRAME_CLOSE = "</chimera-state>"
T = TypeVar("T")
_MARKS = {"done": "done", "doing": "doing now", "todo": "next", "dropped": "dropped"}
_LINE_CHARACTERS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedFile:
    """The file being edited as it is on disk at this moment."""

    path: str
    text: str = ""
    problem: str = ""
    """Instead of text: deleted, binary, too large."""
    line: int = 1
    """Where the last edit was; the region around it is shown."""
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What the caller got from the stores and the disk for one compaction."""

    plan: Plan
    ledger: Ledger
    file: EditedFile | None
    archive: str
    """Name under which the text that this compaction takes out can be read afterwards."""
    earlier_archives: int = 0
    """How many archives there are already."""
    follow_up: str = ""
    """The newest message of the user after the task, verbatim; empty where the task is all they said."""
    summary: str = ""
    """What a model wrote about the turns that go; empty without `--compaction summary`."""


def frame(parts: Mapping[str, str]) -> str:
    """The block that follows the task. A part named `follow_up` is the user's own text and stands before it."""
    pinned = f"The newest message of the user:\n{parts['follow_up']}\n\n" if parts.get("follow_up") else ""
    body = "\n\n".join(text for name, text in parts.items() if text and name != "follow_up")
    head = "Earlier turns were taken out to save room. What follows is true now."
    return f"{pinned}{FRAME_OPEN}\n{head}\n\n{body}\n{FRAME_CLOSE}"


def render_plan(plan: Plan, verification: Verification | None, cap: int, counter: TokenCounter) -> str:
    """Plan text and task list, decided and in progress, so that a restored plan is not taken for a new request.

    Open tasks come first where not all fit; what is left out is counted. The list itself never goes missing silently.
    """
    lines: list[str] = []
    if verification is not None:
        verdict = "passed" if verification.passed else f"failed: {_short(verification.error)}"
        lines.append(f"Last verification (`{_short(verification.command)}`): {verdict}")
    if plan.tasks:
        lines.append("Task list, as decided before (continue, do not plan again):")
        lines += _task_lines(plan, cap - counter.text("\n".join(lines)), counter)
    if plan.text:
        head = "Plan, as decided before:"
        room = cap - counter.text("\n".join([*lines, head]))
        text = _within(
            _dashed(plan.text), room, counter, left_out="- (the rest of the plan text is left out)"
        )
        lines += [head, *text] if text else []
    return "\n".join(lines)


def render_file(file: EditedFile | None, cap: int, counter: TokenCounter) -> str:
    """The region around the last edit, numbered, as large as the cap allows."""
    if file is None:
        return ""
    if file.problem:
        return f"File being edited: {file.path} ({file.problem})"
    lines = file.text.splitlines()
    first, last = _region(lines, file.line, cap, counter)
    if last < first:
        return f"File being edited: {file.path} ({len(lines)} lines; read it again before editing)"
    head = f"File being edited: {file.path}, lines {first}-{last} of {len(lines)}, read from disk just now (sha256 {file.sha256[:12]})"
    return "\n".join([head, *(_numbered(lines, number) for number in range(first, last + 1))])


def render_note(restored: Restored, cap: int, counter: TokenCounter, shown: Sequence[FileRead] = ()) -> str:
    """What stands for the turns that are gone: facts from the ledger, and where the full text is.

    Order: files changed, open errors, commands, files read, each newest first. What does not fit is counted. Of the
    files read only what is no longer `shown` elsewhere in the prompt is listed.
    """
    ledger = restored.ledger
    gone = ledger.no_longer_shown(shown)
    archives = restored.earlier_archives + 1
    where = restored.archive if archives == 1 else f"{archives} files up to {restored.archive}"
    head = f"Earlier turns in full: {where} (read_file; search with path @run/archive)."
    sections: list[tuple[str, list[str]]] = [
        ("changed", [f"- changed {p}: +{t.added} -{t.removed}{' (new file)' if t.created else ''}" for p, t in _newest(ledger.changed)]),
        ("open errors", [f"- fails: `{_short(c)}` exit {_code(t.exit_code)}: {_short(t.error)}" for c, t in _newest(ledger.open_errors())]),
        ("commands", [f"- ran `{_short(c)}`: exit 0{_times(t.times)}" for c, t in _newest(ledger.commands) if t.exit_code == 0]),
        ("files read", [f"- read {p} lines {', '.join(f'{a}-{b}' for a, b in r)} (not shown any more)" for p, r in _newest(gone)]),
    ]  # fmt: skip
    lines, left_out = [head], []
    room = (
        cap
        - counter.text(head)
        - counter.text(", ".join(f"{len(rows)} {name}" for name, rows in sections))
        - 8
    )
    for name, rows in sections:
        fitting, room = _fill(rows, room, counter)
        lines += fitting
        if len(fitting) < len(rows):
            left_out.append(f"{len(rows) - len(fitting)} {name}")
    if left_out:
        lines.append(f"Not shown: {', '.join(left_out)}.")
    return "\n".join(lines)


def render_summary(summary: str) -> str:
    """The model's own notes, marked as such, each line prefixed."""
    if not summary:
        return ""
    return "\n".join(["Your notes on earlier turns:", *_dashed(summary)])


def _task_lines(plan: Plan, cap: int, counter: TokenCounter) -> list[str]:
    """Tasks in list order; where not all fit the open ones win, and the others are counted."""
    important = [
        *plan.with_status("doing"),
        *plan.with_status("todo"),
        *reversed(plan.with_status("done", "dropped")),
    ]
    keep: set[int] = set()
    room = cap - counter.text("- (and 000 more: 000 done, 000 next)")
    for task in important:
        room -= counter.text(_task_line(task)) + 1
        if room < 0:
            break
        keep.add(id(task))
    lines = [_task_line(task) for task in plan.tasks if id(task) in keep]
    if rest := [task for task in plan.tasks if id(task) not in keep]:
        counts = {status: sum(task.status == status for task in rest) for status in _MARKS}
        lines.append(
            f"- (and {len(rest)} more: {', '.join(f'{n} {_MARKS[s]}' for s, n in counts.items() if n)})"
        )
    return lines


def _task_line(task: Task) -> str:
    return f"- [{_MARKS[task.status]}] {' '.join(task.title.split())}"


def _dashed(text: str) -> list[str]:
    return [f"- {line}" for line in text.splitlines() if line.strip()]


def _within(lines: list[str], cap: int, counter: TokenCounter, *, left_out: str) -> list[str]:
    fitting, _ = _fill(lines, cap - counter.text(left_out) - 1, counter)
    return fitting if len(fitting) == len(lines) else [*fitting, left_out]


def _fill(lines: list[str], room: int, counter: TokenCounter) -> tuple[list[str], int]:
    """The lines that fit one after the other, and the room left."""
    fitting: list[str] = []
    for line in lines:
        cost = counter.text(line) + 1
        if cost > room:
            break
        room -= cost
        fitting.append(line)
    return fitting, room


def _region(lines: list[str], around: int, cap: int, counter: TokenCounter) -> tuple[int, int]:
    """First and last line number of the largest region around a line that fits; empty where not even one does."""
    room = cap - 40  # the heading
    around = min(max(around, 1), max(len(lines), 1))
    first, last = around, around - 1
    for number in _outwards(around, len(lines)):
        cost = counter.text(_numbered(lines, number)) + 1
        if cost > room:
            break
        room -= cost
        first, last = min(first, number), max(last, number)
    return first, last


def _outwards(around: int, count: int) -> Iterator[int]:
    for distance in range(count + 1):
        if around + distance <= count:
            yield around + distance
        if distance and around - distance >= 1:
            yield around - distance


def _numbered(lines: list[str], number: int) -> str:
    return f"{number}\t{lines[number - 1]}"


def _newest(entries: dict[str, T]) -> list[tuple[str, T]]:
    return list(reversed(entries.items()))


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _LINE_CHARACTERS else flat[: _LINE_CHARACTERS - 1] + "…"


def _code(exit_code: int | None) -> str:
    return "none (killed)" if exit_code is None else str(exit_code)


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""
