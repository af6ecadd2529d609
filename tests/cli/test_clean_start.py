"""Keys leave the environment that other processes can read, and stay where chimera itself needs them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chimera.config import process_environment
from tests.cli.command import UNCONFINED, Script

CANARY = "sk-canary-7c31f09a"
SECRETS = {
    "OPENAI_API_KEY": CANARY,
    "AWS_SECRET_ACCESS_KEY": f"{CANARY}-aws",
    "PGPASSWORD": f"{CANARY}-pg",
    "COPY_OF_IT": CANARY,
}
CONSOLE_SCRIPT = Path(sys.executable).with_name("chimera")
WAYS = [
    pytest.param([sys.executable, "-m", "chimera"], id="module"),
    pytest.param([sys.executable, "-P", "-m", "chimera"], id="safe path"),
    pytest.param([sys.executable, "-I", "-m", "chimera"], id="isolated"),
    pytest.param([str(CONSOLE_SCRIPT)], id="console script"),
]
# What a command can read of the process that started it, written to a file as it is: redaction must not pass for absence.
LOOK = "{ env; tr '\\0' '\\n' < /proc/$PPID/environ; tr '\\0' '\\n' < /proc/$PPID/cmdline; } > seen.txt"


def run(
    way: list[str], *arguments: str, environment: dict[str, str] | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*way, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**process_environment(), **(SECRETS if environment is None else environment)},
    )


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc to read")
@pytest.mark.parametrize("way", WAYS)
def test_no_key_can_be_read_from_the_process_of_a_run(
    repository: Path, script: Script, way: list[str]
) -> None:
    if not Path(way[0]).exists():
        pytest.skip("the console script is not installed")
    model = script([{"call": "shell", "arguments": {"command": LOOK}}, {"text": "ok"}])
    done = run(way, "run", "x", "--model", model, *UNCONFINED)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    seen = (repository / "seen.txt").read_text()
    assert "OPENAI_API_KEY=" in seen, "it was not there to be read at all"
    assert "chimera" in seen
    assert CANARY not in seen


def test_the_keys_are_there_for_chimera_itself(repository: Path, tmp_path: Path) -> None:
    program = tmp_path / "chimera"
    program.write_text(
        "import json, os, sys\n"
        "from chimera.cli.clean_start import start_clean\n"
        "start_clean(sys.argv[1:], os.environ)\n"
        "print(json.dumps([dict(os.environ), sys.argv[1:], open('/proc/self/environ').read()]))\n"
    )
    environment = {**SECRETS, "ODD": "a\nb=c", "PLAIN": "x"}
    done = run([sys.executable, str(program)], "run", "a b", "-", environment=environment, stdin="task")
    variables, arguments, readable = json.loads(done.stdout)
    assert {name: variables.get(name) for name in environment} == environment
    assert arguments == ["run", "a b", "-"]
    assert CANARY not in readable


def test_bytes_that_are_no_text_survive(tmp_path: Path) -> None:
    program = tmp_path / "chimera"
    program.write_text(
        "import os, sys\nfrom chimera.cli.clean_start import start_clean\n"
        "start_clean(['run'], os.environ)\nsys.stdout.buffer.write(os.environb[b'A_TOKEN'])\n"
    )
    value = b"t\xf6k\xe9n-\xff-12345"
    done = subprocess.run(
        [sys.executable, str(program)],
        env={**os.environb, b"A_TOKEN": value},
        capture_output=True,
        check=True,
    )
    assert done.stdout == value


def test_standard_input_is_still_there_to_be_read(repository: Path, script: Script) -> None:
    model = script([{"text": "ok", "when": "the task from a pipe"}])
    done = run(
        [sys.executable, "-m", "chimera"],
        "run",
        "-",
        "--model",
        model,
        *UNCONFINED,
        stdin="the task from a pipe",
    )
    assert (done.returncode, done.stdout) == (0, "ok\n")


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [(["show"], SECRETS), (["runs"], SECRETS), (["run", "x"], {"PLAIN": "nothing to hide"}), ([], SECRETS)],
)
def test_a_command_that_runs_no_tools_or_has_nothing_to_hide_starts_as_it_is(
    arguments: list[str], environment: dict[str, str]
) -> None:
    program = (
        "import os, sys\nfrom chimera.cli.clean_start import start_clean\n"
        "before = open('/proc/self/environ').read(); start_clean(sys.argv[1:], os.environ)\n"
        "print(before == open('/proc/self/environ').read(), 'ctypes' in sys.modules)"
    )
    base = {k: v for k, v in process_environment().items() if k in {"PATH", "HOME", "LANG"}}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**base, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True False\n"


def test_other_variables_stay_readable_and_what_is_set_later_does_no_harm() -> None:
    program = (
        "import os, subprocess\nfrom chimera.cli.clean_start import start_clean\n"
        "os.environ['SET_BEFORE'] = 'x' * 5000\n"
        "start_clean(['run'], os.environ)\n"
        "os.environ['SET_AFTER'] = 'y'; del os.environ['PGPASSWORD']\n"
        "print(open('/proc/self/environ').read())\n"
        "print(subprocess.run(['env'], capture_output=True, text=True).stdout)\n"
    )
    done = run([sys.executable, "-c", program], environment={**SECRETS, "PLAIN": "in sight"})
    assert done.stdout.count("PLAIN=in sight") == 2
    assert "SET_AFTER=y" in done.stdout
    assert CANARY not in done.stdout, "not even in what a child is given that nobody chose an environment for"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="dumpable is of Linux")
def test_other_processes_of_an_ordinary_user_cannot_look_into_it(tmp_path: Path) -> None:
    setpriv = shutil.which("setpriv")
    if os.geteuid() == 0 and setpriv is None:
        pytest.skip("setpriv is needed to become an ordinary user")
    program = (
        "import os, subprocess\nfrom chimera.cli.clean_start import start_clean\n"
        "start_clean(['run'], os.environ)\n"
        "look = subprocess.run(['cat', f'/proc/{os.getpid()}/environ'], capture_output=True, env={'PATH': '/usr/bin:/bin'})\n"
        "print(look.returncode, look.stdout)\n"
    )
    argv = [sys.executable, "-c", program]
    if setpriv is not None and os.geteuid() == 0:
        argv = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--", *argv]
    done = run(argv)
    assert done.stdout == "1 b''\n", done.stderr


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc to read")
@pytest.mark.parametrize(
    "change",
    [
        "os.environ['OPENAI_API_KEY'] = os.environ['OPENAI_API_KEY'] + ' '",
        "del os.environ['OPENAI_API_KEY']",
        "os.environ['MINE'] = os.environ.pop('OPENAI_API_KEY')",
        "os.environ.clear()",
    ],
)
def test_what_a_start_of_python_changed_is_not_left_behind(change: str) -> None:
    program = (
        f"import os\n{change}\nfrom chimera.cli.clean_start import start_clean\n"
        "start_clean(['run'], os.environ)\nprint(open('/proc/self/environ').read())\n"
    )
    done = run([sys.executable, "-c", program], environment={"OPENAI_API_KEY": CANARY, "PLAIN": "in sight"})
    assert "PLAIN=in sight" in done.stdout
    assert CANARY not in done.stdout


def test_a_python_that_cannot_hide_keys_runs_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "_ctypes.py").write_text("raise ImportError('left out')\n")
    program = "import os\nfrom chimera.cli.clean_start import start_clean\nstart_clean(['run'], os.environ)\n"
    done = run([sys.executable, "-c", program], environment={**SECRETS, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0
    assert "OPENAI_API_KEY" in done.stderr
    assert CANARY not in done.stderr
