"""A Dockerfile carried out on paper: what it copies and sets, and what it asks for that is not here.

No image is built. One that only copies files, sets variables and installs what is here already is carried out by copying;
whatever it says beyond that is named as lacking, and the task is skipped rather than failed.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePosixPath

from msgspec import Struct, field

from chimera.bench.search_path import search_path

_HARMLESS = {"LABEL", "EXPOSE", "CMD", "MAINTAINER", "SHELL", "STOPSIGNAL", "HEALTHCHECK"}
_SHELLS = {"bash", "/bin/bash", "sh", "/bin/sh"}
_ARCHIVE = re.compile(r".*\.(?:tar|tgz|tbz2?|txz|tar\.(?:gz|bz2|xz|zst))")
_VARIABLE = re.compile(
    r"'[^']*'|\\\$|\$(?:\{(?P<braced>\w+)(?::(?P<sign>[-+])(?P<word>[^}]*))?\}|(?P<bare>\w+))"
)
_PACKAGE = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?(?P<rest>.*)")
_PIP_VALUES = {"-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--timeout", "--retries"}
_PIP_FILES = {"-r", "--requirement", "-c", "--constraint", "-e", "--editable"}
_CLEANED = ("/var/lib/apt/lists", "/var/cache/apt", "/root/.cache", "/tmp/")  # noqa: S108 - of an image
_MADE_BY_RUNNERS = ("/logs", "/tests", "/solution", "/tmp")  # noqa: S108 - of an image
_SYSTEM = {"/usr", "/usr/local", "/etc", "/bin", "/sbin", "/lib", "/dev", "/proc", "/sys", "/var"}


class Replay(Struct, kw_only=True):
    """What a Dockerfile comes to without building an image."""

    workdir: PurePosixPath = field(default_factory=lambda: PurePosixPath("/app"))
    layers: list[tuple[Path, PurePosixPath]] = field(default_factory=list)
    """Files and folders of the task, and where they go in the working directory; later ones over earlier ones."""
    folders: list[PurePosixPath] = field(default_factory=list)
    """Empty folders that are made, in the working directory."""
    variables: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    """What is known only while the image is built."""
    stages: int = 0
    lacks: list[str] = field(default_factory=list)


def replay(dockerfile: Path, *, workdir: str | None = None) -> Replay:
    """Carry out a Dockerfile on paper.

    Args:
        dockerfile: the folder that it lies in is what it copies from.
        workdir: where commands run, whatever the Dockerfile says.
    """
    found = Replay()
    copies: list[tuple[Path, PurePosixPath]] = []
    for number, instruction, rest in _instructions(dockerfile.read_text(encoding="utf-8", errors="replace")):
        if instruction in {"COPY", "ADD"}:
            copies += _copied(_expanded(rest, found), dockerfile.parent, found, number)
            if instruction == "ADD":
                found.lacks += _unpacked(rest, number)
        elif instruction not in _HARMLESS:
            _carry_out(found, number, instruction, rest)
    if workdir is not None:
        found.workdir = PurePosixPath(workdir)
    if str(found.workdir) == "/" or str(found.workdir.parent) in _SYSTEM:
        found.lacks.append(f"the working directory {found.workdir}, which cannot be had beside a system")
    if copies and (dockerfile.parent / ".dockerignore").is_file():
        found.lacks.append("files that are left out of copies (.dockerignore)")
    _place(found, copies)
    return found


def _place(found: Replay, copies: Sequence[tuple[Path, PurePosixPath]]) -> None:
    """Make paths relative to the working directory, and name those outside of it."""
    inside: list[PurePosixPath] = []
    for folder in found.folders:
        if folder.is_relative_to(found.workdir):
            inside.append(folder.relative_to(found.workdir))
        else:
            found.lacks.append(f"a folder outside the working directory {found.workdir}: {folder}")
    found.folders = inside
    for source, target in copies:
        if target.is_relative_to(found.workdir):
            found.layers.append((source, target.relative_to(found.workdir)))
        else:
            found.lacks.append(f"files outside the working directory {found.workdir}: {target}")


def verifier_replay(dockerfile: Path) -> Replay:
    """The image that grades: what it needs, and its variables. The tests lie in `/tests` without it."""
    found = replay(dockerfile, workdir="/tests")
    kinds = ("the working directory", "a folder outside")
    found.lacks = [f"in its grader, {lack}" for lack in found.lacks if not lack.startswith(kinds)]
    return found


def _carry_out(found: Replay, number: int, instruction: str, rest: str) -> None:
    match instruction:
        case "WORKDIR":
            found.workdir = found.workdir / " ".join(_words(_expanded(rest, found)))
        case "ENV":
            found.variables |= _variables(_expanded(rest, found))
        case "ARG":
            name, _, value = _expanded(rest, found).partition("=")
            found.arguments[name.strip()] = " ".join(_words(value))
        case "RUN":
            _run(found, number, rest)
        case _:
            if lack := _lack_of(found, instruction, rest):
                found.lacks.append(f"Dockerfile line {number}: {lack}")


def _lack_of(found: Replay, instruction: str, rest: str) -> str | None:
    """What an instruction that changes no file asks for."""
    match instruction:
        case "FROM":
            found.stages += 1
            return "a build in several stages" if found.stages > 1 else None
        case "USER":
            return None if rest in {"root", "0"} else f"a user of its own ({rest})"
        case "ENTRYPOINT":
            return None if _program(rest) in _SHELLS else f"a program that it starts ({rest})"
        case _:
            return f"{instruction}, which is not carried out here"


def _expanded(text: str, found: Replay) -> str:
    """Text with the variables that are known so far in place of their names."""
    known = {"PATH": search_path(), **found.arguments, **found.variables}

    def value(name: re.Match[str]) -> str:
        if (variable := name["braced"] or name["bare"]) is None:
            return name[0]
        is_set = bool(known.get(variable))
        if name["sign"] == "+":
            return name["word"] if is_set else ""
        return known[variable] if is_set else name["word"] or ""

    return _VARIABLE.sub(value, text)


def _program(rest: str) -> str:
    words = _exec_form(rest) or _words(rest)
    return words[0] if words else "sh"


def _exec_form(rest: str) -> list[str]:
    """The words of `["program", "argument"]`; none if it is not written like that."""
    try:
        words = json.loads(rest) if rest.startswith("[") else []
    except ValueError:
        return []
    return words if isinstance(words, list) and all(isinstance(word, str) for word in words) else []


def _unpacked(rest: str, number: int) -> list[str]:
    *sources, _ = _words(rest) or [""]
    return [
        f"Dockerfile line {number}: unpacking {source}" for source in sources if _ARCHIVE.fullmatch(source)
    ]


def _instructions(text: str) -> Iterator[tuple[int, str, str]]:
    joined, begun = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        begun = begun or number
        joined += line.strip()
        if joined.endswith("\\"):
            joined = joined[:-1].rstrip() + " "
            continue
        instruction, _, rest = joined.partition(" ")
        yield begun, instruction.upper(), rest.strip()
        joined, begun = "", 0


def _variables(rest: str) -> Mapping[str, str]:
    words = _words(rest)
    if words and "=" not in words[0]:
        return {words[0]: " ".join(words[1:])}
    return dict(word.partition("=")[::2] for word in words)


def _copied(rest: str, context: Path, found: Replay, number: int) -> list[tuple[Path, PurePosixPath]]:
    words = _exec_form(rest) or _words(rest)
    words = [word for word in words if not word.startswith(("--chown=", "--link"))]
    if any(word.startswith("--") or "://" in word for word in words) or len(words) < 2:
        found.lacks.append(f"Dockerfile line {number}: a copy from elsewhere ({rest})")
        return []
    *sources, target = words
    copied = []
    for pattern in sources:
        inner = pattern.removeprefix("./").strip("/")
        matched = [context] if inner in {"", "."} else _matched(context, inner)
        for source in matched:
            if not source.exists() or not source.resolve().is_relative_to(context.resolve()):
                found.lacks.append(f"Dockerfile line {number}: {pattern} is not there")
                continue
            into = found.workdir / target
            # A file goes under its name into what is written as a folder; a folder's content always goes into it.
            if source.is_file() and (target.endswith(("/", ".")) or len(sources) > 1):
                into /= source.name
            copied.append((source, PurePosixPath(*(part for part in into.parts if part != "."))))
    return copied


def _matched(context: Path, pattern: str) -> list[Path]:
    try:
        return sorted(context.glob(pattern)) or [context / pattern]
    except (ValueError, NotImplementedError):
        return [context / pattern]


def _run(found: Replay, number: int, rest: str) -> None:
    """Take account of a RUN: make its folders, pass over what is here already, and name all else."""
    for words in _commands(rest):
        while words and re.fullmatch(r"\w+=.*", words[0]):
            words = words[1:]  # noqa: PLW2901
        if _is_done(words):
            continue
        if words[0] == "mkdir" and not any(map(_is_for_shells, words)):
            places = [found.workdir / word for word in words[1:] if not word.startswith("-")]
            found.folders += [place for place in places if not str(place).startswith(_MADE_BY_RUNNERS)]
        elif lack := _lack(words, number):
            found.lacks.append(lack)


def _commands(rest: str) -> list[list[str]]:
    """The commands of a RUN that are run one after the other, in words; what only a shell can do is left in them."""
    if words := _exec_form(rest):
        return [words]
    lexer = shlex.shlex(rest, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    commands: list[list[str]] = [[]]
    try:
        for word in lexer:
            if word in {"&&", ";"}:
                commands.append([])
            else:
                commands[-1].append(word)
    except ValueError:
        return [[rest]]
    return [words for words in commands if words]


def _is_for_shells(word: str) -> bool:
    return "$" in word or "`" in word or bool(re.fullmatch(r"[();<>|&]+", word))


def _is_done(words: Sequence[str]) -> bool:
    """Whether leaving a command out changes nothing here."""
    plain = [word for word in words if not word.startswith("-")]
    match plain:
        case []:
            return True
        case ["apt-get" | "apt", "update" | "clean" | "autoclean" | "autoremove", *rest]:
            return not rest
        case ["rm", *places]:
            return all(place.startswith(_CLEANED) for place in places)
        case ["true" | ":" | "set" | "echo", *rest]:
            return not any(re.fullmatch(r"[();<>|&]+", word) or "`" in word for word in rest)
        case _:
            return False


def _lack(words: Sequence[str], number: int) -> str | None:
    """What a RUN asks for and is not here already."""
    if words[0] in {"python", "python3"} and list(words[1:3]) == ["-m", "pip"]:
        words = words[2:]
    shell = any(map(_is_for_shells, words))
    if list(words[:2]) in (["pip", "install"], ["pip3", "install"]) and not shell:
        missing = [need for need in _wanted_of_pip(words[2:]) if not _is_installed(need)]
        return f"Python packages: {', '.join(missing)}" if missing else None
    if words[0] in {"apt-get", "apt"} and "install" in words and not shell:
        wanted = [word for word in words[words.index("install") + 1 :] if not word.startswith("-")]
        missing = [word for word in wanted if shutil.which(word) is None]
        return f"apt packages: {', '.join(missing)}" if missing else None
    return f"Dockerfile line {number}: RUN {' '.join(words)}"


def _wanted_of_pip(words: Sequence[str]) -> Iterator[str]:
    """What is to be installed; a file that lists it by its name."""
    rest = iter(words)
    for word in rest:
        if word in _PIP_VALUES:
            next(rest, None)
        elif word in _PIP_FILES:
            yield f"those of {next(rest, '')}"
        elif not word.startswith("-"):
            yield word


def _is_installed(requirement: str) -> bool:
    found = _PACKAGE.fullmatch(requirement)
    if found is None:
        return False
    try:
        here = version(found["name"])
    except PackageNotFoundError:
        return False
    rest = found["rest"].replace(" ", "")
    if rest.startswith(">=") and "," not in rest:
        return _numbers(here) >= _numbers(rest[2:])
    return not rest or rest == f"=={here}"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


def _words(text: str) -> Sequence[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
