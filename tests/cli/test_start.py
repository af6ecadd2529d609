"""What a run by the direct adapter loads before its first request, and what it starts in a step. Counted, not timed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import UNCONFINED, Chimera
from tests.provider import LoopbackProvider, ask, say

NEEDLESS = {
    "asyncio",
    "git",
    "httpx",
    "litellm",
    "openai",
    "pathspec",
    "pydantic",
    "rich",
    "tiktoken",
    "yaml",
}
MOST_MODULES = 390
"""With Python 3.11 there are some 350; other releases have a few more of their own."""
PROGRAM = """
import json, sys
requests, started, loaded = [], [], []

def watch(event, arguments):
    if event == "http.client.send" and arguments[1].startswith(b"POST"):
        loaded.extend([] if requests else sys.modules)
        requests.append(1)
    if event == "subprocess.Popen":
        started.append((len(requests), str(arguments[0]).rpartition("/")[2]))

sys.addaudithook(watch)
from chimera.__main__ import main
code = main()
print(json.dumps([code, len(requests), loaded, started]), file=sys.stderr)
"""
STEPS = 6


@pytest.fixture
def server() -> LoopbackProvider:
    calls = [ask("shell", {"command": f"true {n}"}) for n in range(STEPS)]
    return LoopbackProvider([*calls, say("done")])


def test_little_is_loaded_before_the_first_request_and_one_process_is_started_in_a_step(
    repository: Path, chimera: Chimera, server: LoopbackProvider
) -> None:
    if repository.stat().st_ctime_ns % 1_000_000 == 0:
        pytest.skip("this file system stamps changes too coarsely to tell that nothing was changed")
    settings = ("--model", "openai/fake", "--window", "32000", *UNCONFINED, "-q", "--api-base")
    with LoopbackProvider([say("done")]) as earlier:  # what the tools cost is counted by the first run of all
        assert chimera("run", "go", *settings, earlier.url).code == 0
    with server:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, "run", "go", *settings, server.url],
            capture_output=True,
            text=True,
            check=True,
        )
    code, requests, loaded, started = json.loads(done.stderr)
    assert (code, requests) == (0, STEPS + 1)
    assert NEEDLESS.isdisjoint(loaded)
    assert len(loaded) <= MOST_MODULES
    # The first snapshot is taken while the first request is on its way.
    assert "git" not in [program for request, program in started if request == 0]
    in_steps = [(n, program) for n, program in started if 0 < n <= STEPS and (n, program) != (1, "git")]
    assert in_steps == [(n, "bash") for n in range(1, STEPS + 1)]
