from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chimera.config import process_environment, state_dir
from tests.cli.command import Chimera

pytestmark = pytest.mark.slow


def recorded() -> list[list[dict[str, Any]]]:
    """The events of all runs, oldest first."""
    runs = sorted(Path(state_dir(), "runs").iterdir())
    return [
        [json.loads(line) for line in (run / "events.jsonl").read_text(encoding="utf-8").splitlines()]
        for run in runs
    ]


def commands(events: list[dict[str, Any]], digest: str) -> list[int | None]:
    return [e["exit_code"] for e in events if e["type"] == "tool_finished" and digest in e["digest"]]


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "scratch"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    return place


def test_the_demo_is_an_honest_run_that_works_again_when_its_line_is_copied(
    repository: Path, process: Chimera, scratch: Path, tmp_path: Path
) -> None:
    ended = process("demo")
    assert ended.code == 0, ended.err
    line, *rest = ended.out.splitlines()
    assert re.match(
        r"cd .*/shop && .*chimera run \"The tests fail.*\" --model scripted:\S+ --window \d+", line
    ) or (" -m chimera run " in line)
    assert "plays back a script" in " ".join(rest)
    assert "Fixed." in ended.out
    assert "chimera run" in rest[-3]
    (events,) = recorded()
    assert events[-1]["stop_reason"] == "answered"
    assert any(e["type"] == "compaction" and e["changed"] for e in events)
    first, last = commands(events, "unittest")
    assert first
    assert last == 0
    assert str(events[0]["model"]).startswith("scripted:")
    status = subprocess.run(["git", "status", "--porcelain"], cwd=repository, capture_output=True, check=True)
    assert status.stdout == b""

    program = tmp_path / "bin" / "chimera"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m chimera "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    shop = next(scratch.glob("chimera-demo-*/shop"))
    environment = {**process_environment(), "PATH": f"{program.parent}:{process_environment()['PATH']}"}
    for reset, answer in (("true", "already"), ("git checkout -q .", "Fixed.")):
        subprocess.run(reset, shell=True, cwd=shop, check=True)
        again = subprocess.run(line, shell=True, capture_output=True, text=True, env=environment, check=False)
        assert again.returncode == 0, again.stderr
        assert answer in again.stdout


def test_without_bubblewrap_the_demo_works_and_never_hides_that_it_is_unconfined(
    repository: Path, scratch: Path, tmp_path: Path
) -> None:
    """Bubblewrap itself takes bubblewrap away."""
    masked = [
        *("bwrap", "--dev-bind", "/", "/", "--ro-bind", "/dev/null", "/usr/bin/bwrap"),
        *(sys.executable, "-m", "chimera", "demo"),
    ]
    if not Path("/usr/bin/bwrap").exists() or subprocess.run([*masked[:7], "true"], check=False).returncode:
        pytest.skip("no working bubblewrap to hide")
    done = subprocess.run(masked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    unconfined = "--mode yolo --sandbox danger-full-access" in done.stdout.splitlines()[0]
    assert unconfined == ("No sandbox works here" in done.stdout)
    assert unconfined == ("commands run unconfined" in done.stderr)
    (events,) = recorded()
    assert commands(events, "unittest")[-1] == 0
