"""Commands with a real shell: output, limits, and what they leave behind."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chimera.errors import ToolError
from chimera.workspace.environment import child_environment
from chimera.workspace.process import CommandRunner
from chimera.workspace.sandbox import Sandbox, SandboxBackend, open_sandbox

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc")
UNCONFINED = Sandbox(level="danger-full-access", backend="none", missing=())
PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
Make = Callable[..., CommandRunner]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[CommandRunner] = []
    root, spool = tmp_path / "root", tmp_path / "spool"
    root.mkdir()
    spool.mkdir()

    def make_runner(sandbox: Sandbox = UNCONFINED, **options: float) -> CommandRunner:
        settings = {"grace_s": 0.3, "linger_s": 0.2, **options}
        made.append(CommandRunner(root, sandbox, child_environment(PATH), spool, **settings))
        return made[-1]

    yield make_runner
    for runner in made:
        runner.close()


@pytest.fixture
def nap() -> str:
    """A command that sleeps and that no other process of this machine has."""
    return f"sleep 300.{uuid.uuid4().int % 10**9}"


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def running(words: str) -> bool:
    listed = subprocess.run(["ps", "-eo", "stat,args"], capture_output=True, text=True, check=True).stdout
    return any(words in line and not line.startswith("Z") for line in listed.splitlines())


def test_output_and_errors_come_in_the_order_of_writing_with_the_exit_code(make: Make) -> None:
    result = make().run("echo a; echo b >&2; echo c; exit 3", 10)
    assert (result.output, result.exit_code, result.size) == (b"a\nb\nc\n", 3, 6)
    assert (result.timed_out, result.left_running, result.spool) == (False, False, None)


@pytest.mark.case("C7")
def test_every_command_starts_in_the_root_with_nothing_of_the_last_one(make: Make) -> None:
    runner = make()
    runner.run("mkdir t; cd t; x=1; export Y=2; rm -rf ../t", 10)
    result = runner.run('pwd; echo "[$x$Y]"; ls', 10)
    assert result.output == f"{runner.root}\n[]\n".encode()


@pytest.mark.case("C2")
def test_stdin_is_empty_and_the_terminal_out_of_reach(make: Make) -> None:
    result = make().run("cat; read x || echo none; (: </dev/tty) 2>/dev/null || echo no terminal", 10)
    assert result.output == b"none\nno terminal\n"


HARD = "cat <<'EOF'\n$HOME 'single' `tick` \\\\ \\n\n< line \"x\"\nEOF\nprintf '%s|' \"a  b\" $'\\t' 'é€\U0001f600'"


@pytest.mark.case("C10")
def test_the_command_reaches_the_shell_byte_for_byte(make: Make) -> None:
    expected = "$HOME 'single' `tick` \\\\ \\n\n< line \"x\"\na  b|\t|é€\U0001f600|".encode()
    assert make().run(HARD, 10).output == expected
    assert make().run(f"x=$({HARD}\n); printf '%s' \"$x\"", 10).output == expected


@pytest.mark.case("C10")
@pytest.mark.parametrize("backend", ["none", "bwrap", "landlock"])
def test_a_command_too_long_for_an_argument_is_the_same_command(
    make: Make, backend: SandboxBackend, request: pytest.FixtureRequest
) -> None:
    runner = make()
    if backend != "none":
        request.getfixturevalue({"bwrap": "bubblewrap", "landlock": "landlock"}[backend])
        sandbox = open_sandbox(
            "workspace-write",
            runner.root,
            allow_net=False,
            allow_git_write=False,
            required=True,
            environment=PATH,
            backends=(backend,),
        )
        runner = make(sandbox)
    padding = ":" + " x" * 200_000 + "\n"
    assert runner.run(padding + HARD + "; cat; exit 7", 20).output == runner.run(HARD, 10).output
    assert runner.run(padding + "exit 7", 20).exit_code == 7


def test_death_by_signal_is_counted_as_bash_does(make: Make) -> None:
    assert make().run("kill -SEGV $$", 10).exit_code == 128 + signal.SIGSEGV


@pytest.mark.case("C1")
@LINUX
@pytest.mark.parametrize(
    "command",
    [
        "{nap} & echo hi",
        "setsid {nap} & echo hi",
        "{nap} >/dev/null & echo hi",
        "while :; do echo tick; sleep 0.05; done & {nap} & echo hi",
    ],
)
def test_a_background_child_does_not_hold_the_call_and_ends_with_the_run(
    make: Make, nap: str, command: str
) -> None:
    runner = make()
    result = runner.run(command.format(nap=nap), 60)
    assert b"hi\n" in result.output
    assert (result.exit_code, result.left_running) == (0, True)
    assert result.duration_s < 30
    assert running(nap)
    assert runner.run("echo next", 10).output == b"next\n"
    runner.close()
    assert not running(nap)


@LINUX
@pytest.mark.parametrize(
    "command",
    [
        "{nap}",
        "trap '' TERM; {nap} & {nap}",
        "setsid {nap} & {nap}",
        "(setsid setsid {nap} >/dev/null 2>&1 &) ; {nap}",
        "exec >/dev/null 2>&1; {nap}",
        "env -i setsid {nap} & {nap}",
    ],
)
def test_the_limit_ends_everything_the_command_started(make: Make, nap: str, command: str) -> None:
    result = make().run("echo start; " + command.format(nap=nap), 0.5)
    assert (result.exit_code, result.timed_out, result.left_running) == (None, True, False)
    assert result.output == b"start\n"
    assert not running(nap)


@LINUX
def test_the_limit_of_one_command_spares_what_an_earlier_one_left(make: Make, nap: str) -> None:
    runner = make()
    runner.run(f"setsid {nap} >/dev/null 2>&1 &", 10)
    time.sleep(0.05)  # start times are counted in hundredths of a second
    runner.run("sleep 60", 0.3)
    assert running(nap)
    runner.close()
    assert not running(nap)


def test_a_child_that_ends_soon_is_waited_for(make: Make) -> None:
    result = make(linger_s=20).run("(sleep 0.1; echo late) & echo now", 10)
    assert (result.output, result.left_running) == (b"now\nlate\n", False)


def test_a_process_may_clean_up_before_the_kill(make: Make) -> None:
    result = make(grace_s=20).run("trap 'echo cleaned; exit' TERM; while :; do sleep 0.05; done", 0.3)
    assert result.output.endswith(b"cleaned\n")


@pytest.mark.case("C4")
@LINUX
def test_the_limit_fires_under_endless_output_and_memory_stays_small(make: Make) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = make().run("yes", 0.5)
    assert result.timed_out
    assert len(result.output) < 140_000
    result = make().run("yes | head -c 500000000; exit 4", 100)
    assert (result.exit_code, result.size) == (4, 500_000_000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000  # KiB


@pytest.mark.case("C4")
def test_long_output_keeps_head_and_tail_and_the_whole_in_a_file(make: Make) -> None:
    result = make().run("seq 1 400000", 60)
    lines = result.output.decode().splitlines()
    assert (lines[0], lines[1], lines[-1]) == ("1", "2", "400000")
    gap = next(index for index, line in enumerate(lines) if line.startswith("[... "))
    left_out = int(lines[gap].split()[1].replace(",", ""))
    assert left_out == result.size - (len(result.output) - len(lines[gap]) - 1)
    assert int(lines[gap + 1]) > int(lines[gap - 1]) + 1
    assert result.spool is not None
    assert result.spool.read_bytes() == "".join(f"{n}\n" for n in range(1, 400_001)).encode()
    assert result.spool.stat().st_mode & 0o077 == 0


def test_output_of_128_kib_is_whole(make: Make) -> None:
    result = make().run("head -c 131072 /dev/zero | tr '\\0' x", 20)
    assert (result.output, result.spool) == (b"x" * 131_072, None)


def test_a_cut_never_splits_a_character(make: Make) -> None:
    result = make().run("printf 'a'; printf '€%.0s' $(seq 1 100000)", 60)
    result.output.decode("utf-8")
    assert b"bytes left out here" in result.output


@LINUX
def test_the_file_of_a_flood_ends_at_50_mib(make: Make) -> None:
    result = make().run("yes | head -c 60000000", 60)
    assert result.spool is not None
    assert result.spool.stat().st_size == 50 * 1024 * 1024
    result.spool.unlink()


def test_without_room_for_the_file_the_command_still_runs(make: Make, tmp_path: Path) -> None:
    (tmp_path / "spool").rmdir()
    result = make().run("seq 1 100000; exit 5", 60)
    assert (result.exit_code, result.spool) == (5, None)
    assert result.output.endswith(b"100000\n")


def test_a_deleted_root_is_told(make: Make) -> None:
    runner = make()
    assert runner.run('rm -rf "$PWD"', 10).exit_code == 0
    with pytest.raises(ToolError, match="no longer there"):
        runner.run("pwd", 10)


@LINUX
def test_an_interrupt_ends_the_command_and_goes_on_up(make: Make, nap: str) -> None:
    runner = make()
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            runner.run(f"setsid {nap} & {nap}", 60)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, previous)
    assert not running(nap)
    assert runner.run("echo still usable", 10).exit_code == 0


def test_the_environment_is_the_given_one_and_no_more(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "canary-5512")
    result = make().run("env", 10)
    assert b"canary-5512" not in result.output
    assert b"GIT_TERMINAL_PROMPT=0" in result.output


def test_the_same_command_has_the_same_result_twice(make: Make) -> None:
    runner = make()
    first, second = (runner.run("env; ls -l; echo $((6 * 7))", 10) for _ in range(2))
    assert (first.output, first.size) == (second.output, second.size)


def test_no_descriptor_is_left_open(make: Make) -> None:
    runner = make()
    runner.run("true", 10)
    before = open_descriptors()
    for _ in range(3):
        runner.run("seq 1 100000; " + ": " + "x" * 110_000, 20)
    assert open_descriptors() == before


@LINUX
@pytest.mark.case("C4")
def test_two_million_writes_of_one_byte_are_counted_and_bounded(make: Make) -> None:
    writer = "import os\nfor _ in range(2_000_000): os.write(1, b'x')"
    result = make().run(f'exec {sys.executable} -SE -c "{writer}"', 100)
    assert (result.exit_code, result.size) == (0, 2_000_000)
    assert len(result.output) < 140_000


@pytest.mark.case("C10")
def test_a_heredoc_writes_the_very_bytes(make: Make) -> None:
    lines = "$HOME 'single' `tick` \\\\ \\n\n< line\n"
    runner = make()
    runner.run(f"cat > f <<'EOF'\n{lines}EOF\nx=$(cat <<'EOF'\n{lines}EOF\n); printf '%s\\n' \"$x\" > g", 10)
    assert (runner.root / "f").read_text() == (runner.root / "g").read_text() == lines
