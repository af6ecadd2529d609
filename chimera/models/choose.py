"""From the settings to a model: which one, with which key, behind which server, with which window."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec.structs import replace

from chimera.config import Config, state_dir
from chimera.core.context_budget import UNKNOWN_WINDOW
from chimera.core.messages import Usage
from chimera.core.model import Model, Window
from chimera.errors import ConfigError, ModelAuthError
from chimera.models import registry
from chimera.models.adapter import Adapter
from chimera.models.direct_model import DirectModel
from chimera.models.http_adapter import LITELLM_OPTIONS
from chimera.models.llama_server import (
    DEFAULT_WINDOW,
    ServedModel,
    check_model_file,
    find_llama_server,
    has_llama_server,
    lent_server,
)
from chimera.models.local_models import LOCAL, LocalModels, writes_calls
from chimera.models.local_window import LOCAL_SERVERS, LocalServer, reported_window, served_model, takes_tools
from chimera.models.ollama_model import OllamaModel
from chimera.models.option_types import check_options
from chimera.models.providers import BY_PREFIX, PROVIDERS, Provider
from chimera.models.retry import RetryingModel
from chimera.workspace.addresses import is_http
from chimera.workspace.environment import child_environment

if TYPE_CHECKING:
    from chimera.models.litellm_model import LiteLLMModel

_NO_KEY = "none"
"""Sent by litellm to a server of one's own that checks no key: its client insists on one."""
_OPENAI_HOST = "api.openai.com"
LOCAL_OPTIONS = {
    "temperature": 0.2,
    "dry_multiplier": 0.8,
    "dry_allowed_length": 64,
    "dry_penalty_last_n": 256,
}
"""What a model on this machine is asked for besides: at llama.cpp's own temperature of 0.8 small models lose their way, and
at a low one they write the same few tokens until their reply is full. Its DRY sampler makes a repetition of what the last 256
tokens hold ever less likely; only from 64 tokens on that no quote, colon or line end parts, lest it garble a copied line."""
_GPT = re.compile(r"gpt-(\d+)(?:\.(\d+))?")
# From here on OpenAI serves tools together with reasoning by its Responses API alone.
_FIRST_GPT_OF_RESPONSES = (5, 4)
_SCRIPTED = "scripted:"


def choose_model(
    config: Config,
    environment: Mapping[str, str],
    *,
    notify: Callable[[str], None] = lambda _: None,
    prepare: Callable[[], None] = lambda: None,
    servers: Sequence[LocalServer] = LOCAL_SERVERS,
    start: bool = True,
) -> RetryingModel:
    """The model of a run, wrapped in the retries; the caller closes it. Nothing is sent to a provider; local servers are asked.

    Without `config.model`: the model that the server at `config.api_base` reports, else the default model of the
    first provider in `PROVIDERS` whose key is set, else a local server found listening.

    Args:
        config: the settings.
        environment: where keys and addresses are looked up.
        notify: told about every retry and every parameter that a server refused.
        prepare: called once it is settled that litellm will be needed, if it will, before servers are asked for the
            window; `litellm_model.preload` makes good use of that time.
        servers: where a local server is looked for.
        start: whether the server of a `local:` model is started; without it the model only tells what it would be.

    Raises:
        ConfigError: there is no model to be had, the script of `scripted:FILE` cannot be played, or an option is wrong.
        ModelAuthError: the key of the provider is not set, or there is no such provider.
    """
    check_options(config.model_options)
    name, api_base = config.model, config.api_base
    if name is not None and name.startswith(_SCRIPTED):
        from chimera.models.script_file import load_script

        return RetryingModel(load_script(name.removeprefix(_SCRIPTED)), on_retry=notify)
    if name is not None and name.startswith(LOCAL):
        return local_model(config, environment, notify=notify, start=start)
    if api_base is not None:
        _check_address("api_base", api_base)
    if not name:
        name, api_base = _default(api_base, environment, servers)
        if name.startswith(LOCAL):
            notify(f"No model is set: using {name}, a model on this machine.")
            return local_model(replace(config, model=name), environment, notify=notify, start=start)
    elif api_base is not None and not _has_provider(name):
        name = f"openai/{name}"
    model = _adapted(_with_provider(name), api_base, config, environment, notify, prepare)
    return RetryingModel(model, on_retry=notify, on_close=model.close)


def local_model(
    config: Config,
    environment: Mapping[str, str],
    *,
    notify: Callable[[str], None] = lambda _: None,
    start: bool = True,
) -> RetryingModel:
    """The model of `local:NAME` or `local:PATH.gguf`, behind a server that is started for it and ended by `close`.

    Raises:
        ConfigError: no such model, no llama-server, or it cannot load the file. The message says what to do.
    """
    home, name = state_dir(environment), config.model or ""
    file = LocalModels(home).find(name.removeprefix(LOCAL))
    program = find_llama_server(environment, outside=config.workspace.resolve())
    check_model_file(file)
    if not start:
        window = Window(tokens=config.window or DEFAULT_WINDOW, source="asked for at its start")
        return RetryingModel(DirectModel(f"openai/{file.stem}", window=window), name=name)
    config = replace(config, model_options={**LOCAL_OPTIONS, **config.model_options})
    with ExitStack() as stack:
        server = stack.enter_context(
            lent_server(
                program,
                file,
                window=config.window,
                log=home / "llama-server.log",
                environment=child_environment(environment),
                starting=lambda: notify(
                    f"Starting {program.name} with {file.name}: loading takes seconds, a first answer may take minutes."
                ),
            )
        )
        # Without a window it is asked for: a server gives no more than its model was trained for.
        asked = replace(config, window=None)
        model = _adapted(f"openai/{server.name}", server.api_base, asked, environment, notify, lambda: None)
        stack.callback(model.close)
        close = stack.pop_all().close
    if config.window and model.window and model.window.tokens < config.window:
        notify(f"{file.name} has a window of {model.window.tokens:,} tokens, not of {config.window:,}.")
    served = ServedModel(model, server, takes_tools=False if writes_calls(file) else model.takes_tools)
    return RetryingModel(served, on_retry=notify, on_close=close, name=name)


def resolve_window(config: Config, model: Model) -> Window:
    """The window of a run: the argument, else what the model's server or the registry says, else 16,384.

    A server that was asked, although there is an argument, is believed where it has less.
    """
    served = model.window if model.window and model.window.source == "server" else None
    if config.window is not None and not (served and served.tokens < config.window):
        return Window(tokens=config.window, source="argument")
    return model.window or Window(tokens=UNKNOWN_WINDOW, source="unknown")


def has_price(name: str) -> bool:
    """Whether what a call to this model costs can be known. A script costs nothing, nor does a server of our own."""
    if name.startswith((_SCRIPTED, LOCAL)):
        return True
    known = registry.facts(name)
    return known is not None and known.cost_usd(Usage(input_tokens=1, output_tokens=1)) is not None


def _default(
    api_base: str | None, environment: Mapping[str, str], servers: Sequence[LocalServer]
) -> tuple[str, str | None]:
    """A model and its address where the settings name none."""
    if api_base is not None:
        key = BY_PREFIX["openai"].key(environment)
        if served := served_model(LocalServer(kind="given", api_base=api_base), api_key=key):
            return f"openai/{served}", api_base
        raise ConfigError(
            f"the server at {api_base!r} names no model: add --model openai/NAME, or check the address"
        )
    for provider in PROVIDERS:
        if provider.default_model and (provider.key(environment) or provider.has_login(environment)):
            return provider.default_model, None
    for server in servers:
        if served := served_model(server):
            return f"{server.prefix}/{served}", server.api_base
    if (models := LocalModels(state_dir(environment)).listed()) and has_llama_server(environment):
        return f"{LOCAL}{next(iter(models))}", None
    raise ConfigError(
        "no model: no provider key is set and no local server was found. Do one of these: "
        "export ANTHROPIC_API_KEY=... (or OPENAI_API_KEY, GEMINI_API_KEY, OPENROUTER_API_KEY, ...); "
        "start Ollama, llama.cpp, LM Studio or vLLM on its usual port; "
        "chimera run --model local:PATH.gguf TASK for a model file, with llama-server on PATH; "
        "chimera run --model openai/NAME --api-base http://HOST:PORT/v1 TASK for any other compatible server. "
        "To see chimera work without any model: chimera demo"
    )


def _adapted(
    name: str,
    api_base: str | None,
    config: Config,
    environment: Mapping[str, str],
    notify: Callable[[str], None],
    prepare: Callable[[], None],
) -> Adapter:
    provider = BY_PREFIX.get(name.partition("/")[0])
    if provider is not None and api_base is None:
        api_base = provider.api_base(environment)
        if api_base is not None:
            _check_address(" or ".join(provider.address_variables), api_base)
    api_key = _key(provider, name, api_base, environment)
    direct = _goes_direct(provider, name, api_base, config)
    if not direct:
        prepare()
    window = None if config.window is None else Window(tokens=config.window, source="argument")
    if window is None and api_base is not None:
        window = reported_window(name, api_base=api_base, api_key=api_key)
    if window is None and provider is not None and provider.is_ollama:
        # Ollama takes whatever window it is asked for and cuts the prompt silently where it is not asked.
        window = Window(tokens=UNKNOWN_WINDOW, source="unknown")
    if api_key is None and not direct and name.startswith("openai/"):
        api_key = _NO_KEY
    options = config.model_options
    made = _adapter_class(direct=direct, ollama=provider is not None and provider.is_ollama)
    model = made(name, api_base=api_base, api_key=api_key, options=options, window=window, notify=notify)
    if api_base is not None and config.tool_protocol == "auto":
        model.takes_tools = takes_tools(name, api_base=api_base, api_key=api_key)
    return model


def _adapter_class(
    *, direct: bool, ollama: bool
) -> type[DirectModel] | type[OllamaModel] | type[LiteLLMModel]:
    if direct:
        return OllamaModel if ollama else DirectModel
    from chimera.models.litellm_model import LiteLLMModel

    return LiteLLMModel


def _goes_direct(provider: Provider | None, name: str, api_base: str | None, config: Config) -> bool:
    """Whether litellm is not needed: the server's format is spoken here, or the user says so."""
    if config.adapter != "auto":
        return config.adapter == "direct"
    if provider is None or LITELLM_OPTIONS & config.model_options.keys():
        return False
    if provider.is_ollama or provider.endpoint is None:
        return provider.is_ollama
    model = name.partition("/")[2]
    known = registry.facts(name)
    if model.startswith("responses/") or (known is not None and known.responses_only):
        return False
    if urlsplit(api_base or provider.endpoint).hostname != _OPENAI_HOST:
        return True
    version = _GPT.match(model)
    reasons = config.model_options.get("reasoning_effort") != "none"
    newer = version is not None and (int(version[1]), int(version[2] or 0)) >= _FIRST_GPT_OF_RESPONSES
    return not (newer and reasons)


def _check_address(name: str, address: str) -> None:
    if not is_http(address):
        raise ConfigError(f"{name} is {address!r}; it must be a URL such as http://127.0.0.1:8080/v1")


def _key(
    provider: Provider | None, name: str, api_base: str | None, environment: Mapping[str, str]
) -> str | None:
    """The key to send; None: there is none, or litellm finds another way in."""
    if provider is None:
        return None
    if key := provider.key(environment):
        return key
    own_server = provider.prefix == "openai" and api_base is not None
    if not provider.needs_key or own_server or provider.has_login(environment):
        return None
    raise ModelAuthError(
        f"{name} needs a key and {' or '.join(provider.keys)} is not set: export {provider.keys[0]}=..., "
        "or choose another model with --model"
    )


def _has_provider(name: str) -> bool:
    prefix, slash, _ = name.partition("/")
    return bool(slash) and (prefix in BY_PREFIX or prefix in registry.known_providers())


def _with_provider(name: str) -> str:
    """The name with its provider's prefix, if the provider can be told.

    Raises:
        ModelAuthError: no such provider, or a bare name that the registry does not know.
    """
    prefix, slash, rest = name.partition("/")
    if slash and not rest:
        raise ModelAuthError(f"the model {name!r} has no name behind its provider: write {name}NAME")
    if _has_provider(name):
        return name
    own = "For a compatible server of your own: --model openai/NAME --api-base http://HOST:PORT/v1"
    if slash:
        close = difflib.get_close_matches(prefix, {*BY_PREFIX, *registry.known_providers()}, n=1)
        hint = (
            f"did you mean {close[0]}/{rest}?"
            if close
            else "names are PROVIDER/MODEL as litellm spells them."
        )
        raise ModelAuthError(f"there is no provider {prefix!r} for the model {name!r}: {hint} {own}")
    facts = registry.facts(name)
    if facts is None:
        raise ModelAuthError(
            f"the model {name!r} is unknown: write it as PROVIDER/MODEL, for example openai/{name}. {own}"
        )
    return f"{facts.provider}/{name}" if facts.provider in BY_PREFIX else name
