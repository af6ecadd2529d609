"""What compaction puts back, written by code: plan and task list, last verification, the file being edited, the note.

Each part is rendered within a cap in tokens. The block can not be forged from inside: its frame stands alone on a
line, and every line of file, plan or command text in it carries a prefix (a line number or a dash).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from msgspec import Struct

from chimera.core.ledger import ChangeTotal, FileRead, Ledger, Verification
from chimera.core.outputs import one_line
from chimera.core.plan import Plan
from chimera.core.tokens import TokenCounter
from chimera.tools.text_file import split_lines
from chimera.tools.wording import numbered

FRAME_OPEN = "<chimera-state>"
FRAME_CLOSE = "</chimera-state>"
T = TypeVar("T")
_MARKS = {"done": "done", "doing": "doing now", "todo": "next", "dropped": "dropped"}
_LINE_CHARACTERS = 160
# Of the room for files changed, or read, where not each of them gets a line of its own: for those that do.
_WHOLE_LINES_SHARE = 0.4
# What "Not shown: 000 changed" may take, and the line ends.
_MORE_CHANGES_TOKENS = 8


class EditedFile(Struct, frozen=True, kw_only=True):
    """The file being edited as it is on disk at this moment."""

    path: str
    text: str = ""
    problem: str = ""
    """Instead of text: deleted, binary, too large."""
    content: bytes | None = None
    """Its bytes, where there is text."""
    line: int = 1
    """Where the last edit was; the region around it is shown."""
    sha256: str = ""


class Restored(Struct, frozen=True, kw_only=True):
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

    Open tasks come first where not all fit; what is left out is counted. The list never goes missing silently.
    """
    room = cap
    lines: list[str] = []
    if verification is not None:
        verdict = "passed" if verification.passed else f"failed: {_short(verification.error)}"
        fitting, room = _fill(
            [f"Last verification (`{_short(verification.command)}`): {verdict}"], room, counter
        )
        lines += fitting
    if plan.tasks:
        head, room = _fill(["Task list, as decided before (continue, do not plan again):"], room, counter)
        tasks, room = _task_lines(plan, room, counter) if head else ([], room)
        lines += [*head, *tasks]
    if plan.text:
        head, room = _fill(["Plan, as decided before:"], room, counter)
        text = _within(_dashed(plan.text), room, counter) if head else []
        lines += [*head, *text] if text else []
    return "\n".join(lines)


def render_file(file: EditedFile | None, cap: int, counter: TokenCounter) -> str:
    """The region around the last edit, numbered as `read_file` numbers it, as large as the cap allows."""
    if file is None:
        return ""
    if file.problem:
        text = f"File being edited: {_short(file.path)} ({_short(file.problem)})"
        return text if counter.text(text) <= cap else ""
    lines = split_lines(file.text)
    head = f"File being edited: {_short(file.path)}, lines {{}}-{{}} of {len(lines)}, read from disk just now (sha256 {file.sha256[:12]})"
    first, last = _region(lines, file.line, cap - counter.text(head) - 8, counter)
    if last < first:
        text = f"File being edited: {_short(file.path)} ({len(lines)} lines; read it again before editing)"
        return text if counter.text(text) <= cap else ""
    return "\n".join([head.format(first, last), *numbered(lines[first - 1 : last], first)])


def shows_whole(text: str, file: EditedFile) -> bool:
    """Whether a rendered file is all there is of it."""
    count = len(split_lines(file.text))
    return f", lines 1-{count} of {count}, read from disk" in text.partition("\n")[0]


def render_note(restored: Restored, cap: int, counter: TokenCounter, shown: Sequence[FileRead] = ()) -> str:
    """What stands for the turns that are gone: facts from the ledger, and where the full text is.

    Order: files changed, open errors, commands, files read, each newest first. Where the files changed, or read, do not
    all fit line by line, the older ones are listed by name. What does not fit is counted. Of the files read only what is
    no longer `shown` elsewhere in the prompt is listed.
    """
    ledger = restored.ledger
    gone = ledger.no_longer_shown(shown)
    open_errors = ledger.open_errors()
    archives = restored.earlier_archives + 1
    where = restored.archive if archives == 1 else f"{archives} files up to {restored.archive}"
    head = f"Earlier turns in full: {where} (read_file; search with path @run/archive, and @run/outputs for what was cut)."
    sections = [
        ("open errors", len(open_errors), (f"- fails: `{_short(c)}` exit {_code(t.exit_code)}: {_short(t.error)}" for c, t in _newest(open_errors))),
        ("commands", len(ledger.commands) - len(open_errors), (f"- ran `{_short(c)}`: exit 0{_times(t.times)}" for c, t in _newest(ledger.commands) if t.exit_code == 0)),
    ]  # fmt: skip
    counts = [*((n, name) for name, n, _ in sections), (len(gone), "files read")]
    room = (
        cap
        - counter.text(head)
        - counter.text("Not shown: " + ", ".join(f"{n} {name}" for n, name in counts))
        - _MORE_CHANGES_TOKENS
    )
    if room < 0:
        return head if counter.text(head) <= cap else ""
    changes, missing, room = _files("changed", ledger.changed, _change, room, counter)
    lines, left_out = [head, *changes], [f"{missing} changed"] if missing else []
    for name, count, rows in sections:
        fitting, room = _fill(rows, room, counter)
        lines += fitting
        if len(fitting) < count:
            left_out.append(f"{count - len(fitting)} {name}")
    reads, missing, room = _files("read", gone, _read, room, counter)
    lines += reads
    left_out += [f"{missing} files read"] if missing else []
    if left_out:
        lines.append(f"Not shown: {', '.join(left_out)}.")
    return "\n".join(lines)


def _change(path: str, total: ChangeTotal) -> str:
    return (
        f"- changed {_short(path)}: +{total.added} -{total.removed}{' (new file)' if total.created else ''}"
    )


def _read(path: str, ranges: Iterable[tuple[int, int]]) -> str:
    return f"- read {_short(path)} lines {_ranges(ranges)} (not shown any more)"


def _files(
    verb: str, files: Mapping[str, T], row: Callable[[str, T], str], room: int, counter: TokenCounter
) -> tuple[list[str], int, int]:
    """A line for each file, the newest first; where they do not fit, for the newest, and the others' names by folder.

    Returns:
        The lines, how many files are not in them, and the room left.
    """
    rows = [row(path, value) for path, value in _newest(files)]
    whole, left = _fill(rows, room, counter)
    if len(whole) == len(rows):
        return whole, 0, left
    whole, left = _fill(rows, int(room * _WHOLE_LINES_SHARE), counter)
    left += room - int(room * _WHOLE_LINES_SHARE)
    folders: dict[str, list[str]] = {}
    shown = len(whole)
    for path, _ in islice(_newest(files), shown, None):
        folder, _, name = _short(path).rpartition("/")
        head = "" if folder in folders else f"- also {verb} in {folder or '.'}:"
        left -= counter.text(f"{head} {name},") + 1
        if left < 0:
            break
        folders.setdefault(folder, []).append(name)
        shown += 1
    more = [f"- also {verb} in {folder or '.'}: {', '.join(names)}" for folder, names in folders.items()]
    return [*whole, *more], len(rows) - shown, max(0, left)


def render_summary(summary: str) -> str:
    """The model's own notes, marked as such, each line prefixed."""
    if not summary:
        return ""
    return "\n".join(["Your notes on earlier turns:", *_dashed(summary)])


def _task_lines(plan: Plan, cap: int, counter: TokenCounter) -> tuple[list[str], int]:
    """Tasks in list order; where not all fit the open ones win, and the others are counted. And the room left."""
    rows = [(task, f"- [{_MARKS[task.status]}] {_short(task.title)}") for task in plan.tasks]
    rank = {"doing": 0, "todo": 1, "done": 2, "dropped": 2}
    order = sorted(
        range(len(rows)), key=lambda n: (rank[rows[n][0].status], -n if rank[rows[n][0].status] == 2 else n)
    )
    room = cap - counter.text("- (and 0000 more: 0000 done, 0000 doing now, 0000 next, 0000 dropped)")
    keep: set[int] = set()
    for n in order:
        cost = counter.text(rows[n][1]) + 1
        if cost <= room:
            room -= cost
            keep.add(n)
    lines = [row for n, (_, row) in enumerate(rows) if n in keep]
    if rest := [task for n, (task, _) in enumerate(rows) if n not in keep]:
        counts = {mark: sum(task.status == status for task in rest) for status, mark in _MARKS.items()}
        lines.append(
            f"- (and {len(rest)} more: {', '.join(f'{n} {mark}' for mark, n in counts.items() if n)})"
        )
    return lines, room


def _dashed(text: str) -> list[str]:
    return [f"- {line}" for line in text.splitlines() if line.strip()]


def _within(lines: list[str], cap: int, counter: TokenCounter) -> list[str]:
    fitting, room = _fill(lines, cap, counter)
    if len(fitting) == len(lines):
        return fitting
    rest = "- (the rest of the plan text is left out)"
    while fitting and counter.text(rest) > room:
        room += counter.text(fitting.pop()) + 1
    return [*fitting, rest] if fitting else []


def _fill(lines: Iterable[str], room: int, counter: TokenCounter) -> tuple[list[str], int]:
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
    room = cap
    around = min(max(around, 1), max(len(lines), 1))
    first, last = around, around - 1
    for number in _outwards(around, len(lines)):
        cost = counter.text(numbered([lines[number - 1]], number)[0]) + 1
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


def _newest(entries: Mapping[str, T]) -> Iterator[tuple[str, T]]:
    return reversed(dict(entries).items())


def _ranges(ranges: Iterable[tuple[int, int]]) -> str:
    return ", ".join(f"{low}-{high}" for low, high in ranges)


def _short(text: str) -> str:
    return one_line(text, _LINE_CHARACTERS)


def _code(exit_code: int | None) -> str:
    return "none (killed)" if exit_code is None else str(exit_code)


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""
