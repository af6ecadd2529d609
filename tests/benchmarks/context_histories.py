"""Histories for the context benchmark: generated ones with planted facts, and one recorded with real tools."""

from __future__ import annotations

import json
import random
import shutil
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import chimera
from chimera import prompts
from chimera.cli.advertised import advertised_tools
from chimera.config import Config
from chimera.core.ledger import CommandRun, Fact, FileRead
from chimera.core.messages import Message, ToolCall, assistant
from chimera.core.outputs import ToolOutput
from chimera.core.protocol import NATIVE
from chimera.replay import Recording, read_recording
from chimera.testing import Reply, ScriptedModel, call, calls, text

ROOT = Path(chimera.__file__).parent
TASK = "Count the gulls in every log of this repository.\nRules: never touch `calc.py`; always run the tests; only Python."
Place = Literal["read", "command", "reply"]
_MODULES = (
    "argparse", "ast", "bdb", "calendar", "configparser", "csv", "dataclasses", "difflib", "doctest", "ftplib",
    "inspect", "json/decoder", "mailbox", "optparse", "pdb", "pickle", "shutil", "smtplib", "subprocess", "tarfile",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A fact that a step brought to light."""

    text: str
    step: int
    place: Place
    path: str | None = None
    """The file that still holds it, where it was read from one."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One reply and what its calls came to, before anything is cut."""

    message: Message
    outputs: tuple[ToolOutput, ...]


@dataclass(frozen=True, kw_only=True)
class History:
    """A run as it would be without any context management."""

    name: str
    system: str
    tools: tuple[dict[str, Any], ...]
    task: str
    steps: tuple[Step, ...]
    facts: tuple[Planted, ...]


FAMILIES: tuple[Callable[[int], str], ...] = (
    lambda n: f"the settings live in /srv/gulls-{n}/etc/colony.toml",
    lambda n: f"listening on 10.0.{n % 250}.7:{20_000 + n}",
    lambda n: f"FAILED tests/test_colony_{n}.py::test_gull_{n}_is_counted_twice",
    lambda n: f"object {n * 2_654_435_761 % 2**64:016x} is the last good build",
    lambda n: f"GULL-{n}: quota of the colony exceeded",
    lambda n: f"the keeper of ward {n} says the heron sleeps by the north pond",
)
"""Paths, addresses, test names, hashes, error codes, prose."""


def source_chunks(size: int, seed: int) -> Iterator[str]:
    """Real source text, numbered as the file tool shows it, in pieces of about so many bytes.

    Of Python's own library, so that the histories do not change with this package.
    """
    files = [Path(sysconfig.get_path("stdlib"), f"{name}.py") for name in _MODULES]
    random.Random(seed).shuffle(files)
    while True:
        for file in files:
            lines = [
                f"{n}\t{line}" for n, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
            ]
            piece: list[str] = []
            for line in lines:
                piece.append(line)
                if sum(map(len, piece)) >= size:
                    yield "\n".join(piece)[:size]
                    piece = []


def log_text(size: int, rng: random.Random) -> str:
    """A log of a test run: times, levels, names, numbers."""
    lines: list[str] = []
    length = 0
    while length < size:
        level = rng.choice(["DEBUG", "INFO", "INFO", "INFO", "WARNING", "ERROR"])
        line = (
            f"2026-03-{rng.randrange(1, 29):02} {rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02},"
            f"{rng.randrange(1000):03} {level:<7} colony.{rng.choice(['count', 'wings', 'tide', 'nest'])}: batch "
            f"{rng.randrange(10**6)} took {rng.randrange(9000)} ms ({rng.randrange(100)} % of quota)"
        )
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines)[:size]


def digits_text(size: int, rng: random.Random) -> str:
    """Dense random digits: what tokenises worst among the texts that tools print."""
    return "".join(rng.choices("0123456789", k=size))


def generated(
    name: str,
    *,
    steps: int,
    size: int,
    texts: Literal["realistic", "digits"],
    width: tuple[int, int] = (1, 1),
) -> History:
    """A history of so many steps with results of about `size` bytes each, and a fact in every third step."""
    rng = random.Random(name)
    chunks = source_chunks(size, len(name))
    made, facts = [], []
    for number in range(steps):
        fact = (
            FAMILIES[number // 3 % len(FAMILIES)](rng.randrange(1_000, 99_999)) if number % 3 == 0 else None
        )
        place: Place = rng.choice(["read", "read", "command", "command", "reply"])
        if texts == "digits" and place == "read":
            place = "command"
        calls_made, outputs = [], []
        count = rng.randint(*width)
        for n in range(count):
            reading = texts == "realistic" and (place == "read" if n == 0 else rng.random() < 0.5)
            path = f"src/part_{number}_{n}.py"
            content = (
                next(chunks) if reading else (log_text if texts == "realistic" else digits_text)(size, rng)
            )
            if fact and n == 0 and place != "reply":
                content = _planted(content, fact, rng)
                facts.append(Planted(text=fact, step=number, place=place, path=path if reading else None))
            call_id = f"call_{number}_{n}"
            if reading:
                calls_made.append(
                    ToolCall(id=call_id, name="read_file", arguments=json.dumps({"path": path}))
                )
                outputs.append(_read(path, content))
            else:
                command = f"python -m colony.count --ward {number} --part {n}"
                calls_made.append(
                    ToolCall(id=call_id, name="shell", arguments=json.dumps({"command": command}))
                )
                outputs.append(_ran(command, content))
        words = f"I look at part {number} of the colony next."
        if fact and place == "reply":
            words += f" Noted: {fact}."
            facts.append(Planted(text=fact, step=number, place="reply"))
        made.append(Step(message=assistant(words, *calls_made), outputs=tuple(outputs)))
    with advertised_tools(Config()) as (advertised, _):
        tools = tuple(tool.schema() for tool in advertised)
    return History(
        name=name,
        system=NATIVE.system(prompts.SYSTEM, ()),
        tools=tools,
        task=TASK,
        steps=tuple(made),
        facts=tuple(facts),
    )


def _planted(content: str, fact: str, rng: random.Random) -> str:
    lines = content.split("\n")
    lines.insert(rng.randrange(len(lines) + 1), f"{len(lines)}\t# {fact}")
    return "\n".join(lines)


def _read(path: str, content: str) -> ToolOutput:
    lines = content.count("\n") + 1
    facts: tuple[Fact, ...] = (FileRead(path=path, first=1, last=lines, total=lines),)
    return ToolOutput(text=content, digest=f"read {path} lines 1-{lines} of {lines}", facts=facts)


def _ran(command: str, content: str) -> ToolOutput:
    fact = CommandRun(command=command, exit_code=0)
    body = f"exit 0\n{content}"
    return ToolOutput(
        text=body,
        digest=f"ran `{command}`: exit 0, {content.count(chr(10)) + 1} lines",
        exit_code=0,
        facts=(fact,),
    )


def recorded(steps: int = 40) -> History:
    """A run of the real tools over a copy of this package, recorded and read back. The model is scripted."""
    with tempfile.TemporaryDirectory(prefix="chimera-benchmark-") as folder:
        workspace = Path(folder, "work")
        shutil.copytree(ROOT, workspace / "chimera", ignore=shutil.ignore_patterns("__pycache__"))
        result = chimera.run(
            TASK,
            model=ScriptedModel([*_script(workspace, steps), text("counted")]),
            workspace=workspace,
            window=1_000_000,
            mode="yolo",
            sandbox="danger-full-access",
            state=_made(Path(folder, "state")),
        )
        assert result.run_dir is not None, result.message
        return from_recording(read_recording(Path(result.run_dir)), name="recorded")


def _made(path: Path) -> Path:
    path.mkdir()
    return path


def _script(workspace: Path, steps: int) -> list[Reply]:
    rng = random.Random(7)
    files = sorted(str(path.relative_to(workspace)) for path in workspace.rglob("*.py"))
    words = ["def ", "class ", "Protocol", "return", "tokens", "Path("]
    makers: list[Callable[[], Reply]] = [
        lambda: call("read_file", path=rng.choice(files), start_line=1, line_count=rng.randrange(40, 160)),
        lambda: call("read_file", path=rng.choice(files), start_line=rng.randrange(1, 60)),
        lambda: call("search", pattern=rng.choice(words), path=rng.choice(files)),
        lambda: call("shell", command=f"wc -l chimera/*.py && grep -rn {rng.choice(words)!r} chimera | head -{rng.randrange(20, 90)}"),
        lambda: calls(*(call("read_file", path=rng.choice(files), line_count=40) for _ in range(rng.randrange(2, 7)))),
        lambda: call("shell", command=f"head -c {rng.randrange(2_000, 30_000)} {rng.choice(files)}"),
    ]  # fmt: skip
    return [rng.choice(makers)() for _ in range(steps)]


def from_recording(recording: Recording, *, name: str) -> History:
    """A recorded run as a history; its facts are long lines of its results that occur once."""
    steps = tuple(
        Step(
            message=step.completion.message,
            outputs=tuple(output for output in step.outputs if output is not None),
        )
        for step in recording.steps
        if step.completion.message.tool_calls and None not in step.outputs
    )
    return History(
        name=name,
        system=recording.system,
        tools=recording.tools,
        task=recording.task,
        steps=steps,
        facts=tuple(_telling_lines(steps)),
    )


def _telling_lines(steps: Sequence[Step]) -> Iterator[Planted]:
    rng = random.Random(11)
    everything = "\n".join(output.text for step in steps for output in step.outputs)
    for number, step in enumerate(steps):
        output = rng.choice(step.outputs)
        made = step.message.tool_calls[step.outputs.index(output)]
        lines = [line.strip() for line in output.text.splitlines() if 30 <= len(line.strip()) <= 120]
        rare = [line for line in lines if everything.count(line) == 1]
        if rare:
            path = json.loads(made.arguments).get("path") if made.name == "read_file" else None
            place: Place = "read" if path else "command"
            yield Planted(text=rng.choice(rare), step=number, place=place, path=path)
