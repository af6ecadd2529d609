"""What is published about a model: window, longest output, prices. Read from the price map that ships with litellm.

The map is read as the JSON file it is; litellm itself is never imported here. Unknown is None, never zero.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from chimera.core.messages import Usage

_PRICE_MAP = "model_prices_and_context_window_backup.json"
_MARGINS = (b"", b"    ")
_MOST_ENTRY = 50_000
_SPECIMEN = "sample_spec"
_PROVIDER_LIST = "provider_endpoints_support_backup.json"
_TIER = re.compile(r"_above_(\d+)k_tokens$")
_CHAT_MODES = {"chat", "responses", "completion", None}

# Providers whose bare model names appear in the map under a name of their own.
_ALIASES = {"ollama_chat": "ollama", "bedrock": "bedrock_converse"}


class ModelFacts(Struct, frozen=True, kw_only=True):
    """One entry of the map. Prices are US dollars per token."""

    provider: str
    window: int | None
    """Tokens of the prompt; where it equals `max_output` the window is shared, which a budget below it respects."""
    max_output: int | None
    prices: Mapping[str, float]
    """Empty where the price is unknown. Keys as in the map: `input_cost_per_token`, ..."""
    responses_only: bool = False
    """The provider serves it by its Responses API and not by chat completions."""

    def cost_usd(self, usage: Usage) -> float | None:
        """What a call cost, cached tokens at their own price; None where the price is unknown."""
        input_price = self._price("input_cost_per_token", usage.input_tokens)
        output_price = self._price("output_cost_per_token", usage.input_tokens)
        if input_price is None or output_price is None:
            return None
        read_price = self._price("cache_read_input_token_cost", usage.input_tokens)
        write_price = self._price("cache_creation_input_token_cost", usage.input_tokens)
        cached, written = usage.cached_input_tokens, usage.cache_write_tokens
        return (
            max(usage.input_tokens - cached - written, 0) * input_price
            + cached * (input_price if read_price is None else read_price)
            + written * (write_price or input_price)
            + usage.output_tokens * output_price
        )

    def _price(self, key: str, input_tokens: int) -> float | None:
        """The price of the highest tier that a prompt of this size reaches."""
        price, reached = self.prices.get(key), 0
        for name, tiered in self.prices.items():
            tier = _TIER.search(name)
            if tier and name == key + tier[0] and reached < int(tier[1]) * 1000 < input_tokens:
                price, reached = tiered, int(tier[1]) * 1000
        return price


@cache
def facts(model: str) -> ModelFacts | None:
    """The entry of a model by its litellm name, with or without provider prefix; None where there is none.

    A name is never matched by its tail alone: a prefix must agree with the provider of the entry.
    """
    prefix, _, rest = model.partition("/")
    provider = _ALIASES.get(prefix, prefix)
    entries = _entries_ending(rest or model)
    if model in entries:
        return _facts(entries[model])
    for name in (f"{provider}/{rest}", rest):
        entry = entries.get(name, {})
        if provider in {entry.get("litellm_provider"), name.partition("/")[0]} and entry:
            return _facts(entry)
    return None


@cache
def known_providers() -> frozenset[str]:
    """Every provider prefix that litellm names in the files it ships; empty where litellm is not installed."""
    listed = _read(_PROVIDER_LIST).get("providers", {})
    mapped = {entry.get("litellm_provider") for entry in _entries().values()}
    prefixes = {name.partition("/")[0] for name in _entries() if "/" in name}
    return frozenset(name for name in {*listed, *mapped, *prefixes} if isinstance(name, str) and name)


def _facts(entry: Mapping[str, Any]) -> ModelFacts:
    prices = {
        key: float(value) for key, value in entry.items() if "cost" in key and isinstance(value, int | float)
    }
    if not (prices.get("input_cost_per_token") or prices.get("output_cost_per_token")):
        prices = {}  # a price of zero in the map means that nobody filled it in
    return ModelFacts(
        provider=str(entry.get("litellm_provider")),
        window=_positive(entry.get("max_input_tokens")) or _positive(entry.get("max_tokens")),
        max_output=_positive(entry.get("max_output_tokens")),
        prices=prices,
        responses_only=entry.get("mode") == "responses",
    )


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _entries_ending(end: str) -> dict[str, Mapping[str, Any]]:
    """The entries whose name is this or ends in it, by name.

    The others are not read: the whole map takes a tenth of a second, and memory for the run.
    """
    content, found = _content(_PRICE_MAP), {}
    key = f"{json.dumps(end)[1:]}: {{".encode()
    at = content.find(key) if end else -1
    while at >= 0:
        begin = at + len(key) - 1
        margin, quote, name = content[content.rfind(b"\n", 0, at) + 1 : begin - 2].partition(b'"')
        # As the file is laid out, only names of the map stand so far to the left.
        if quote and margin in _MARGINS:
            entry = _entry(content, begin)
            if entry is not None:
                found[json.loads(b'"' + name)] = entry
        at = content.find(key, begin)
    found.pop(_SPECIMEN, None)
    return found


def _entry(content: bytes, begin: int) -> Mapping[str, Any] | None:
    """The entry that begins here, if it is of a model that chats."""
    try:
        entry, _ = json.JSONDecoder().raw_decode(
            content[begin : begin + _MOST_ENTRY].decode("utf-8", "replace")
        )
    except ValueError:
        return None
    return entry if entry.get("mode") in _CHAT_MODES else None


@cache
def _entries() -> Mapping[str, Mapping[str, Any]]:
    return {
        name: entry
        for name, entry in _read(_PRICE_MAP).items()
        if isinstance(entry, dict) and name != _SPECIMEN and entry.get("mode") in _CHAT_MODES
    }


def _read(name: str) -> Mapping[str, Any]:
    try:
        value = json.loads(_content(name))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _content(name: str) -> bytes:
    """A file that litellm ships; empty where there is none."""
    spec = importlib.util.find_spec("litellm")
    if spec is None or not spec.submodule_search_locations:
        return b""
    try:
        return Path(spec.submodule_search_locations[0], name).read_bytes()
    except OSError:
        return b""
