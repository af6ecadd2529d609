"""The whole loop before a real engine with a tiny model. What that answers is nonsense; what it is sent must be legal.

CHIMERA_LLAMA_SERVER=/path/to/llama-server CHIMERA_TEST_GGUF=/path/to/smollm2-135m.gguf pytest -m local
"""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import chimera
from chimera import api
from chimera.config import process_environment
from chimera.core.state import StopReason
from chimera.models.llama_server import PROGRAM, PROGRAM_VARIABLE, LlamaServer, start_llama_server
from chimera.record.events import Event
from tests.provider import LoopbackProvider, Raw, Script, Seen
from tests.strict_provider import violations

MODEL_VARIABLE = "CHIMERA_TEST_GGUF"
WINDOW = 4_096
TASK = "Read notes.txt and say in which year the lighthouse was built."
PAGE = "Page {}. " + "The keeper wrote of the wind, of the oil that was left, and of ships that passed. " * 20
MOST_ROUNDS = 12
MOST_WRITTEN = 100
"""Tokens a reply: a tiny model that goes round in circles stops by itself only where its window ends."""
ENDS = {StopReason.ANSWERED, StopReason.MAX_STEPS, StopReason.NO_PROGRESS, StopReason.BAD_COMPLETION}

pytestmark = [pytest.mark.local, pytest.mark.timeout(900), pytest.mark.xdist_group("engine")]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    environment = process_environment()
    program = environment.get(PROGRAM_VARIABLE) or shutil.which(PROGRAM)
    model = environment.get(MODEL_VARIABLE)
    if program is None or model is None:
        pytest.skip(f"needs {PROGRAM} (PATH or {PROGRAM_VARIABLE}) and a model file ({MODEL_VARIABLE})")
    log = tmp_path_factory.mktemp("engine") / "server.log"
    server = start_llama_server(
        Path(program), Path(model), window=WINDOW, log=log, environment=dict(environment)
    )
    yield server
    server.close()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    lines = [f"{1700 + n}: keeper number {n} wrote nothing of note." for n in range(40)]
    (root / "notes.txt").write_text("\n".join([*lines, "1742: the lighthouse was built."]) + "\n")
    return root


def passed_on(engine: LlamaServer, statuses: list[int]) -> Script:
    """Each request goes to the engine, and its bytes come back; what it thought of the request is noted."""
    parts = urlsplit(engine.api_base)

    def answer(seen: Seen, _: int) -> Raw:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=600)
        try:
            body = json.dumps({**seen.body, "seed": 7, "max_tokens": MOST_WRITTEN})
            connection.request("POST", seen.path, body, {"content-type": "application/json"})
            reply = connection.getresponse()
            statuses.append(reply.status)
            kind = reply.getheader("content-type") or ""
            return Raw(body=reply.read(), status=reply.status, content_type=kind)
        finally:
            connection.close()

    return answer


def converse(
    provider: LoopbackProvider, workspace: Path, *, window: int, until: Callable[[list[Event]], bool]
) -> list[Event]:
    """A run, and page after page told to it until the events are what is waited for."""
    events: list[Event] = []
    options: dict[str, Any] = {
        "model": "openai/local",
        "api_base": provider.url,
        "workspace": workspace,
        "state": workspace.parent / "state",
        "window": window,
        "mode": "yolo",
        "sandbox": "danger-full-access",
        "tool_protocol": "json",
        "tools": ("read_file", "search"),
        "model_options": {"temperature": 0.2},
        "max_steps": 8,
        "emit": events.append,
    }
    result = chimera.run(TASK, **options)
    for number in range(MOST_ROUNDS):
        if until(events):
            break
        assert result.stop_reason in ENDS, result
        result = api.resume(result.run_id, PAGE.format(number), **options)
    return events


def compacted(events: list[Event]) -> bool:
    return any(event.type == "compaction" and event.fields["changed"] for event in events)


def engines() -> list[str]:
    """The command lines of the servers that run on this machine."""
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return sorted(line for line in listed.splitlines() if PROGRAM in line)


def test_a_real_engine_is_sent_nothing_illegal_through_a_compaction_in_a_small_window(
    engine: LlamaServer, workspace: Path
) -> None:
    statuses: list[int] = []
    with LoopbackProvider(passed_on(engine, statuses)) as provider:
        events = converse(provider, workspace, window=WINDOW, until=compacted)
    assert compacted(events)
    assert set(statuses) == {200}
    assert [fault for seen in provider.seen for fault in violations(seen.messages)] == []
    assert all(TASK in seen.prompt for seen in provider.seen)
    assert provider.seen[-1].body["response_format"]["type"] == "json_schema"


def test_a_real_engine_that_takes_less_than_was_thought_is_believed(
    engine: LlamaServer, workspace: Path
) -> None:
    statuses: list[int] = []
    with LoopbackProvider(passed_on(engine, statuses)) as provider:
        events = converse(provider, workspace, window=4 * WINDOW, until=compacted)
    assert statuses.count(400) == 1
    assert statuses[-1] == 200
    assert compacted(events)
    assert [fault for seen in provider.seen for fault in violations(seen.messages)] == []


def test_a_model_file_is_run_by_a_server_of_its_own_that_is_gone_afterwards(
    engine: LlamaServer, workspace: Path
) -> None:
    before, events = engines(), list[Event]()
    result = chimera.run(
        TASK,
        model=f"local:{process_environment()[MODEL_VARIABLE]}",
        workspace=workspace,
        state=workspace.parent / "state",
        window=WINDOW,
        mode="yolo",
        sandbox="danger-full-access",
        max_steps=4,
        emit=events.append,
    )
    assert result.stop_reason in ENDS, result
    started = next(event for event in events if event.type == "run_started")
    assert started.fields["protocol"] == "json", "its template has no place for tools"
    assert started.fields["window"] == WINDOW
    assert engines() == before, "its server outlived the run"
