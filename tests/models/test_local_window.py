from typing import Any

import pytest

from chimera.core.model import Window
from chimera.models.local_window import LocalServer, reported_window, served_model
from chimera.workspace.addresses import is_loopback
from tests.provider import LoopbackProvider, Raw


def window_behind(pages: dict[str, Any], model: str = "openai/mine") -> tuple[int | None, list[str]]:
    with LoopbackProvider([], pages=pages) as provider:
        ollama = model.startswith("ollama")
        found = reported_window(model, api_base=provider.root if ollama else provider.url)
    assert found is None or found.source == "server"
    return (found.tokens if found else None), provider.asked


@pytest.mark.parametrize(
    ("pages", "tokens"),
    [
        pytest.param({"/v1/models": {"data": [{"id": "mine", "max_model_len": 40960}]}}, 40960, id="vLLM"),
        pytest.param(
            {"/v1/models": {"data": [{"id": "a.gguf", "meta": {"n_ctx": 8192, "n_ctx_train": 32768}}]}}, 8192, id="llama.cpp list",
        ),
        pytest.param(
            {"/v1/models": {"data": [{"id": "x"}]}, "/props": {"default_generation_settings": {"n_ctx": 4096}}}, 4096, id="llama.cpp props",
        ),
        pytest.param(
            {
                "/v1/models": {"data": [{"id": "mine"}, {"id": "other"}]},
                "/api/v0/models": {"data": [
                    {"id": "other", "max_context_length": 1}, {"id": "mine", "max_context_length": 131072, "loaded_context_length": 16000},
                ]},
            }, 16000, id="LM Studio",
        ),
        pytest.param({"/v1/models": {"data": [{"id": "fake"}]}}, None, id="says nothing"),
        pytest.param({"/v1/models": {"data": [{"id": "a", "max_model_len": 1}, {"id": "b", "max_model_len": 2}]}}, None, id="other models"),
        pytest.param({"/v1/models": {"data": [{"id": "mine", "max_model_len": 0}]}}, None, id="zero"),
        pytest.param({"/v1/models": {"data": [{"id": "mine", "max_model_len": None, "meta": None}]}}, None, id="null"),
        pytest.param({"/v1/models": ["?"], "/props": "?", "/api/v0/models": {"data": "?"}}, None, id="nonsense"),
        pytest.param({"/v1/models": Raw(body=b"<html>", content_type="text/html")}, None, id="no JSON"),
        pytest.param({}, None, id="not found"),
    ],
)  # fmt: skip
def test_the_window_is_what_an_openai_compatible_server_reports(
    pages: dict[str, Any], tokens: int | None
) -> None:
    assert window_behind(pages)[0] == tokens


@pytest.mark.parametrize(
    ("shown", "tokens"),
    [
        pytest.param({"model_info": {"qwen3.context_length": 8192, "qwen3.block_count": 3}}, 8192, id="small model"),
        pytest.param({"model_info": {"qwen3.context_length": 262144}}, 32768, id="memory is reserved, so capped"),
        pytest.param({"model_info": {"q.context_length": 262144}, "parameters": "stop x\nnum_ctx    65536\n"}, 65536, id="set by its owner"),
        pytest.param({"model_info": None}, None, id="null"),
    ],
)  # fmt: skip
def test_the_window_is_what_ollama_shows(shown: dict[str, Any], tokens: int | None) -> None:
    found, asked = window_behind({"/api/show": shown}, "ollama_chat/qwen3")
    assert (found, asked) == (tokens, ["/api/show"])


def test_a_server_that_says_it_in_the_list_is_asked_once() -> None:
    _, asked = window_behind({"/v1/models": {"data": [{"id": "mine", "max_model_len": 9}]}})
    assert asked == ["/v1/models"]


@pytest.mark.parametrize(
    "api_base", ["http://127.0.0.1:1/v1", "http://127.0.0.1:x/v1", "http://", "http://[::1/v1"]
)
def test_a_server_that_is_not_there_is_silent(api_base: str) -> None:
    try:
        found: Window | None = reported_window("openai/x", api_base=api_base)
    except ValueError as fault:
        pytest.fail(str(fault))
    assert found is None


def test_the_model_served_is_the_first_that_can_chat() -> None:
    pages = {
        "/v1/models": {"data": [{"id": "text-embedding-x"}, {"id": "coder"}]},
        "/api/tags": {"models": [{"name": "nomic-embed-text"}, {"name": "qwen3:8b"}]},
    }
    with LoopbackProvider([], pages=pages) as provider:
        assert served_model(LocalServer(kind="k", api_base=provider.url)) == "coder"
        ollama = LocalServer(kind="Ollama", api_base=provider.root, prefix="ollama_chat")
        assert served_model(ollama) == "qwen3:8b"
    with LoopbackProvider([], pages={"/v1/models": {"data": []}}) as empty:
        assert served_model(LocalServer(kind="k", api_base=empty.url)) is None


def test_loopback_is_told_by_the_host() -> None:
    assert is_loopback("http://localhost:1/v1")
    assert is_loopback("http://[::1]:1")
    assert is_loopback("http://127.0.0.53")
    assert not is_loopback("http://127.0.0.1.example.org/v1")
    assert not is_loopback("https://example.org")


@pytest.mark.parametrize("name", ["openai/x", "ollama_chat/x"])
@pytest.mark.parametrize("size", [10**400, -1, 0, True, 1.5, "8192"])
def test_a_window_without_measure_is_none(name: str, size: object) -> None:
    entry = {"id": "x", "max_model_len": size}
    shown = {"model_info": {"a.context_length": size}, "parameters": f"num_ctx {'9' * 5000}"}
    pages = {
        "/v1/models": {"data": [entry]},
        "/props": {"default_generation_settings": {"n_ctx": size}},
        "/api/show": shown,
    }
    with LoopbackProvider([], pages=pages) as provider:
        base = provider.root if name.startswith("ollama") else provider.url
        assert reported_window(name, api_base=base) is None


def test_an_answer_that_is_nested_without_end_is_none() -> None:
    with LoopbackProvider([], pages={"/v1/models": Raw(body=b"[" * 100_000)}) as provider:
        assert reported_window("openai/x", api_base=provider.url) is None
