"""Questions to model servers near by: which model they serve and how much it takes in. A failure is silent: None.

Asked once, before a run, over plain `http.client`, so that neither litellm nor a proxy comes into it.
"""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from chimera.core.json_text import parsed
from chimera.core.model import Window
from chimera.workspace.addresses import is_loopback

ANSWER_TIMEOUT_S = 2.0
CONNECT_TIMEOUT_S = 0.2
OLLAMA_MOST = 32_768
"""Ollama reserves memory for the whole window it is asked for; a larger one must be asked for with --window."""
_MOST_BYTES = 4_000_000
_MOST_TOKENS = 10**12
# In order: what is loaded now counts before what the model could do.
_WINDOW_KEYS = ("loaded_context_length", "max_model_len", "n_ctx", "context_length", "max_context_length")


class LocalServer(Struct, frozen=True, kw_only=True):
    """A kind of server that people run on their own machine."""

    kind: str
    api_base: str
    prefix: str = "openai"
    """The litellm prefix under which it is talked to."""


LOCAL_SERVERS = (
    LocalServer(kind="Ollama", api_base="http://127.0.0.1:11434", prefix="ollama_chat"),
    LocalServer(kind="llama.cpp", api_base="http://127.0.0.1:8080/v1"),
    LocalServer(kind="LM Studio", api_base="http://127.0.0.1:1234/v1"),
    LocalServer(kind="vLLM", api_base="http://127.0.0.1:8000/v1"),
)


def served_model(server: LocalServer, *, api_key: str | None = None) -> str | None:
    """The name of the first chat model that a server reports, without prefix; None if it does not answer."""
    if server.prefix == "ollama_chat":
        listed = _objects(_ask(f"{server.api_base.rstrip('/')}/api/tags"), "models")
        names = [entry.get("name") for entry in listed]
    else:
        names = [entry.get("id") for entry in _models(server.api_base, api_key)]
    chat = [name for name in names if isinstance(name, str) and name and "embed" not in name.lower()]
    return chat[0] if chat else None


def reported_window(model: str, *, api_base: str, api_key: str | None = None) -> Window | None:
    """The window that the server of a model reports.

    Args:
        model: litellm name with its prefix.
        api_base: address of the server, with `/v1` where it has one.
        api_key: sent along, as with every request to this server.
    """
    prefix, _, name = model.partition("/")
    if prefix in {"ollama", "ollama_chat"}:
        tokens = _ollama_window(name, api_base)
    else:
        tokens = _openai_window(name, api_base, api_key)
    return Window(tokens=tokens, source="server") if tokens else None


def takes_tools(model: str, *, api_base: str, api_key: str | None = None) -> bool | None:
    """Whether the prompt template of a model on this machine has a place for tools; None where nobody says."""
    prefix, _, name = model.partition("/")
    root = api_base.rstrip("/").removesuffix("/v1")
    if not is_loopback(api_base):
        return None
    if prefix in {"ollama", "ollama_chat"}:
        shown = _ask(f"{root}/api/show", body={"model": name})
        able = shown.get("capabilities") if isinstance(shown, dict) else None
        return "tools" in able if isinstance(able, list) and able else None
    props = _ask(f"{root}/props", api_key=api_key)
    template = props.get("chat_template") if isinstance(props, dict) else None
    return "tools" in template if isinstance(template, str) and template else None


def _ollama_window(name: str, api_base: str) -> int | None:
    shown = _ask(f"{api_base.rstrip('/').removesuffix('/v1')}/api/show", body={"model": name})
    if not isinstance(shown, dict):
        return None
    info = shown.get("model_info")
    lengths = (
        [_positive(v) for k, v in info.items() if k.endswith(".context_length")]
        if isinstance(info, dict)
        else []
    )
    most = next(filter(None, lengths), None)
    chosen = re.search(r"^num_ctx\s+(\d{1,12})\b", str(shown.get("parameters") or ""), re.MULTILINE)
    if chosen and int(chosen[1]) > 0:
        return int(chosen[1])
    return min(most, OLLAMA_MOST) if most else None


def _openai_window(name: str, api_base: str, api_key: str | None) -> int | None:
    """Model list (vLLM, llama.cpp), then `/props` (llama.cpp), then the list of LM Studio's own API."""
    root = api_base.rstrip("/").removesuffix("/v1")
    if found := _window_of(name, _models(api_base, api_key)):
        return found
    props = _ask(f"{root}/props", api_key=api_key)
    settings = props.get("default_generation_settings") if isinstance(props, dict) else None
    if isinstance(settings, dict) and (tokens := _positive(settings.get("n_ctx"))):
        return tokens
    return _window_of(name, _objects(_ask(f"{root}/api/v0/models", api_key=api_key), "data"))


def _window_of(name: str, listed: list[dict[str, Any]]) -> int | None:
    """The window of the entry with this name, or of the only entry: many servers take any name."""
    named = [entry for entry in listed if entry.get("id") == name]
    for entry in named or (listed if len(listed) == 1 else []):
        meta = entry.get("meta")
        for values in (entry, meta if isinstance(meta, dict) else {}):
            for key in _WINDOW_KEYS:
                if tokens := _positive(values.get(key)):
                    return tokens
    return None


def _models(api_base: str, api_key: str | None) -> list[dict[str, Any]]:
    return _objects(_ask(f"{api_base.rstrip('/')}/models", api_key=api_key), "data")


def _objects(reply: Any, key: str) -> list[dict[str, Any]]:
    listed = reply.get(key) if isinstance(reply, dict) else None
    return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []


def _ask(url: str, *, body: Mapping[str, Any] | None = None, api_key: str | None = None) -> Any:
    """The JSON that a server answers; None for anything else."""
    try:
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        connect_s = CONNECT_TIMEOUT_S if is_loopback(url) else ANSWER_TIMEOUT_S
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=connect_s)
    except (ValueError, http.client.HTTPException):
        return None
    headers = {"accept": "application/json", "content-type": "application/json"}
    if api_key:
        headers["authorization"] = f"Bearer {api_key}"
    try:
        connection.connect()
        connection.sock.settimeout(ANSWER_TIMEOUT_S)
        sent = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", parts.path or "/", sent, headers)
        response = connection.getresponse()
        return parsed(response.read(_MOST_BYTES)) if response.status == 200 else None
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _positive(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 < value <= _MOST_TOKENS else None
