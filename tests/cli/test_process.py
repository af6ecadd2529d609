"""What only a process of its own can show: start-up, streams, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chimera import __version__
from chimera.config import state_dir
from tests.cli.command import UNCONFINED, Chimera, Script

HEAVY = ["litellm", "openai", "git", "tiktoken", "rich", "pydantic", "asyncio"]


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; from chimera.__main__ import main; sys.argv = ['chimera', '--help']; code = main();"
        f"print(code, [name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == "0 []\n"
    assert "schema-bench" in done.stdout


def test_a_scripted_run_loads_no_litellm(repository: Path, script: Script) -> None:
    program = (
        "import sys; from chimera.__main__ import main; code = main();"
        "print(code, 'litellm' in sys.modules, 'rich' in sys.modules, file=sys.stderr)"
    )
    arguments = ["run", "x", "--model", script([{"text": "ok"}]), *UNCONFINED, "--quiet"]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stderr == "0 False False\n"


def test_the_version_is_told_before_typer_is_imported() -> None:
    program = (
        "import sys; from chimera.__main__ import main; sys.argv = ['chimera', '--version']; main();"
        "print('typer' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"chimera {__version__}\nFalse\n"


def test_a_task_comes_from_standard_input_only_when_asked(
    repository: Path, process: Chimera, script: Script
) -> None:
    model = script([{"text": "ok", "when": "Straße"}])
    ended = process("run", "-", "--model", model, *UNCONFINED, stdin="\ufeffStraße\n".encode())
    assert (ended.code, ended.out) == (0, "ok\n")
    ended = process("run", "--model", model, *UNCONFINED, stdin=b"Stra")
    assert ended.code == 2
    assert "no task" in ended.err


def test_the_current_directory_is_not_imported(repository: Path, process: Chimera, script: Script) -> None:
    for name in ("yaml", "platformdirs", "shellingham", "tiktoken"):
        (repository / f"{name}.py").write_text("open('PWNED', 'w')\n", encoding="utf-8")
    ended = process("run", "x", "--model", script([{"text": "ok"}]), *UNCONFINED)
    assert ended.code == 0
    assert not (repository / "PWNED").exists()


@pytest.mark.parametrize("environment", [{"PYTHONIOENCODING": "cp1252"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}])
def test_any_encoding_of_the_streams_will_do(
    repository: Path, process: Chimera, script: Script, environment: dict[str, str]
) -> None:
    ended = process("run", "x", "--model", script([{"text": "漢 🎉"}]), *UNCONFINED, environment=environment)
    assert (ended.code, ended.out) == (0, "\\u6f22 \\U0001f389\n")
    assert "Traceback" not in ended.err


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=60)


def test_closed_and_broken_streams_end_quietly(repository: Path, script: Script) -> None:
    looks = [{"call": "shell", "arguments": {"command": f"echo {n}"}} for n in range(8)]
    model = script([*looks, {"text": "ok"}])
    how = " ".join(UNCONFINED)
    run = f"'{sys.executable}' -m chimera run x --model {model} {how}"
    done = shell(f"{run} --output-format stream-json -q | head -1")
    assert json.loads(done.stdout)["type"] == "run_started"
    assert done.stderr == ""
    (path,) = Path(state_dir(), "runs").iterdir()
    last = json.loads((path / "events.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    # Who closed the pipe has heard enough; the work that was asked for goes on.
    assert (last["type"], last["stop_reason"], last["steps"]) == ("run_finished", "answered", 9)
    done = shell(f"{run} --max-steps 1 <&- >&- 2>&-; echo $?")
    assert done.stdout == "4\n"
    done = shell(f"{run} -q >/dev/full; echo $?")
    assert done.stdout == "1\n"
    assert "standard output cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)]
)
def test_a_signal_stops_the_run_and_everything_it_started(
    repository: Path, script: Script, number: signal.Signals, code: int
) -> None:
    mark = f"sleep 300.{os.getpid()}{int(number)}"
    model = script([{"call": "shell", "arguments": {"command": f"touch started; {mark}"}}, {"text": "ok"}])
    arguments = ["run", "x", "--model", model, *UNCONFINED, "--output-format", "json"]
    with subprocess.Popen(
        [sys.executable, "-m", "chimera", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_for(repository / "started")
        process.send_signal(number)
        out, _ = process.communicate(timeout=30)
    result = json.loads(out)
    assert (process.returncode, result["exit_code"], result["stop_reason"]) == (code, code, "interrupted")
    assert result["stop_detail"] == number.name
    assert result["answer"] is None
    assert mark not in processes()


@pytest.mark.parametrize("patient", [True, False], ids=["while it ends", "at once"])
def test_further_signals_kill_what_runs_and_the_run_is_saved_all_the_same(
    repository: Path, script: Script, patient: bool
) -> None:
    mark = f"second-signal-{os.getpid()}"
    command = f"trap 'touch asked' TERM; touch started; while true; do sleep 0.05; done; echo {mark}"
    model = script([{"call": "shell", "arguments": {"command": command}}])
    arguments = ["run", "x", "--model", model, *UNCONFINED, "--output-format", "json"]
    with subprocess.Popen(
        [sys.executable, "-m", "chimera", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_for(repository / "started")
        process.send_signal(signal.SIGINT)
        if patient:
            wait_for(repository / "asked")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    result = json.loads(out)
    assert (process.returncode, result["exit_code"], result["stop_reason"]) == (130, 130, "interrupted")
    assert "Traceback" not in err
    record = Path(result["run_dir"], "events.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(record[-1])["type"] == "run_finished"
    assert mark not in processes()


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} never came"
        time.sleep(0.02)


def processes() -> str:
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
