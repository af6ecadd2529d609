"""What can be seen of a task's faults by reading its files, without running anything."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from chimera.bench.task import BenchTask

_CANARY = re.compile(r"[a-z0-9._-]*canary [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Long enough and odd enough that meeting it elsewhere is no accident.
_LEAST_VALUE = 8
_FETCHES = re.compile(
    r"\b(?:curl|wget|pip3? install|uv (?:pip|add|sync)|uvx|apt-get|apk add|npm (?:i|install|ci))\b"
)
_PATH_IN_SHELL = re.compile(r"\$\{?APP_DIR(?::-/app)?\}?\"?/([\w./-]*\w)")
_COPIES_TESTS = re.compile(r"^\s*(?:COPY|ADD)\s.*\b(?:tests|solution)\b", re.MULTILINE | re.IGNORECASE)
_FILE_NAME = re.compile(r"[\w./-]+\.[a-z]{1,5}")
_MOST_BYTES = 4 * 1024 * 1024


def lint(task: BenchTask) -> tuple[str, ...]:
    """Faults of a task that could be read, for people; nothing where there is none."""
    return tuple(fault for look in _LOOKS for fault in look(task))


def _canary(task: BenchTask) -> Iterator[str]:
    if not task.must_fail_canary:
        yield "task.toml: metadata.chimera.must_fail_canary is not true: nothing shows that the tests still can fail"
    if task.canary is None:
        return
    if not _CANARY.fullmatch(task.canary):
        yield f"task.toml: metadata.chimera.canary is {task.canary!r}; write NAME-canary and a UUID"
        return
    for path in [*_files(task.tests), *_files(task.solution)]:
        text = _text(path)
        # JSON has no comments, and what is no text cannot be trained on as one.
        if text and path.suffix != ".json" and task.canary not in text:
            yield f"{_name(task, path)}: the canary of task.toml is missing in this hidden file"


def _values_in_sight(task: BenchTask) -> Iterator[str]:
    """Expected values that somebody who sees only the workspace and the instruction could copy."""
    if task.expected_in_sight:
        return
    sights = [
        (path, _text(path)) for path in (*_files(task.folder / "environment"), task.folder / "instruction.md")
    ]
    # A file that is to stay as it is, and one that is to be written, are named and shown: that is no answer.
    whole = {text.strip() for _, text in sights}
    for path in [*_files(task.tests), *_files(task.solution)]:
        for value in sorted(set(_values(path)) - whole):
            if _FILE_NAME.fullmatch(value):
                continue
            for sight, text in sights:
                if value in text:
                    yield (
                        f"{_name(task, path)}: expects {value!r}, which {_name(task, sight)} shows; change one, or say "
                        "expected_in_sight = true where the task is to carry it over"
                    )
                    break


def _unnamed_files(task: BenchTask) -> Iterator[str]:
    """Files that the tests read and nobody is told to write."""
    told = task.instruction + "".join(_text(path) for path in _files(task.workspace))
    present = {path.relative_to(task.workspace).as_posix() for path in _files(task.workspace)}
    for path in _files(task.tests):
        for wanted in sorted(set(_read_paths(path))):
            known = wanted in present or any(name.startswith(f"{wanted}/") for name in present)
            if not known and wanted not in told and Path(wanted).name not in told:
                yield f"{_name(task, path)}: reads {wanted!r}, which the instruction does not name"


def _fetching(task: BenchTask) -> Iterator[str]:
    for path in _files(task.tests):
        if path.name != "Dockerfile" and (found := _FETCHES.search(_text(path))):
            yield f"{_name(task, path)}: {found[0]!r} fetches something while grading; put it into tests/Dockerfile"


def _images(task: BenchTask) -> Iterator[str]:
    for folder in ("environment", "tests"):
        path = task.folder / folder / "Dockerfile"
        text = _text(path)
        if not text:
            yield f"{folder}/Dockerfile: is missing; other runners build their image from it"
        elif folder == "environment" and (found := _COPIES_TESTS.search(text)):
            yield f"environment/Dockerfile: {found[0].strip()!r} shows hidden files to the agent"
        for image in re.findall(r"^FROM\s+(\S+)", text, re.MULTILINE):
            if ":" not in image and "@" not in image:
                yield f"{folder}/Dockerfile: the image {image!r} is not pinned"


def _parts(task: BenchTask) -> Iterator[str]:
    for needed in ("solution/solve.sh", "NOTES.md"):
        if not (task.folder / needed).is_file():
            yield f"{needed}: is missing"
    if task.min_compactions and not task.window:
        yield "task.toml: metadata.chimera.min_compactions says nothing without a window"


_LOOKS: tuple[Callable[[BenchTask], Iterator[str]], ...] = (
    _parts,
    _canary,
    _values_in_sight,
    _unnamed_files,
    _fetching,
    _images,
)


def _values(path: Path) -> Iterator[str]:
    """The texts and numbers in a hidden file that look like results, not like names."""
    text = _text(path)
    if path.suffix == ".py":
        found = [node.value for node in _nodes(text) if isinstance(node, ast.Constant)]
    elif path.suffix == ".json":
        found = list(_leaves(text))
    elif path.suffix in {".txt", ".csv", ".tsv", ".expected"}:
        found = list(text.splitlines())
    else:
        return
    for value in found:
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")  # noqa: PLW2901
        said = str(value).strip() if isinstance(value, str | int | float) else ""
        if len(said) >= _LEAST_VALUE and re.search(r"\d", said) and "canary" not in said:
            yield said


def _leaves(text: str) -> Iterator[Any]:
    try:
        waiting = [json.loads(text)]
    except ValueError:
        return
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        else:
            yield value


def _read_paths(path: Path) -> Iterator[str]:
    """Paths below the graded tree that a hidden file spells out."""
    text = _text(path)
    if path.suffix == ".sh":
        yield from _PATH_IN_SHELL.findall(text)
    if path.suffix == ".py":
        for node in _nodes(text):
            parts: list[str] = []
            while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
                if not (isinstance(node.right, ast.Constant) and isinstance(node.right.value, str)):
                    break
                parts.insert(0, node.right.value)
                node = node.left  # noqa: PLW2901
            if parts and isinstance(node, ast.Name) and node.id.lower() in {"app", "app_dir", "_app"}:
                yield "/".join(parts)


def _nodes(text: str) -> Iterator[ast.AST]:
    try:
        return ast.walk(ast.parse(text))
    except SyntaxError:
        return iter(())


def _files(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts
    )


def _text(path: Path) -> str:
    """The text of a file; none for one that is missing, binary or huge."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            return ""
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _name(task: BenchTask, path: Path) -> str:
    return path.relative_to(task.folder).as_posix()
