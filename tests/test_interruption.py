"""A signal ends chimera with its own exit code from the first instruction to the last, and never in the middle of a write."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from chimera.config import process_environment

START = """
import os, signal, sys
from chimera import interruption
def ask(number=signal.SIGINT):
    os.kill(os.getpid(), number)
"""


def play(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", START + program], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_that_comes_too_early_waits_for_the_first_moment_it_can_be_told(name: str) -> None:
    done = play(
        f"interruption.install(); ask(signal.{name}); ask(); print('imports')\n"
        "try:\n    with interruption.raising(): print('never')\n"
        "except interruption.Interrupted as signal: print(signal)\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"imports\n{name}\n", "")


def test_the_second_one_hurries_and_does_not_break_off() -> None:
    done = play(
        "interruption.install(); interruption.hurry_with(lambda: print('hurry'))\n"
        "with interruption.raising():\n"
        "    try: ask()\n"
        "    except interruption.Interrupted: ask(); ask(); print('saved')\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "hurry\nhurry\nsaved\n", "")


def test_an_end_that_takes_too_long_after_the_second_one_is_cut_short_with_the_code_of_the_first() -> None:
    done = play(
        "interruption.GRACE_S = 0.05; interruption.install()\n"
        "with interruption.raising():\n"
        "    try: ask(signal.SIGTERM)\n"
        "    except interruption.Interrupted:\n"
        "        ask()\n"
        "        signal.pause()\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (143, "", "")


def test_what_is_written_is_written_whole() -> None:
    done = play(
        "interruption.install()\n"
        "with interruption.raising():\n"
        "    try:\n"
        "        with interruption.shielded(): ask(); print('whole')\n"
        "        print('never')\n"
        "    except interruption.Interrupted: print('then')\n"
    )
    assert (done.returncode, done.stdout) == (0, "whole\nthen\n")


def test_an_end_that_is_under_way_is_hurried_and_not_broken_off() -> None:
    done = play(
        "interruption.install(); interruption.hurry_with(lambda: print('hurry'))\n"
        "with interruption.raising():\n"
        "    with interruption.ending(): ask(); print('saved')\n"
        "    print('delivered')\n"
    )
    assert (done.returncode, done.stdout) == (0, "hurry\nsaved\ndelivered\n")


@pytest.mark.parametrize(
    "swallow",
    [
        "class Last:\n    def __del__(self): ask()\nheld = Last()\n",
        "def lost():\n    try: ask()\n    except: pass\n",
    ],
    ids=["where nothing can be raised", "by a library that catches everything"],
)
def test_a_signal_that_somebody_swallowed_is_raised_again(swallow: str) -> None:
    done = play(
        f"{swallow}interruption.install()\n"
        "with interruption.raising():\n"
        "    try:\n"
        "        if 'held' in globals(): del held\n"
        "        else: lost()\n"
        "        print('swallowed'); interruption.check(); print('never')\n"
        "    except interruption.Interrupted: interruption.seen()\n"
        "    interruption.check(); print('once')\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "swallowed\nonce\n", "")


def test_after_the_end_a_signal_changes_nothing() -> None:
    done = play("interruption.install(); interruption.ended(7); ask(); print('never')\n")
    assert (done.returncode, done.stdout, done.stderr) == (7, "", "")


def test_a_signal_does_not_kill_an_interpreter_that_takes_itself_down() -> None:
    done = play(
        "class Last:\n    def __del__(self): ask()\n"
        "sys.last = Last(); interruption.install(); interruption.ended(7); sys.exit(7)\n"
    )
    assert (done.returncode, done.stderr) == (7, "")


def test_what_the_process_was_started_to_ignore_stays_ignored() -> None:
    done = play(
        "signal.signal(signal.SIGHUP, signal.SIG_IGN); interruption.install(); ask(signal.SIGHUP)\n"
        "with interruption.raising(): print('on')\n"
    )
    assert (done.returncode, done.stdout) == (0, "on\n")


HOOKED = """
import os, signal, sys
class Hook:
    def find_spec(self, name, *rest):
        if name == {module!r}:
            for _ in range({times}):
                os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Hook())
from chimera.__main__ import main
sys.argv = ["chimera", *sys.argv[1:]]
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("module", "times"),
    [("typer", 1), ("chimera.cli.entry", 2), ("chimera.session", 1), ("chimera.cli.render", 2)],
)
def test_a_signal_while_chimera_starts_is_told_like_any_other(
    tmp_path: Path, module: str, times: int
) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text('{"text": "ok"}\n')
    words = ["run", "x", "--model", f"scripted:{script}", "--output-format", "json"]
    words += ["--mode", "yolo", "--sandbox", "danger-full-access"]
    done = subprocess.run(
        [sys.executable, "-c", HOOKED.format(module=module, times=times), *words],
        cwd=tmp_path,
        env={**process_environment(), "CHIMERA_STATE_DIR": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    result = json.loads(done.stdout)
    assert (done.returncode, result["stop_reason"], result["stop_detail"]) == (130, "interrupted", "SIGINT")
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_a_repository_that_a_command_made_is_made_harmless_before_a_signal_ends_the_run(
    tmp_path: Path,
) -> None:
    done = play(
        "from pathlib import Path\n"
        "from chimera.workspace.git_guard import GitGuard\n"
        "class Asked:\n"
        "    def __call__(self, entries, protected): ask(); print('harmless'); return []\n"
        f"root = Path({str(tmp_path)!r})\n"
        "guard = GitGuard(root, allow_write=False, mounting=False)\n"
        "guard.disarm = Asked()\n"
        "interruption.install()\n"
        "with interruption.raising():\n"
        "    try:\n"
        "        with guard.holding(): (root / '.git').mkdir()\n"
        "        print('never')\n"
        "    except interruption.Interrupted: print('then')\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "harmless\nthen\n", "")
