"""`search`: finds lines that match a regular expression, or lists files."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from chimera.config import process_environment
from chimera.errors import ToolError
from chimera.tools.base import Tool, ToolOutput
from chimera.tools.ripgrep import Ripgrep
from chimera.tools.schema import schema_of
from chimera.tools.search_walk import Walk
from chimera.tools.searching import Deadline, Hit, Query, Searcher
from chimera.tools.wording import count_text, one_line, size_text
from chimera.workspace.paths import RUN_PREFIX, Workspace
from chimera.workspace.programs import find_program
from chimera.workspace.secret_files import is_secret_file
from chimera.workspace.terminal_text import visible

MAX_RESULTS = 200
"""Matches or files one call shows at most."""
_MAX_COUNTED = 20_000
_MAX_SECONDS = 20.0
_LINE_CHARACTERS = 240
_NAMED_FILES = 5
_TRUSTED_PATH = "/usr/bin:/bin:/usr/local/bin"


def search_tool(workspace: Workspace, *, ripgrep: Path | None = None, use_ripgrep: bool = True) -> Tool:
    """The tool over a workspace.

    Args:
        workspace: what is searched.
        ripgrep: the program; None looks for `rg` on a PATH that the workspace cannot supply.
        use_ripgrep: False searches without it, slower and with the same results.
    """
    walk = Walk(workspace)
    fast: Searcher = walk
    if use_ripgrep and (program := ripgrep or _find_ripgrep(workspace.root)):
        fast = Ripgrep(program, workspace.root)

    def search(
        pattern: Annotated[str | None, "Regular expression; omit to list files."] = None,
        path: Annotated[str | None, "File or folder; also @run/outputs, @run/archive."] = None,
        glob: Annotated[str | None, "Such as *.py"] = None,
    ) -> ToolOutput:
        place = workspace.locate(path or ".")
        kind = workspace.kind(place)
        if kind == "other":
            raise ToolError(
                f"{place.name!r} is neither a file nor a folder, so there is nothing to search in it."
            )
        if kind == "missing":
            raise ToolError(
                f"There is nothing at {place.name!r} to search. List the folder above it with search."
            )
        for text in filter(None, (pattern, glob)):
            _check(text)
        query = Query(pattern=pattern or "", place=place, glob=glob or "")
        searcher = walk if place.name.startswith(RUN_PREFIX) else fast
        with Deadline(_MAX_SECONDS) as deadline:
            if pattern:
                return _matches(query, searcher.hits(query, deadline), deadline)
            return _listing(query, searcher.files(query, deadline), deadline)

    return Tool(
        name="search",
        description="Search file contents (.gitignore respected), or list files with sizes.",
        parameters=schema_of(search),
        effect="read",
        run=search,
    )


def _find_ripgrep(root: Path) -> Path | None:
    inherited = process_environment().get("PATH", "")
    return find_program("rg", f"{_TRUSTED_PATH}:{inherited}", outside=root)


def _check(text: str) -> None:
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ToolError(f"{text[:80]!r} contains a character that cannot be searched for. Leave it out.")


def _matches(query: Query, every: Iterator[Hit], deadline: Deadline) -> ToolOutput:
    withheld: set[str] = set()
    hits = _shown_hits(every, withheld)
    found = list(itertools.islice(hits, MAX_RESULTS))
    files = {hit.name for hit in found}
    rest = 0
    for hit in itertools.islice(hits, _MAX_COUNTED):
        rest += 1
        files.add(hit.name)
    where = _where(query)
    total = count_text(len(found) + rest, "match", "matches")
    if rest == _MAX_COUNTED or (deadline.passed and found):
        total = f"more than {total}"
    lines = [f"{visible(hit.name)}:{hit.line}: {_around(hit)}" for hit in found]
    if withheld:
        names = ", ".join(map(visible, sorted(withheld)[:_NAMED_FILES]))
        lines.append(f"[matches in files that usually hold secrets are not shown: {names}]")
    elif not found and not deadline.passed:
        lines.append(f"No matches for {query.pattern!r}{where}.{_hint(query)}")
    if rest:
        lines.append(
            f"[{total} in {count_text(len(files), 'file')}; the first {MAX_RESULTS} are shown. Narrow the search.]"
        )
    return ToolOutput(
        text="\n".join([*lines, *_timeout(deadline)]),
        digest=f"searched {one_line(repr(query.pattern), 80)}{where}: {total} in {count_text(len(files), 'file')}",
    )


def _shown_hits(hits: Iterator[Hit], withheld: set[str]) -> Iterator[Hit]:
    """The hits but for those in files whose text is not to be shown; the names of these go into `withheld`."""
    for hit in hits:
        if is_secret_file(hit.name):
            withheld.add(hit.name)
        else:
            yield hit


def _listing(query: Query, files: Iterator[tuple[str, int]], deadline: Deadline) -> ToolOutput:
    found = list(itertools.islice(files, MAX_RESULTS))
    rest = sum(1 for _ in itertools.islice(files, _MAX_COUNTED))
    total = count_text(len(found) + rest, "file")
    if rest == _MAX_COUNTED or (deadline.passed and found):
        total = f"more than {total}"
    where = _where(query)
    lines = [f"{visible(name)} ({size_text(size)})" for name, size in found]
    if not found and not deadline.passed:
        lines.append(f"No files{where}.{_hint(query)}")
    if rest:
        lines.append(f"[{total}; the first {MAX_RESULTS} are shown. Narrow the glob or the path.]")
    return ToolOutput(text="\n".join([*lines, *_timeout(deadline)]), digest=f"listed files{where}: {total}")


def _timeout(deadline: Deadline) -> list[str]:
    if not deadline.passed:
        return []
    return [f"[stopped after {deadline.seconds:g} s, so there may be more. Narrow the search.]"]


def _where(query: Query) -> str:
    folder = "" if query.place.name == "." else f" in {visible(query.place.name)}"
    return folder + (f" with glob {query.glob!r}" if query.glob else "")


def _hint(query: Query) -> str:
    if query.place.name.startswith(RUN_PREFIX):
        return ""
    return " Files that .gitignore names are found only if `path` names them."


def _around(hit: Hit) -> str:
    """The line, shortened around the match."""
    text = hit.text
    if len(text) <= _LINE_CHARACTERS:
        return visible(text)
    start = max(0, min(hit.column - _LINE_CHARACTERS // 3, len(text) - _LINE_CHARACTERS))
    end = start + _LINE_CHARACTERS
    return visible(f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}")
