"""A run in a place with nothing but a loopback interface, for a user without a home, and on a full disk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chimera.config import process_environment
from chimera.errors import ConfigError
from chimera.home import expanded

SCRIPT = """
import json, os, sys
from pathlib import Path

reached = []
def watch(event, arguments):
    if event == "socket.connect":
        reached.append(arguments[1])
sys.addaudithook(watch)

import chimera
from chimera.config import config_path, state_dir
from chimera.errors import ConfigError
from tests.provider import LoopbackProvider, ask, say

work, full = Path(sys.argv[1]), Path(sys.argv[2])
faults = []
for place in (state_dir, lambda: config_path(os.environ)):
    try:
        place()
    except ConfigError as fault:
        faults.append(str(fault))
os.environ["CHIMERA_CONFIG_DIR"] = str(work)
old = "x = 1\\n" + "#" * 40_000 + "\\n"
(full / "f.py").write_text(old)
edit = {"path": "f.py", "edits": [{"old": "x = 1", "new": "x = 2"}]}
with LoopbackProvider([ask("edit_file", edit), ask("shell", {"command": "echo hi"}), say("done")]) as provider:
    settings = {"model": "openai/fake", "api_base": provider.url, "adapter": "direct", "window": 32_000}
    settings |= {"mode": "yolo", "sandbox": "danger-full-access", "workspace": full, "state": work / "state"}
    result = chimera.run("do it", **settings)
    prompt = provider.seen[1].prompt if provider.seen[1:] else ""
    port = provider.port
print(json.dumps({
    "faults": faults, "stop": result.stop_reason, "message": result.message, "told": prompt, "port": port,
    "reached": [list(place) if isinstance(place, tuple) else str(place) for place in reached],
    "whole": (full / "f.py").read_text() == old, "files": sorted(os.listdir(full)),
}))
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What happened there."""
    work, full = tmp_path_factory.mktemp("work"), tmp_path_factory.mktemp("full")
    outer = ["bwrap", "--unshare-user", "--uid", "4242", "--unshare-net", "--bind", "/", "/", "--dev", "/dev"]
    try:
        trial = subprocess.run(
            [*outer, "--size", "4096", "--tmpfs", str(full), "true"], capture_output=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("bubblewrap is not installed")
    if trial.returncode:
        pytest.skip(f"bubblewrap does not work here: {trial.stderr.decode()}")
    environment = {
        "PATH": process_environment()["PATH"],
        "OPENAI_API_KEY": "x",
        "PYTHONPATH": str(Path(__file__).parents[1]),
    }
    command = [
        *outer,
        "--size",
        "65536",
        "--tmpfs",
        str(full),
        sys.executable,
        "-c",
        SCRIPT,
        str(work),
        str(full),
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_t71_a_run_reaches_its_provider_and_nothing_else(alone: dict[str, Any]) -> None:
    assert alone["stop"] == "answered", alone["message"]
    assert {tuple(place) for place in alone["reached"]} == {("127.0.0.1", alone["port"])}


def test_t43_an_edit_on_a_full_disk_is_told_and_leaves_the_file_whole(alone: dict[str, Any]) -> None:
    assert "no space left" in alone["told"].lower()
    assert alone["whole"]
    assert alone["files"] == ["f.py"]


def test_t44_a_user_without_a_home_is_told_what_to_set(alone: dict[str, Any]) -> None:
    state, config = alone["faults"]
    assert "CHIMERA_STATE_DIR" in state
    assert "CHIMERA_CONFIG_DIR" in config


def test_t44_a_home_that_nobody_knows_is_an_error_of_usage() -> None:
    with pytest.raises(ConfigError, match="write the path without ~"):
        expanded("~no-such-user-of-this-machine/x")
