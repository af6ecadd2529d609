"""Random edits against an independent reading of the rules: no byte outside the span of an edit may change.

    python -m tests.benchmarks.edits --edits 10000

The reference works on pairs of what is shown and what is stored, character by character, and shares no code with the
tool. Files mix line ends, byte order marks, bytes that are no UTF-8, tabs, lone carriage returns and missing last
newlines. The program prints what it did and returns 1 at the first difference.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chimera.tools.base import ToolSet
from chimera.tools.edit import edit_file_tool
from chimera.tools.known_files import KnownFiles
from chimera.workspace.paths import Workspace

BOM = b"\xef\xbb\xbf"
SEED = 20261130
_LETTERS = [
    "a",
    "b",
    "ab",
    " ",
    "  ",
    "\t",
    "€",
    "\U0001f600",
    "x=1",
    "\\1",
    "$&",
    "(",
    "é",
    "e\u0301",
    "\u2028",
    "\x0c",
]
_ODD = [b"\xe9", b"\xc3", b"\xf0\x28", b"\0", b"\r"]
_LINE_ENDS = {"lf": [b"\n"], "crlf": [b"\r\n"], "cr": [b"\r"], "mixed": [b"\n", b"\r\n"]}

Unit = tuple[str, bytes]
"""One character as shown, and how it is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One replacement as a model would ask for it."""

    old: str
    new: str
    every: bool


class DifferenceError(AssertionError):
    """The tool and the rules disagree."""


def units(content: bytes) -> list[Unit]:
    """The text of a file without its byte order mark."""
    content = content.removeprefix(BOM)
    lone_ends = b"\r" in content and b"\n" not in content
    found: list[Unit] = []
    for character in content.decode("utf-8", "surrogateescape"):
        stored = character.encode("utf-8", "surrogateescape")
        if character == "\n" and found and found[-1] == ("\r", b"\r"):
            found[-1] = ("\n", b"\r\n")
        else:
            found.append(("\n", stored) if lone_ends and character == "\r" else (character, stored))
    return found


def shown(text: Sequence[Unit]) -> str:
    """What a reader of the file sees."""
    return "".join(character for character, _ in text)


def stored(text: Sequence[Unit]) -> bytes:
    """The bytes of the file."""
    return b"".join(raw for _, raw in text)


def spans(text: str, edit: Edit) -> list[tuple[int, int]] | None:
    """Where the edit applies; None where it must be refused for being ambiguous. Empty: it is not there."""
    starts = [n for n in range(len(text)) if text.startswith(edit.old, n)]
    if not edit.every:
        return None if len(starts) > 1 else [(n, n + len(edit.old)) for n in starts]
    kept: list[tuple[int, int]] = []
    for start in starts:
        if not kept or start >= kept[-1][1]:
            kept.append((start, start + len(edit.old)))
    return kept


def check(before: bytes, after: bytes, edit: Edit) -> str:
    """Compare one edit with the rules and name its kind.

    Raises:
        DifferenceError: a byte outside the span has changed, or the new text is not what was asked for.
    """
    bom = BOM if before.startswith(BOM) else b""
    text = units(before)
    places = spans(shown(text), edit)
    if places is None:
        return _same(before, after, "ambiguous")
    if not places:
        return _check_tolerant(before, after, edit)
    rest = after
    rest = _taken(rest, bom, "byte order mark")
    done = 0
    for start, end in places:
        rest = _taken(rest, stored(text[done:start]), "text before the span")
        rest = _new_text(rest, text, (start, end), edit.new)
        done = end
    if rest != stored(text[done:]):
        raise DifferenceError(f"the text behind the span is {rest!r}, not {stored(text[done:])!r}")
    return "every" if edit.every else "exact"


def _new_text(rest: bytes, text: list[Unit], span: tuple[int, int], new: str) -> bytes:
    """`rest` without the new text at its beginning, whose line ends must be those of the file."""
    ends = {raw for character, raw in text if character == "\n"} or {b"\n"}
    old = text[span[0] : span[1]]
    head = _common(shown(old), new)
    tail = _common(shown(old)[head:][::-1], new[head:][::-1])
    for n, character in enumerate(new):
        if n < head:
            allowed = [old[n][1]]
        elif n >= len(new) - tail:
            allowed = [old[len(old) - (len(new) - n)][1]]
        elif character == "\n":
            allowed = sorted(ends, key=len, reverse=True)
        else:
            allowed = [character.encode()]
        begun = next((raw for raw in allowed if rest.startswith(raw)), None)
        if begun is None:
            raise DifferenceError(f"{rest[:20]!r} where {allowed} belongs, in the new text {new!r}")
        rest = rest[len(begun) :]
    return rest


def _check_tolerant(before: bytes, after: bytes, edit: Edit) -> str:
    """`old` is not there exactly: either nothing changed, or only the one place that differs in whitespace."""
    if after == before:
        return "not found"
    text = units(before)
    lines = shown(text).split("\n")
    wanted = [" ".join(line.split()) for line in edit.old.removesuffix("\n").split("\n")]
    squashed = [" ".join(line.split()) for line in lines]
    starts = [n for n in range(len(lines)) if squashed[n : n + len(wanted)] == wanted]
    if len(starts) != 1:
        raise DifferenceError(
            f"{edit.old!r} is at {len(starts)} places with whitespace ignored, and was replaced"
        )
    begin = sum(len(line) + 1 for line in lines[: starts[0]])
    end = begin + len("\n".join(lines[starts[0] : starts[0] + len(wanted)]))
    end += edit.old.endswith("\n") and end < len(text)
    bom = BOM if before.startswith(BOM) else b""
    rest = _taken(after, bom + stored(text[:begin]), "text before the lines")
    if not rest.endswith(stored(text[end:])):
        raise DifferenceError(f"the text behind the lines is {rest!r}, not {stored(text[end:])!r}")
    return "whitespace ignored"


def _same(before: bytes, after: bytes, kind: str) -> str:
    if before != after:
        raise DifferenceError(f"an edit that is {kind} changed the file")
    return kind


def _taken(rest: bytes, part: bytes, name: str) -> bytes:
    if not rest.startswith(part):
        raise DifferenceError(f"the {name} is {rest[: len(part)]!r}, not {part!r}")
    return rest[len(part) :]


def _common(one: str, other: str) -> int:
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return length


def random_content(draw: random.Random) -> bytes:
    """A file of a few lines."""
    style = draw.choice(list(_LINE_ENDS))
    lines = []
    for _ in range(draw.randint(1, 9)):
        line = b"".join(draw.choice(_LETTERS).encode() for _ in range(draw.randint(0, 6)))
        if draw.random() < 0.15 and style != "cr":
            line += draw.choice(_ODD) + b"z"
        lines.append(line + draw.choice(_LINE_ENDS[style]))
    content = b"".join(lines)
    if draw.random() < 0.3:
        content = content.rstrip(b"\r\n")
    return (BOM if draw.random() < 0.2 else b"") + content


def random_edit(draw: random.Random, content: bytes) -> Edit | None:
    """An edit of a part of the file, now and then with other whitespace; None where no part can be named."""
    text = shown(units(content))
    for _ in range(20):
        if not text:
            return None
        start = draw.randrange(len(text))
        old = text[start : start + draw.randint(1, 12)]
        if whole := draw.random() < 0.15:
            old = draw.choice(text.split("\n"))
        if not old or "\r" in old or any("\ud800" <= character <= "\udfff" for character in old):
            continue
        if whole or draw.random() < 0.15:
            old = draw.choice([old.replace(" ", "\t"), old.replace("\t", "    "), f"  {old}", old + "\n"])
        new = "".join(draw.choice([*_LETTERS, "\n", "\n"]) for _ in range(draw.randint(0, 5)))
        if draw.random() < 0.5:
            cut = draw.randint(0, len(old))
            new = old[:cut] + new + old[cut:]
        if old != new:
            return Edit(old=old, new=new, every=draw.random() < 0.2)
    return None


def run(edits: int, *, seed: int = SEED) -> Counter[str]:
    """Make so many edits that the tool applies, and count them and those that it refuses by kind.

    Raises:
        DifferenceError: with the file and the edit.
    """
    draw = random.Random(seed)
    kinds: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        workspace = Workspace.open(Path(name))
        while kinds["applied"] < edits:
            path = workspace.root / "f.txt"
            path.write_bytes(random_content(draw))
            tools = ToolSet([edit_file_tool(workspace, KnownFiles())])
            for _ in range(draw.randint(1, 4)):
                kinds.update(_one(draw, tools, path))
    return kinds


def _one(draw: random.Random, tools: ToolSet, path: Path) -> list[str]:
    before = path.read_bytes()
    edit = random_edit(draw, before)
    if edit is None:
        return []
    asked = {"old": edit.old, "new": edit.new, "all": edit.every}
    output = tools.run("edit_file", json.dumps({"path": path.name, "edits": [asked]}))
    after = path.read_bytes()
    try:
        kind = check(before, after, edit)
        if output.ok == (after == before):
            raise DifferenceError(f"the tool says {output.text[:80]!r}")
        if not output.ok and kind in {"exact", "every"}:
            raise DifferenceError(f"refused: {output.text[:200]!r}")
    except DifferenceError as difference:
        raise DifferenceError(f"{difference}\nfile {before!r}\nedit {edit}\nbecame {after!r}") from None
    return [kind, "applied" if output.ok else "refused"]


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edits", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    try:
        kinds = run(options.edits, seed=options.seed)
    except DifferenceError as difference:
        print(difference)
        return 1
    print(", ".join(f"{kind} {count:,}" for kind, count in kinds.most_common()))
    print("bytes changed outside the span of an edit: 0")
    return 0


if __name__ == "__main__":
    sys.exit(main())
