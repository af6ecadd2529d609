"""Nothing that others wrote steers the terminal or passes for markup: output, names, model text, provider, record."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from chimera.config import process_environment
from tests.cli.command import UNCONFINED, Script
from tests.provider import LoopbackProvider, refuse

pytestmark = pytest.mark.slow

ATTACKS = {
    "OSC 52": "\x1b]52;c;b3duZWQ=\x07",
    "OSC 8": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "DCS": "\x1bP$qm\x1b\\",
    "CSI": "\x1b[2J\x1b[1;1H\x1b[8m",
    "C1": "\x9b31m\x9d0;owned\x9c",
    "BEL": "\x07" * 50,
    "bidi": "a\u202egpj.exe\u2066b\u2069",
    "Tag": "a\U000e0041\U000e0042",
    "zero width": "pass\u200bword\u2060\ufeff",
    "return": "safe\rEVIL",
    "NUL": "a\0b\x08\x08",
}
HOSTILE = "".join(ATTACKS.values())
MARKUP = "[/x] [bold]loud[/bold] [link=http://evil.example]y[/link] " + "[" * 200
OURS = re.compile(r"\x1b\[(?:0|1|2|3[0-9])m")
STEERING = re.compile(
    "[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2060\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)


SILENCE_S = 100.0
"""After it a process counts as hanging, and shows where before it is killed."""


def on_terminal(*arguments: str, code: int = 0, **environment: str) -> str:
    """What a terminal of 100 columns received."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 100, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-m", "chimera", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**process_environment(), **environment},
        start_new_session=True,
    ) as process:
        os.close(theirs)
        received = bytearray()
        while True:
            if not select.select([ours], [], [], SILENCE_S)[0]:
                assert process.poll() is None, "it has ended, and left something that holds the terminal"
                process.send_signal(signal.SIGABRT)
            if not (chunk := read(ours)):
                break
            received += chunk
    os.close(ours)
    assert process.returncode == code, received.decode()
    return received.decode()


def read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except OSError:  # how Linux says that the other end is closed
        return b""


def assert_harmless(received: str) -> None:
    rest = OURS.sub("", received)
    assert STEERING.findall(rest) == []
    assert "\x08" not in rest
    assert "\rEVIL" not in rest


@pytest.fixture
def hostile_run(repository: Path, script: Script) -> str:
    """A model whose run says all of it in every place it can."""
    named = repository / f"f{ATTACKS['CSI']}{ATTACKS['bidi']}{ATTACKS['zero width']}.txt"
    named.write_text(HOSTILE + MARKUP)
    (repository / "payload").write_bytes((HOSTILE + MARKUP + "\n").encode() + bytes(range(256)))
    replies: list[dict[str, Any]] = [
        {"text": HOSTILE + MARKUP, "call": "shell", "arguments": {"command": "cat payload; false"}},
        {"call": f"tool{HOSTILE}{MARKUP}", "arguments": {"x": HOSTILE}},
        {"call": "read_file", "arguments": {"path": named.name}},
        {"call": "search", "arguments": {"pattern": HOSTILE + "("}},
        {"call": "update_plan", "arguments": {"tasks": [{"title": HOSTILE + MARKUP, "status": "doing"}]}},
        {"call": "write_file", "arguments": {"path": f"new{ATTACKS['OSC 8'][:4]}.py", "content": HOSTILE}},
        {"text": HOSTILE + MARKUP},
    ]
    return script(replies)


@pytest.mark.parametrize("options", [(), ("-v",), ("-q",)])
def test_only_our_own_colours_reach_the_terminal_in_a_run(hostile_run: str, options: tuple[str, ...]) -> None:
    received = on_terminal("run", HOSTILE.replace("\0", ""), "--model", hostile_run, *UNCONFINED, *options)
    assert_harmless(received)
    assert "\\x1b]52;c;b3duZWQ=\\x07" in re.sub(r"\r\n", "", OURS.sub("", received))


def test_only_our_own_colours_reach_the_terminal_afterwards(hostile_run: str) -> None:
    on_terminal("run", "x", "--model", hostile_run, *UNCONFINED)
    for arguments in (["show"], ["runs"], ["diff"], ["diff", "--stat"]):
        assert_harmless(on_terminal(*arguments))


def test_markup_is_shown_as_it_is(repository: Path, script: Script) -> None:
    received = on_terminal("run", "x", "--model", script([{"text": MARKUP.rstrip("[")}]), *UNCONFINED)
    assert "[/x] [bold]loud[/bold] [link=http://evil.example]y[/link]" in received.replace("\r\n", " ")


def test_a_hundred_thousand_brackets_are_text(repository: Path, script: Script) -> None:
    (repository / "brackets").write_text("[" * 100_000)
    model = script(
        [{"call": "shell", "arguments": {"command": "cat brackets"}, "text": "[" * 100_000}, {"text": "[/x]"}]
    )
    received = on_terminal("run", "x", "--model", model, *UNCONFINED, "-v", "--window", "400000")
    assert "MarkupError" not in received
    assert "[/x]" in received


def test_what_a_provider_says_in_an_error_steers_nothing(repository: Path) -> None:
    with LoopbackProvider([refuse(401, f"no {HOSTILE}{MARKUP}")]) as provider:
        received = on_terminal(
            *(
                "run",
                "x",
                "--model",
                "openai/fake",
                "--api-base",
                provider.url,
                "--window",
                "16000",
                *UNCONFINED,
            ),
            code=11,
            OPENAI_API_KEY="sk-some-key-0001",
        )
    assert_harmless(received)
    assert "refused the key" in OURS.sub("", received)


def test_a_record_that_somebody_wrote_steers_nothing(
    repository: Path, script: Script, tmp_path: Path
) -> None:
    on_terminal("run", "x", "--model", script([{"text": "ok"}]), *UNCONFINED)
    (path,) = (tmp_path / "state" / "runs").iterdir()
    record = path / "events.jsonl"
    events = [json.loads(line) for line in record.read_text().splitlines()]
    for event in events:
        for name, value in event.items():
            if isinstance(value, str) and name not in {"type", "tree"}:
                event[name] = value + HOSTILE
    record.write_text("".join(json.dumps(event) + "\n" for event in events))
    for arguments in (["show", path.name], ["runs"]):
        assert_harmless(on_terminal(*arguments))


def test_file_names_on_a_pipe_are_escaped_too(hostile_run: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "chimera", "run", "x", "--model", hostile_run, *UNCONFINED],
        capture_output=True,
        check=True,
        env=dict(process_environment()),
    )
    for stream in (done.stdout, done.stderr):
        assert STEERING.findall(stream.decode()) == []


def test_words_on_the_command_line_steer_nothing(repository: Path) -> None:
    received = on_terminal("run", "x", "--mode", ATTACKS["CSI"] + ATTACKS["bidi"], code=2)
    assert_harmless(received)
    received = on_terminal("show", ATTACKS["CSI"], code=2)
    assert_harmless(received)
