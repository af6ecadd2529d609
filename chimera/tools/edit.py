"""`edit_file`: replaces exact text in a file."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Annotated, NotRequired, TypedDict

from msgspec import Struct, field

from chimera.core.ledger import FileChanged
from chimera.errors import ToolError
from chimera.tools.base import Tool, ToolOutput
from chimera.tools.known_files import KnownFiles
from chimera.tools.line_changes import count_changes
from chimera.tools.marks import check_marks, check_matched
from chimera.tools.matching import (
    Match,
    exact_spans,
    has_line_numbers,
    line_numbers,
    near_misses,
    tolerant_match,
)
from chimera.tools.schema import schema_of
from chimera.tools.syntax import new_syntax_error
from chimera.tools.text_file import MAX_BYTES, TextFile, check_complete, lines_with_ends, split_lines
from chimera.tools.wording import count_text, numbered
from chimera.workspace.paths import Workspace

_SHOWN_PLACES = 10
_CONTEXT_LINES = 3
_SHOWN_LINES = 60


class Edit(TypedDict):
    """One replacement."""

    old: Annotated[str, "Text as in the file, without line numbers; must occur once.", {"minLength": 1}]
    new: str
    all: NotRequired[Annotated[bool, "Replace every occurrence instead."]]


def edit_file_tool(workspace: Workspace, known: KnownFiles) -> Tool:
    """The tool over a workspace."""

    def edit_file(path: str, edits: Annotated[list[Edit], {"minItems": 1}]) -> ToolOutput:
        place = workspace.locate(path, write=True)
        content = workspace.read_bytes(place, max_bytes=MAX_BYTES)
        known.check_unchanged(place, content)
        before = TextFile.parse(content, place.name)
        draft = _Draft(file=before)
        for index, edit in enumerate(edits):
            try:
                draft.apply(edit, on_disk=before.shown)
            except ToolError as error:
                shown = _shown_instead(before) if not known.knows(place) else ""
                if shown:
                    known.saw(place, content)
                raise ToolError(
                    f"edits[{index}] of {place.name!r}: {error} Nothing was changed.{shown}"
                ) from error
        after = draft.file.to_bytes()
        if after == content:
            raise ToolError(f"The edits leave {place.name!r} as it is. Nothing was changed.")
        workspace.write_bytes(place, after)
        known.saw(place, after)
        return _output(place.name, before, draft, new_syntax_error(place.name, content, after))

    return Tool(
        name="edit_file",
        description="Change parts of a file. Edits apply in order, all or none; no need to read the file first.",
        parameters=schema_of(edit_file),
        effect="edit",
        run=edit_file,
    )


class _Draft(Struct):
    """A file while edits are applied to it."""

    file: TextFile
    changed: list[tuple[int, int]] = field(default_factory=list)
    """Spans of the shown text that hold what was put in, in the order of the edits."""
    remarks: list[str] = field(default_factory=list)

    def apply(self, edit: Edit, *, on_disk: str) -> None:
        """Apply one edit.

        Args:
            edit: what to replace by what.
            on_disk: what the file holds before the first edit.

        Raises:
            ToolError: it does not fit the file, or does nothing.
        """
        old, new, every = edit["old"], edit["new"], edit.get("all", False)
        check_complete(old, "`old`")
        check_complete(new, "`new`")
        check_matched(old, file=self.file.shown)
        check_marks(new, file=on_disk, instead_of=old)
        if old == new:
            raise ToolError(
                "`old` and `new` are the same. Put the wrong text into `old` and what it should be into `new`."
            )
        if "\r" in old and self._apply_stored(old, new, every=every):
            return
        old = old.replace("\r\n", "\n")
        spans = exact_spans(self.file.shown, old)
        if not spans:
            match = self._tolerant(old, new)
            self.remarks.append(match.remark)
            self._replace([(match.start, match.end)], match.new)
            return
        if not every:
            self._require_one(self.file.shown, old)
        self._replace(spans, new)

    def _apply_stored(self, old: str, new: str, *, every: bool) -> bool:
        """Apply an edit that spells out carriage returns to the text as stored; False if `old` is not there."""
        spans = exact_spans(self.file.stored, old)
        if not spans:
            return False
        if not every:
            self._require_one(self.file.stored, old)
        start = len(TextFile(stored=self.file.stored[: spans[0][0]]).shown)
        self.file = TextFile(stored=self.file.stored.replace(old, new), bom=self.file.bom)
        self.changed.append((start, start + len(new)))
        return True

    def _require_one(self, text: str, old: str) -> None:
        spans = exact_spans(text, old, limit=_SHOWN_PLACES + 1)
        if len(spans) < 2:
            return
        numbers = line_numbers(text, [start for start, _ in spans[:_SHOWN_PLACES]])
        often, more = str(len(spans)), ""
        if len(spans) > _SHOWN_PLACES:
            often, more = f"more than {_SHOWN_PLACES}", ", ..."
        raise ToolError(
            f"`old` is there {often} times, at lines {', '.join(map(str, numbers))}{more}. Add neighbouring lines to "
            "`old` until it is unique, or set `all`."
        )

    def _tolerant(self, old: str, new: str) -> Match:
        match = tolerant_match(self.file.shown, old, new.replace("\r\n", "\n"))
        if isinstance(match, Match):
            return match
        if has_line_numbers(old):
            raise ToolError(
                "`old` was not found: it holds line numbers of read_file. Leave number and tab out."
            )
        near = near_misses(self.file.shown, old)
        hint = (
            f"The nearest is:\n{near}\n"
            if near
            else "Nothing in the file resembles it; read the file first. "
        )
        reason = f"{match.reason} " if match.reason else ""
        raise ToolError(f"`old` was not found. {reason}{hint}")

    def _replace(self, spans: Sequence[tuple[int, int]], new: str) -> None:
        before = len(self.file.shown)
        self.file = self.file.replaced(spans, new)
        growth = (len(self.file.shown) - before) // len(spans)
        self.changed = [
            (start + growth * shift, end + growth * shift)
            for start, end in self.changed
            for shift in [bisect_right([span_end for _, span_end in spans], start)]
        ]
        self.changed += [
            (start + growth * n, end + growth * (n + 1))
            for n, (start, end) in enumerate(spans[:_SHOWN_LINES])
        ]


def _shown_instead(file: TextFile) -> str:
    """A short file for a model that edits without having read it: it guessed, and a second guess is no better."""
    lines = split_lines(file.shown)
    if len(lines) > _SHOWN_LINES:
        return ""
    return "\nThe file holds:\n" + "\n".join(numbered(lines, 1))


def _output(name: str, before: TextFile, draft: _Draft, syntax_error: str) -> ToolOutput:
    added, removed, _ = count_changes(lines_with_ends(before.shown), lines_with_ends(draft.file.shown))
    line = line_numbers(draft.file.shown, [draft.changed[-1][0]])[0]
    remarks = [*draft.remarks, *([syntax_error] if syntax_error else [])]
    return ToolOutput(
        text="\n".join([f"Edited {name}: +{added} -{removed}", *remarks, *_excerpt(draft)]),
        digest=f"edited {name} +{added} -{removed} at line {line}"
        + ("; syntax error" if syntax_error else ""),
        facts=(FileChanged(path=name, added=added, removed=removed, line=line),),
    )


def _excerpt(draft: _Draft) -> list[str]:
    """The changed places with some lines around them."""
    shown = draft.file.shown
    lines = split_lines(shown)
    wanted: set[int] = set()
    starts = line_numbers(shown, [start for start, _ in draft.changed])
    ends = line_numbers(shown, [max(start, end - 1) for start, end in draft.changed])
    for first, last in zip(starts, ends, strict=True):
        wanted |= set(range(first - _CONTEXT_LINES, min(last, first + _SHOWN_LINES) + _CONTEXT_LINES + 1))
    numbers = sorted(number for number in wanted if 1 <= number <= len(lines))
    excerpt: list[str] = []
    for index, number in enumerate(numbers[:_SHOWN_LINES]):
        if index and number > numbers[index - 1] + 1:
            excerpt.append("...")
        excerpt += numbered([lines[number - 1]], number)
    if len(numbers) > _SHOWN_LINES:
        excerpt.append(f"[{count_text(len(numbers) - _SHOWN_LINES, 'more line')} around the changes]")
    return excerpt
