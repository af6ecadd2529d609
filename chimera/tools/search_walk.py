"""Searching without any program: walks the folders, honours .gitignore, matches with Python's `re`."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from chimera.errors import ToolError
from chimera.tools.ripgrep import bad_pattern
from chimera.tools.searching import Deadline, Hit, Query
from chimera.tools.text_file import TextFile
from chimera.workspace.paths import RUN_PREFIX, Place, Workspace
from chimera.workspace.terminal_text import plain_text

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

MAX_FILE_BYTES = 50 * 1024 * 1024
_MAX_IGNORE_BYTES = 1_000_000
_MAX_GLOBS = 100
_BRACES = re.compile(r"\{([^{}]*)\}")

Ignored = Callable[[str], bool | None]
"""Tells of a path relative to the workspace (folders end in `/`) whether rules ignore it; None: no rule speaks of it."""


class Walk:
    """The searcher over a workspace and the run's record."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def hits(self, query: Query, deadline: Deadline) -> Iterator[Hit]:
        try:
            pattern = re.compile(query.pattern)
        except (re.error, RecursionError, OverflowError) as fault:
            raise ToolError(bad_pattern(query.pattern, str(fault))) from fault
        for place in self._places(query, deadline):
            for number, line in enumerate(self._lines(place), 1):
                if deadline.passed:
                    return
                if match := pattern.search(line):
                    yield Hit(name=place.name, line=number, column=match.start(), text=line)

    def files(self, query: Query, deadline: Deadline) -> Iterator[tuple[str, int]]:
        for place in self._places(query, deadline):
            try:
                yield place.name, place.path.lstat().st_size
            except OSError:
                continue

    def _lines(self, place: Place) -> list[str]:
        try:
            content = self._workspace.read_bytes(place, max_bytes=MAX_FILE_BYTES)
            if place.name.startswith(RUN_PREFIX):
                return plain_text(content).split("\n")
            if b"\0" in content:
                return []
            text = TextFile.parse(content, place.name).stored
        except ToolError:
            return []
        lines = text.split("\n")
        return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]

    def _places(self, query: Query, deadline: Deadline) -> Iterator[Place]:
        wanted = _glob_filter(query)
        if self._workspace.kind(query.place) == "file":
            if wanted(query.place.name):
                yield query.place
            return
        record = query.place.name.startswith(RUN_PREFIX)
        rules = [] if record else self._rules_above(query.place)
        prefix = "" if query.place.name == "." else f"{query.place.name}/"
        for path, name in self._walk(query.place.path, prefix, rules, record=record):
            if deadline.passed:
                return
            if wanted(name):
                yield Place(path=path, name=name)

    def _walk(
        self, folder: Path, prefix: str, rules: list[Ignored], *, record: bool
    ) -> Iterator[tuple[Path, str]]:
        """Files below a folder in path order; links are not followed."""
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
        except OSError:
            return
        if not record:
            rules = [*rules, self._rules(folder, prefix)]
        for entry in entries:
            name = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                if record or (entry.name != ".git" and not _is_ignored(f"{name}/", rules)):
                    yield from self._walk(folder / entry.name, f"{name}/", rules, record=record)
            elif entry.is_file(follow_symlinks=False) and (record or not _is_ignored(name, rules)):
                yield folder / entry.name, name

    def _rules_above(self, place: Place) -> list[Ignored]:
        root = self._workspace.root
        rules = [self._spec(root / ".git/info/exclude", "")]
        if place.path != root:
            parts = place.path.relative_to(root).parts
            for depth in range(len(parts)):
                prefix = "".join(f"{part}/" for part in parts[:depth])
                rules.append(self._rules(root.joinpath(*parts[:depth]), prefix))
            if _is_ignored(f"{place.name}/", rules):
                return []  # asked for by name
        return rules

    def _rules(self, folder: Path, prefix: str) -> Ignored:
        return self._spec(folder / ".gitignore", prefix)

    def _spec(self, path: Path, prefix: str) -> Ignored:
        if not path.is_file():
            return _no_rules
        try:
            name = path.relative_to(self._workspace.root).as_posix()
            content = self._workspace.read_bytes(Place(path=path, name=name), max_bytes=_MAX_IGNORE_BYTES)
        except ToolError:
            return _no_rules
        spec = _git_ignore_spec(tuple(content.decode("utf-8", "replace").splitlines()))
        return lambda name: spec.check_file(name.removeprefix(prefix)).include


def _no_rules(_name: str) -> bool | None:
    return None


def _is_ignored(name: str, rules: list[Ignored]) -> bool:
    """The deepest rule file that speaks of a path decides."""
    return next((said for rule in reversed(rules) if (said := rule(name)) is not None), False)


@functools.lru_cache(maxsize=64)
def _git_ignore_spec(lines: tuple[str, ...]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec
    from pathspec.patterns.gitignore import GitIgnorePatternError

    good: list[str] = []
    for line in lines:
        try:
            GitIgnoreSpec.from_lines([line])
        except GitIgnorePatternError:
            continue
        good.append(line)
    return GitIgnoreSpec.from_lines(good)


def _glob_filter(query: Query) -> Callable[[str], bool]:
    globs = query.globs()
    if not globs:
        return lambda _: True
    exclude = globs[0].startswith("!")
    lines = [alternative for glob in globs for alternative in _without_braces(glob.removeprefix("!"))]
    spec = _git_ignore_spec(tuple(lines))
    return lambda name: bool(spec.match_file(name.removeprefix("./"))) != exclude


def _without_braces(glob: str) -> list[str]:
    """The globs that one with alternatives in braces stands for."""
    globs = [glob]
    while len(globs) < _MAX_GLOBS and (match := _BRACES.search(globs[0])):
        head, alternatives = match.group(), match.group(1).split(",")
        globs = [g.replace(head, alternative, 1) for g in globs for alternative in alternatives]
    return globs
