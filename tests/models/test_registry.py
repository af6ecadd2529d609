import json
import re
import subprocess
import sys

import pytest

from chimera.core.messages import Usage
from chimera.models import registry
from chimera.models.providers import PROVIDERS
from chimera.models.registry import ModelFacts


def facts_of(name: str) -> ModelFacts:
    found = registry.facts(name)
    assert found is not None
    return found


def test_a_model_is_found_with_and_without_its_prefix() -> None:
    assert facts_of("anthropic/claude-sonnet-4-5") == facts_of("claude-sonnet-4-5")
    assert facts_of("gpt-5").window == 272_000
    assert facts_of("openai/gpt-5").max_output == 128_000
    assert facts_of("gemini/gemini-2.5-pro").window == 1_048_576


@pytest.mark.case("E7")
@pytest.mark.parametrize(
    "name", ["openai/claude-sonnet-4-5", "nobody/gpt-5", "openai/fake", "fake", "", "sample_spec"]
)
def test_a_name_is_never_matched_by_its_tail_alone(name: str) -> None:
    assert registry.facts(name) is None


@pytest.mark.case("E7")
def test_the_price_counts_cached_tokens_at_their_own_rate() -> None:
    # claude-sonnet-4-5: 3, 15, 0.30 and 3.75 dollars per million tokens.
    usage = Usage(input_tokens=1050, output_tokens=20, cached_input_tokens=700, cache_write_tokens=300)
    cost = facts_of("anthropic/claude-sonnet-4-5").cost_usd(usage)
    assert cost == pytest.approx((50 * 3 + 700 * 0.3 + 300 * 3.75 + 20 * 15) / 1e6)


def test_a_long_prompt_is_priced_at_its_tier() -> None:
    facts = facts_of("gemini/gemini-2.5-pro")
    assert facts.cost_usd(Usage(input_tokens=200_000)) == pytest.approx(200_000 * 1.25e-6)
    assert facts.cost_usd(Usage(input_tokens=200_001)) == pytest.approx(200_001 * 2.5e-6)


@pytest.mark.case("E7")
def test_a_price_of_zero_is_an_unknown_price() -> None:
    assert facts_of("ollama_chat/llama3").cost_usd(Usage(input_tokens=5)) is None
    assert facts_of("gemini/gemma-3-27b-it").cost_usd(Usage(input_tokens=5)) is None


def test_a_window_of_zero_or_null_is_unknown() -> None:
    facts = ModelFacts(provider="p", window=None, max_output=None, prices={})
    assert facts.cost_usd(Usage(input_tokens=1)) is None
    assert facts_of("together_ai/moonshotai/Kimi-K2-Instruct").window is None


@pytest.mark.parametrize("provider", [p for p in PROVIDERS if p.default_model], ids=lambda p: str(p.prefix))
def test_each_default_model_is_listed_with_window_and_price(provider: object) -> None:
    name = getattr(provider, "default_model", "")
    if name == "openrouter/openrouter/auto":
        assert "openrouter" in registry.known_providers()
        return
    facts = facts_of(name)
    assert facts.window
    assert facts.cost_usd(Usage(input_tokens=1, output_tokens=1))


def test_every_provider_of_our_table_is_one_of_litellm() -> None:
    assert {p.prefix for p in PROVIDERS} <= registry.known_providers()


def test_choosing_a_model_imports_neither_litellm_nor_an_http_library() -> None:
    code = (
        "import sys, chimera.models.choose as c, chimera.models.registry as r\n"
        "from chimera.config import Config\n"
        "m = c.choose_model(Config(model='anthropic/claude-sonnet-4-5'), {'ANTHROPIC_API_KEY': 'k'})\n"
        "assert m.window.tokens == 200000\n"
        "print(sorted({'litellm', 'openai', 'httpx', 'yaml', 'tiktoken'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_an_entry_read_alone_is_that_of_the_whole_map() -> None:
    entries, content = registry._entries(), registry._content(registry._PRICE_MAP)
    text = content.decode()
    at_margin = re.findall(r'^(?: {4})?"(.*)": \{$', text, re.MULTILINE)
    assert len(at_margin) == len(set(at_margin))
    assert set(entries) <= set(at_margin)
    odd = re.findall(r'^"(.*)": \{$', text, re.MULTILINE)
    longest = max(entries, key=lambda name: len(json.dumps(entries[name])))
    for name in (*list(entries)[::50], *odd, longest):
        assert registry._entries_ending(name).get(name) == entries.get(name)
    assert registry._entries_ending("search_context_cost_per_query") == {}


@pytest.mark.case("E7")
def test_prices_are_per_token_in_every_entry() -> None:
    ours = ("input_cost_per_token", "output_cost_per_token", "cache_read_input", "cache_creation_input")
    for name, entry in registry._entries().items():
        for key, price in registry._facts(entry).prices.items():
            # The dearest model takes some 600 dollars per million; a price per thousand would be far above this.
            assert not key.startswith(ours) or price < 0.001, (name, key, price)
