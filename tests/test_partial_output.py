"""What a command had printed when its run was interrupted is kept, and told to the model when the run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chimera.core.model import Request
from chimera.interruption import Interrupted
from chimera.record.run_directory import read_events
from chimera.testing import Reply, ScriptedModel, call, text
from tests.undoing import Workspace, shell

SECRET = "sk-proj-" + "Zq3xV7nKp2Lw9Rt5" * 2


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


@pytest.fixture
def _interruptible() -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise Interrupted("SIGTERM")

    before = signal.signal(signal.SIGUSR1, interrupt)
    yield
    signal.signal(signal.SIGUSR1, before)


def printed(state: Path, line: str) -> str:
    """A command that waits until what it printed has arrived."""
    return f"until grep -qs {line} {state}/runs/*/spool/*; do sleep 0.01; done"


def resumed(workspace: Workspace) -> tuple[str, str]:
    """What the model is told of the lost call, and the whole output that it names."""
    requests: list[Request] = []

    def reply(request: Request, _: int) -> Reply:
        requests.append(request)
        return text("done")

    workspace.run(resume=True, model=ScriptedModel(reply, window=32_000))
    told = requests[0].messages[2 + 1].content
    (file,) = (workspace.record / "outputs").iterdir()
    assert f"@run/outputs/{file.name}" in told
    assert file.stat().st_mode & 0o777 == 0o600
    return told, file.read_text()


@pytest.mark.usefixtures("_interruptible")
@pytest.mark.parametrize("lines", [3, 60_000])
def test_after_a_signal_it_is_in_the_record_at_once_and_without_secrets(
    workspace: Workspace, lines: int
) -> None:
    command = f"seq {lines}; echo {SECRET} last; {printed(workspace.state, 'last')}; kill -USR1 {os.getpid()}; sleep 60"
    first = workspace.run(shell(command))
    assert first.stop_reason == "interrupted"
    (event,) = [e for e in read_events(workspace.record) if e["type"] == "tool_interrupted"]
    kept = workspace.record / "outputs" / event["output_file"].rpartition("/")[2]
    assert kept.read_text().split()[:lines] == [str(n) for n in range(1, lines + 1)]
    assert SECRET not in kept.read_text()
    assert event["bytes"] == kept.stat().st_size
    assert not (workspace.record / "spool").exists()
    told, whole = resumed(workspace)
    assert "effect is unknown" in told
    assert "last" in told
    assert SECRET not in told + whole
    assert whole == kept.read_text()


KILLED = """
import sys
from pathlib import Path
import chimera
from chimera.testing import ScriptedModel, call, text
chimera.run("do it", workspace=sys.argv[1], state=Path(sys.argv[2]), mode="yolo", sandbox="danger-full-access",
            model=ScriptedModel([call("shell", command=sys.argv[3])], window=32_000))
"""


def test_after_kill_nine_it_is_kept_when_the_run_goes_on(workspace: Workspace) -> None:
    command = f"echo half; echo {SECRET} last; {printed(workspace.state, 'last')}; kill -9 $PPID"
    program = [sys.executable, "-c", KILLED, str(workspace.root), str(workspace.state), command]
    assert subprocess.run(program, check=False).returncode == -signal.SIGKILL
    told, whole = resumed(workspace)
    assert "half" in told
    assert SECRET not in told + whole
    assert not (workspace.record / "spool").exists()
    workspace.run(call("read_file", path="x"), resume=True)
    again = [e for e in read_events(workspace.record) if e["type"] == "tool_interrupted"]
    assert len(again) == 1


def test_a_command_that_ends_leaves_nothing_behind(workspace: Workspace) -> None:
    workspace.run(shell("echo x"), shell("seq 3"))
    assert not list((workspace.record / "outputs").iterdir())
