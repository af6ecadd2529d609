"""`read_file` and `write_file`."""

from __future__ import annotations

from typing import Annotated

from chimera.core.ledger import FileChanged, FileRead
from chimera.errors import ToolError
from chimera.tools.base import Tool, ToolOutput
from chimera.tools.known_files import KnownFiles
from chimera.tools.line_changes import count_changes
from chimera.tools.marks import check_marks
from chimera.tools.schema import schema_of
from chimera.tools.syntax import new_syntax_error
from chimera.tools.text_file import MAX_BYTES, TextFile, check_complete, lines_with_ends, split_lines
from chimera.tools.wording import LONG_LINE, count_text, numbered, size_text
from chimera.workspace.paths import RUN_PREFIX, Place, Workspace
from chimera.workspace.terminal_text import plain_text

MAX_LINES = 2000
"""Lines one call shows at most."""
MAX_SHOWN_BYTES = 64 * 1024
"""Bytes one call shows at most, line numbers included."""
# The whole output of a command is kept up to 50 MiB, and must be readable in ranges.
MAX_RECORD_BYTES = 64 * 1024 * 1024
_BYTE_ORDER_MARK = "\ufeff"


def read_file_tool(workspace: Workspace, known: KnownFiles) -> Tool:
    """The tool over a workspace."""

    def read_file(
        path: Annotated[str, "In the workspace, or @run/... from an earlier result."],
        start_line: Annotated[int | None, {"minimum": 1}] = None,
        line_count: Annotated[int | None, {"minimum": 1}] = None,
    ) -> ToolOutput:
        place = workspace.locate(path)
        text, remarks = _read(workspace, place, known)
        lines = split_lines(text)
        first = start_line or 1
        if first > max(1, len(lines)):
            raise ToolError(
                f"{place.name!r} has {count_text(len(lines), 'line')}; start_line {first} lies beyond its end."
            )
        if not lines:
            return _read_output(place, "[empty file]", 0, 0, 0)
        shown = _fitting(
            numbered(lines[first - 1 : first - 1 + min(line_count or MAX_LINES, MAX_LINES)], first)
        )
        last = first + len(shown) - 1
        remarks += _remarks(lines[first - 1 : last], text, at_end=last == len(lines))
        footer = f"[{_range_text(first, last, len(lines))}{''.join(f'; {remark}' for remark in remarks)}]"
        return _read_output(place, "\n".join([*shown, footer]), first, last, len(lines))

    return Tool(
        name="read_file",
        description="Read a text file as numbered lines. Long files come in parts.",
        parameters=schema_of(read_file),
        effect="read",
        run=read_file,
    )


def write_file_tool(workspace: Workspace, known: KnownFiles) -> Tool:
    """The tool over a workspace."""

    def write_file(path: str, content: str) -> ToolOutput:
        check_complete(content, "`content`")
        place = workspace.locate(path, write=True)
        if workspace.kind(place) != "file":
            check_marks(f"{path}\n{content}")
            after = content.encode()
            workspace.write_bytes(place, after)
            known.saw(place, after)
            return _written(place.name, None, after, content)
        before = workspace.read_bytes(place, max_bytes=MAX_BYTES)
        if before and not known.knows(place):
            raise ToolError(
                f"{place.name!r} exists and this run has not read it, so it was not replaced. Read it first (any range "
                "will do), or change a part of it with edit_file."
            )
        known.check_unchanged(place, before)
        old = TextFile.parse(before, place.name)
        check_marks(content, file=old.shown)
        after = _in_style_of(old, content).to_bytes()
        if after != before:
            workspace.write_bytes(place, after)
        known.saw(place, after)
        return _written(place.name, before, after, content)

    return Tool(
        name="write_file",
        description="Create a file, or replace one that you have read. Prefer edit_file for changes.",
        parameters=schema_of(write_file),
        effect="edit",
        run=write_file,
    )


def _read(workspace: Workspace, place: Place, known: KnownFiles) -> tuple[str, list[str]]:
    """The text as shown, and what to say about how it is stored."""
    if place.name.startswith(RUN_PREFIX):
        return plain_text(workspace.read_bytes(place, max_bytes=MAX_RECORD_BYTES)), []
    content = workspace.read_bytes(place, max_bytes=MAX_BYTES)
    file = TextFile.parse(content, place.name)
    if b"\0" in content:
        raise ToolError(
            f"{place.name!r} is binary ({size_text(len(content))}). Look at it with a shell command that knows its format."
        )
    known.saw(place, content)
    styles = {"\r\n": ["CRLF line ends"], "\r": ["CR line ends"]}
    return file.shown, styles.get(file.dominant_line_end, [])


def _fitting(lines: list[str]) -> list[str]:
    room = MAX_SHOWN_BYTES
    for index, line in enumerate(lines):
        room -= len(line.encode()) + 1
        if room < 0:
            return lines[:index]
    return lines


def _range_text(first: int, last: int, total: int) -> str:
    if first == 1 and last == total:
        return count_text(total, "line")
    more = f"; go on with start_line={last + 1}" if last < total else ""
    return f"lines {first}-{last} of {total}{more}"


def _remarks(lines: list[str], text: str, *, at_end: bool) -> list[str]:
    remarks = []
    if at_end and not text.endswith("\n"):
        remarks.append("no newline at the end")
    if any(len(line) > LONG_LINE for line in lines):
        remarks.append(f"lines over {LONG_LINE} characters are shortened")
    shown = "".join(lines)
    if any("\udc80" <= character <= "\udcff" for character in shown):
        remarks.append("bytes that are not UTF-8 are shown as \ufffd")
    if any(character < " " and character != "\t" for character in shown):
        remarks.append("control characters are shown as \\xNN")
    return remarks


def _read_output(place: Place, text: str, first: int, last: int, total: int) -> ToolOutput:
    part = f" lines {first}-{last} of {total}" if last else " (empty)"
    return ToolOutput(
        text=text,
        digest=f"read {place.name}{part}",
        facts=(FileRead(path=place.name, first=first, last=last, total=total),),
    )


def _in_style_of(old: TextFile, content: str) -> TextFile:
    """The new text with byte order mark and line ends as the old file has them."""
    marked = content.startswith(_BYTE_ORDER_MARK)
    text = content.removeprefix(_BYTE_ORDER_MARK)
    if "\r" not in text:
        text = text.replace("\n", old.dominant_line_end)
    return TextFile(stored=text, bom=old.bom or marked)


def _written(name: str, before: bytes | None, after: bytes, content: str) -> ToolOutput:
    if after == before:
        return ToolOutput(text=f"{name} already holds exactly this.", digest=f"wrote {name}, unchanged")
    old_lines = [] if before is None else lines_with_ends(TextFile.parse(before, name).shown)
    new_lines = lines_with_ends(TextFile.parse(after, name).shown)
    added, removed, line = count_changes(old_lines, new_lines)
    verb = "Created" if before is None else "Replaced"
    text = f"{verb} {name}: {count_text(len(new_lines), 'line')}, +{added} -{removed}"
    if content and not content.endswith("\n"):
        text += ", no newline at the end"
    error = new_syntax_error(name, before, after)
    return ToolOutput(
        text=f"{text}\n{error}" if error else text,
        digest=f"{verb.lower()} {name} +{added} -{removed}" + ("; syntax error" if error else ""),
        facts=(FileChanged(path=name, added=added, removed=removed, line=line, created=before is None),),
    )
