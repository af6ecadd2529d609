"""`local:` models through the choice of a model: started, asked, named, ended; and whether templates take tools."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest

from chimera.config import Config
from chimera.core.messages import Usage, system, user
from chimera.core.model import Request, Window
from chimera.errors import ConfigError, ModelError
from chimera.models.choose import choose_model, resolve_window
from chimera.models.llama_server import PROGRAM_VARIABLE, servers_kept
from chimera.models.local_models import KNOWN_MODELS, LocalModels
from chimera.models.local_window import takes_tools
from tests.models.test_llama_server import ENVIRONMENT, FAKE
from tests.provider import LoopbackProvider


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**ENVIRONMENT, PROGRAM_VARIABLE: str(FAKE), "CHIMERA_STATE_DIR": str(tmp_path / "state")}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF")
    return path


def test_a_local_model_is_served_asked_for_its_window_and_ended(
    environment: dict[str, str], file: Path
) -> None:
    told: list[str] = []
    model = choose_model(Config(model=f"local:{file}"), environment, notify=told.append, servers=())
    try:
        assert model.name == f"local:{file}"
        assert model.window is not None
        assert (model.window.tokens, model.window.source) == (8_192, "server")
        assert model.takes_tools is False
        assert "tiny.gguf" in told[0]
    finally:
        model.close()


def test_a_window_that_the_model_does_not_have_is_not_believed(
    environment: dict[str, str], file: Path
) -> None:
    told: list[str] = []
    config = Config(model=f"local:{file}", window=500_000)
    model = choose_model(config, environment, notify=told.append, servers=())
    try:
        assert resolve_window(config, model) == Window(tokens=100_000, source="server")
        assert "100,000 tokens, not of 500,000" in told[-1]
    finally:
        model.close()


def test_a_server_that_ends_in_the_middle_is_told_with_its_last_words_and_not_tried_again(
    environment: dict[str, str], file: Path
) -> None:
    config = Config(model=f"local:{file}")
    model = choose_model(config, environment, servers=())
    try:
        request = Request(messages=(system("s"), user("u")), max_tokens=9)
        assert model.complete(request, lambda text: None).usage == Usage(
            input_tokens=5, output_tokens=1, cost_usd=0.0
        )
        with pytest.raises(ModelError, match=r"(?s)ended in the middle.*smaller --window.*out of memory"):
            model.complete(request, lambda text: None)
    finally:
        model.close()


@pytest.mark.parametrize(
    ("given", "sent"),
    [({}, [0.2, 0.8, 64, 256]), ({"dry_multiplier": 0, "temperature": 1}, [1, 0, 64, 256])],
)
def test_a_local_model_is_kept_from_repeating_itself_unless_the_user_says_otherwise(
    environment: dict[str, str], file: Path, given: dict[str, float], sent: list[float]
) -> None:
    config = Config(model=f"local:{file}", model_options=given)
    model = choose_model(config, environment, servers=())
    try:
        model.complete(Request(messages=(system("s"), user("u")), max_tokens=9), lambda text: None)
    finally:
        model.close()
    log = (Path(environment["CHIMERA_STATE_DIR"]) / "llama-server.log").read_text()
    asked = next(line.removeprefix("asked ") for line in log.splitlines() if line.startswith("asked "))
    assert list(json.loads(asked).values()) == sent


def test_a_model_of_the_list_that_only_writes_its_calls_begins_with_json(
    environment: dict[str, str], tmp_path: Path
) -> None:
    able = {}
    for name in (KNOWN_MODELS["qwen2.5-coder-1.5b"].file, "other.gguf"):
        (tmp_path / name).write_bytes(b"GGUF with tools in its template")
        config = Config(model=f"local:{tmp_path / name}")
        model = choose_model(config, environment, servers=())
        able[name] = model.takes_tools
        model.close()
    assert list(able.values()) == [False, True]


def test_a_server_that_is_kept_serves_the_next_model_of_its_file_unless_it_has_ended(
    environment: dict[str, str], file: Path
) -> None:
    told: list[str] = []
    request = Request(messages=(system("s"), user("u")), max_tokens=9)

    def started() -> int:
        model = choose_model(Config(model=f"local:{file}"), environment, notify=told.append, servers=())
        try:
            with suppress(ModelError):
                model.complete(request, lambda text: None)
        finally:
            model.close()
        return sum("Starting" in text for text in told)

    with servers_kept():
        # The second reply is what this server ends at.
        assert [started(), started(), started()] == [1, 1, 2]
    assert started() == 3


def test_without_any_setting_a_local_model_is_used_and_said(environment: dict[str, str], file: Path) -> None:
    LocalModels(Path(environment["CHIMERA_STATE_DIR"])).add(file)
    told: list[str] = []
    model = choose_model(Config(window=4_096), environment, notify=told.append, servers=())
    try:
        assert model.name == "local:tiny"
        assert "No model is set: using local:tiny" in told[0]
    finally:
        model.close()


def test_a_model_that_is_only_looked_at_starts_nothing(environment: dict[str, str], file: Path) -> None:
    model = choose_model(Config(model=f"local:{file}"), environment, servers=(), start=False)
    assert (model.name, model.window and model.window.tokens) == (f"local:{file}", 8_192)
    assert not (Path(environment["CHIMERA_STATE_DIR"]) / "llama-server.log").exists()


def test_a_file_that_is_not_there_is_told_before_anything_is_said_to_start(
    environment: dict[str, str], tmp_path: Path
) -> None:
    told: list[str] = []
    with pytest.raises(ConfigError, match="cannot be read"):
        choose_model(Config(model=f"local:{tmp_path}/no.gguf"), environment, notify=told.append, servers=())
    assert told == []


def test_without_a_server_the_ways_to_get_one_are_told(environment: dict[str, str], file: Path) -> None:
    bare = {**environment, "PATH": os.devnull}
    del bare[PROGRAM_VARIABLE]
    with pytest.raises(ConfigError, match="Ways to get it"):
        choose_model(Config(model=f"local:{file}"), bare, servers=())


@pytest.mark.parametrize(
    ("name", "path", "page", "able"),
    [
        ("openai/x", "/props", {"chat_template": "{% if tools %}"}, True),
        ("openai/x", "/props", {"chat_template": "{{ messages }}"}, False),
        ("openai/x", "/props", {}, None),
        ("openai/x", "/nothing", {}, None),
        ("ollama_chat/x", "/api/show", {"capabilities": ["completion", "tools"]}, True),
        ("ollama_chat/x", "/api/show", {"capabilities": ["completion"]}, False),
        ("ollama_chat/x", "/api/show", {}, None),
    ],
)
def test_a_template_says_whether_it_takes_tools(
    name: str, path: str, page: dict[str, object], able: bool | None
) -> None:
    with LoopbackProvider([], pages={path: page}) as provider:
        assert takes_tools(name, api_base=provider.url) is able
    assert takes_tools(name, api_base="http://203.0.113.1/v1") is None
