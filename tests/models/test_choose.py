from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from chimera.config import Config
from chimera.core.messages import user
from chimera.core.model import Model, Request, Window
from chimera.errors import ConfigError, ModelAuthError
from chimera.models.choose import choose_model, resolve_window
from chimera.models.local_window import LocalServer
from chimera.models.providers import PROVIDERS
from chimera.models.scripted import ScriptedModel
from tests.provider import LoopbackProvider

NOBODY = "http://127.0.0.1:1/v1"


def chosen(environment: Mapping[str, str] | None = None, **settings: Any) -> Model:
    return choose_model(Config(**settings), environment or {}, servers=())


def test_a_script_is_played_behind_the_ordinary_protocol(tmp_path: Path) -> None:
    script = tmp_path / "s.jsonl"
    script.write_text('{"error": "throttle", "retry_after_s": 0}\n{"text": "hi"}\n')
    told: list[str] = []
    model = choose_model(Config(model=f"scripted:{script}"), {}, notify=told.append)
    assert model.name == f"scripted:{script}"
    completion = model.complete(Request(messages=(user("x"),), max_tokens=1), lambda _: None)
    assert completion.message.content == "hi"
    assert "attempt 2 of 6" in told[0]


def test_a_script_that_is_not_there_is_an_error_of_the_settings() -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        chosen(model="scripted:/nonexistent.yaml")


@pytest.mark.parametrize("provider", [p for p in PROVIDERS if p.default_model], ids=lambda p: str(p.prefix))
def test_a_key_alone_chooses_the_default_model_of_its_provider(provider: Any) -> None:
    for variable in provider.keys:
        assert chosen({variable: "k"}).name == provider.default_model


def test_the_first_provider_of_the_table_wins_and_a_blank_key_is_none() -> None:
    assert chosen({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}).name.startswith("anthropic/")
    assert chosen({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "  "}).name.startswith("openai/")


@pytest.mark.case("E5")
@pytest.mark.parametrize("environment", [{}, {"ANTHROPIC_API_KEY": ""}, {"OPENAI_API_KEY": "k"}])
def test_a_missing_key_is_told_by_its_variable(environment: dict[str, str]) -> None:
    with pytest.raises(ModelAuthError, match="ANTHROPIC_API_KEY is not set: export ANTHROPIC_API_KEY="):
        chosen(environment, model="anthropic/claude-sonnet-4-5")


def test_another_login_than_a_key_is_left_to_the_provider() -> None:
    assert chosen({"ANTHROPIC_AUTH_TOKEN": "t"}, model="anthropic/claude-sonnet-4-5").name


def test_a_server_of_ones_own_needs_no_key() -> None:
    assert chosen(model="openai/fake", api_base=NOBODY).name == "openai/fake"
    with pytest.raises(ModelAuthError, match="OPENAI_API_KEY"):
        chosen(model="openai/gpt-5")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("qwen3", "openai/qwen3"),
        ("Qwen/Qwen3-Coder", "openai/Qwen/Qwen3-Coder"),
        ("hosted_vllm/q", "hosted_vllm/q"),
    ],
)
def test_a_name_without_provider_belongs_to_the_server_given(given: str, name: str) -> None:
    assert chosen(model=given, api_base=NOBODY).name == name


def test_a_bare_name_of_the_registry_gets_its_provider() -> None:
    assert chosen({"OPENAI_API_KEY": "k"}, model="gpt-5").name == "openai/gpt-5"
    with pytest.raises(ModelAuthError, match="ANTHROPIC_API_KEY"):
        chosen(model="claude-sonnet-4-5")


@pytest.mark.case("E5")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("antropic/claude", "did you mean anthropic/claude"),
        ("zzzqqq/model", "names are PROVIDER/MODEL"),
        ("nosuchmodel", "write it as PROVIDER/MODEL, for example openai/nosuchmodel"),
        ("openai/", "no name behind its provider"),
    ],
)
def test_an_unknown_provider_or_model_is_told_with_advice(name: str, message: str) -> None:
    with pytest.raises(ModelAuthError, match=message):
        chosen({"OPENAI_API_KEY": "k"}, model=name)


def test_without_key_and_server_the_message_says_what_to_type() -> None:
    with pytest.raises(ConfigError) as caught:
        chosen()
    for part in ("export ANTHROPIC_API_KEY=", "--model openai/NAME --api-base http://", "chimera demo"):
        assert part in str(caught.value)


def test_a_local_server_is_found_where_no_key_is_set() -> None:
    pages = {"/v1/models": {"data": [{"id": "coder", "max_model_len": 40000}]}}
    with LoopbackProvider([], pages=pages) as provider:
        servers = (LocalServer(kind="a", api_base=NOBODY), LocalServer(kind="b", api_base=provider.url))
        model = choose_model(Config(), {}, servers=servers)
    assert (model.name, model.window) == ("openai/coder", Window(tokens=40000, source="server"))


def test_the_server_given_names_its_model() -> None:
    with LoopbackProvider([], model="served") as provider:
        assert chosen(api_base=provider.url).name == "openai/served"
    with pytest.raises(ConfigError, match="names no model: add --model openai/NAME"):
        chosen(api_base=NOBODY)


@pytest.mark.parametrize("api_base", [
    "localhost:8080", "garbage", "ftp://x/v1", "http:///v1", "http://x:port/v1", "http://x:99999/v1", "http://x:0/v1",
    "http://[::1/v1", "http://a..b/v1", f"http://{'a' * 64}/v1", f"http://{'é' * 64}/v1",
])  # fmt: skip
def test_an_address_that_is_no_url_is_an_error_of_the_settings(api_base: str) -> None:
    with pytest.raises(ConfigError, match=r"api_base is .* it must be a URL"):
        chosen(model="openai/x", api_base=api_base)
    with pytest.raises(ConfigError, match=r"OPENAI_API_BASE is .* it must be a URL"):
        chosen({"OPENAI_BASE_URL": api_base, "OPENAI_API_KEY": "k"}, model="openai/x")


def test_the_address_may_come_from_the_environment() -> None:
    pages = {"/v1/models": {"data": [{"id": "x", "max_model_len": 5000}]}}
    with LoopbackProvider([], pages=pages) as provider:
        model = chosen({"OPENAI_BASE_URL": provider.url}, model="openai/x")
    assert resolve_window(Config(), model).tokens == 5000


def test_the_window_is_argument_then_server_then_registry_then_unknown() -> None:
    pages = {"/v1/models": {"data": [{"id": "gpt-5", "max_model_len": 5000}]}}
    with LoopbackProvider([], pages=pages) as provider:
        by_argument = Config(model="openai/gpt-5", api_base=provider.url, window=777, tool_protocol="native")
        model = choose_model(by_argument, {}, servers=())
        assert provider.asked == []
        assert resolve_window(by_argument, model) == Window(tokens=777, source="argument")
        by_server = Config(model="openai/gpt-5", api_base=provider.url)
        assert resolve_window(by_server, choose_model(by_server, {})) == Window(tokens=5000, source="server")
    by_registry = Config(model="openai/gpt-5")
    model = choose_model(by_registry, {"OPENAI_API_KEY": "k"})
    assert resolve_window(by_registry, model) == Window(tokens=272_000, source="registry")
    unknown = resolve_window(Config(), ScriptedModel([]))
    assert unknown == Window(tokens=16_384, source="unknown")


def test_an_ollama_model_nobody_knows_is_asked_for_the_window_we_assume() -> None:
    with LoopbackProvider([], pages={}) as provider:
        model = chosen({"OLLAMA_API_BASE": provider.root}, model="ollama_chat/mine")
    assert resolve_window(Config(), model) == Window(tokens=16_384, source="unknown")


def test_the_import_begins_before_a_server_is_asked_and_not_without_a_key() -> None:
    order: list[str] = []
    with LoopbackProvider([], pages={}) as provider:
        choose_model(
            Config(model="openai/x", api_base=provider.url, adapter="litellm"),
            {},
            prepare=lambda: order.extend(provider.asked or ["first"]),
        )
        assert provider.asked
    assert order == ["first"]
    with pytest.raises(ModelAuthError):
        choose_model(Config(model="anthropic/x"), {}, prepare=lambda: order.append("too early"))
    choose_model(
        Config(model="anthropic/x"), {"ANTHROPIC_API_KEY": "k"}, prepare=lambda: order.append("with a key")
    )
    assert order == ["first", "with a key"]


KEYS = dict.fromkeys((name for provider in PROVIDERS for name in provider.keys), "k")


def goes_direct(model: str, **settings: Any) -> bool:
    prepared: list[str] = []
    choose_model(Config(model=model, **settings), KEYS, prepare=lambda: prepared.append(""), servers=())
    return not prepared


@pytest.mark.parametrize(
    ("model", "direct"),
    [
        ("openai/gpt-4.1", True),
        ("openai/gpt-5", True),
        # OpenAI serves these with tools by its Responses API only.
        ("openai/gpt-5.4-mini", False),
        ("openai/gpt-6", False),
        ("openai/gpt-5-codex", False),
        ("openai/responses/gpt-4.1", False),
        ("openrouter/openai/gpt-6.1-sol", True),
        ("groq/x", True),
        ("mistral/x", True),
        ("anthropic/x", False),
        ("gemini/x", False),
        ("ollama_chat/x", True),
        ("ollama/x", True),
        ("perplexity/x", False),
        ("azure/x", False),
    ],
)
def test_a_provider_that_speaks_the_openai_format_needs_no_litellm(model: str, direct: bool) -> None:
    window = 9000
    assert goes_direct(model, window=window) is direct
    assert not goes_direct(model, window=window, adapter="litellm")


def test_a_server_of_ones_own_is_spoken_to_directly_whatever_its_model() -> None:
    assert goes_direct("openai/gpt-6", window=9000, api_base=NOBODY)
    assert goes_direct("openai/gpt-5.4", window=9000, model_options={"reasoning_effort": "none"})


def test_instructions_to_litellm_reach_litellm_and_no_server() -> None:
    assert not goes_direct("groq/x", window=9000, model_options={"drop_params": True})
    with pytest.raises(ConfigError, match="'api_key' is one of litellm"):
        goes_direct("groq/x", window=9000, adapter="direct", model_options={"api_key": "k"})


def test_the_direct_adapter_is_an_error_of_the_settings_where_it_cannot_speak() -> None:
    with pytest.raises(ConfigError, match="--adapter litellm"):
        goes_direct("anthropic/x", adapter="direct", window=9000)
    with pytest.raises(ConfigError, match="adapter is 'fast'; it must be one of: auto, litellm, direct"):
        Config(adapter="fast")  # type: ignore[arg-type]
