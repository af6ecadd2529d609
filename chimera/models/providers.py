"""The providers that are chosen and checked without asking anybody: keys, default models, addresses.

Endpoints, variables and peculiarities are those that litellm 1.110.2 has for the same prefix, so that both adapters send
the same request to the same place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field


class Provider(Struct, frozen=True, kw_only=True):
    """One provider by its litellm prefix."""

    prefix: str
    keys: tuple[str, ...] = ()
    """Environment variables that hold its key, the first one preferred."""
    needs_key: bool = True
    logins: tuple[str, ...] = ()
    """Variables that litellm itself reads for another way in; with one of them no key is needed."""
    default_model: str | None = None
    """What runs when only its key is set."""
    address: str | None = None
    """Where a server of this kind usually listens."""
    address_variables: tuple[str, ...] = ()
    endpoint: str | None = None
    """Base URL of its API in the chat-completions format; None: it speaks another one."""
    is_ollama: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Sent with every request, unless the user sets them."""
    not_taken: tuple[str, ...] = ()
    """Parameters that it refuses, and that cost nothing to leave out."""
    name_prefix: str = ""
    """What its own names of models begin with, where ours leave it out."""

    def key(self, environment: Mapping[str, str]) -> str | None:
        """The key that is set; a blank one is none."""
        return next((key for name in self.keys if (key := environment.get(name, "").strip())), None)

    def has_login(self, environment: Mapping[str, str]) -> bool:
        """Whether litellm finds another way in than a key."""
        return any(environment.get(name, "").strip() for name in self.logins)

    def model_name(self, name: str) -> str:
        """How it calls the model that is `name` behind the prefix of the provider."""
        whole = (
            not self.name_prefix or "#" in name or name.startswith(self.name_prefix.partition("/")[0] + "/")
        )
        return name if whole else self.name_prefix + name

    def bound(self, api_base: str) -> str:
        """The name of the parameter that bounds a completion: OpenAI's newer models take only the newer one."""
        own = self.prefix == "openai" and urlsplit(api_base).hostname == "api.openai.com"
        return "max_completion_tokens" if own else "max_tokens"

    def api_base(self, environment: Mapping[str, str]) -> str | None:
        """The address from the environment, else the usual one."""
        named = (environment.get(name, "").strip() for name in self.address_variables)
        return next(filter(None, named), self.address)


# Without --model the first of these whose key is set is taken, with its default model.
PROVIDERS = (
    Provider(
        prefix="anthropic",
        keys=("ANTHROPIC_API_KEY",),
        logins=("ANTHROPIC_AUTH_TOKEN",),
        default_model="anthropic/claude-sonnet-5-5",
    ),
    Provider(
        prefix="openai",
        keys=("OPENAI_API_KEY",),
        default_model="openai/gpt-6.1-sol",
        address_variables=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
        endpoint="https://api.openai.com/v1",
    ),
    Provider(
        prefix="gemini", keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"), default_model="gemini/gemini-3.8-flash"
    ),
    Provider(
        prefix="openrouter",
        keys=("OPENROUTER_API_KEY",),
        default_model="openrouter/openrouter/auto",
        address_variables=("OPENROUTER_API_BASE",),
        endpoint="https://openrouter.ai/api/v1",
        parameters={"usage": {"include": True}},
    ),
    Provider(
        prefix="deepseek",
        keys=("DEEPSEEK_API_KEY",),
        default_model="deepseek/deepseek-v4-pro",
        address_variables=("DEEPSEEK_API_BASE",),
        endpoint="https://api.deepseek.com/beta",
    ),
    Provider(
        prefix="mistral",
        keys=("MISTRAL_API_KEY",),
        default_model="mistral/devstral-medium-latest",
        address_variables=("MISTRAL_API_BASE",),
        endpoint="https://api.mistral.ai/v1",
        not_taken=("stream_options",),
    ),
    Provider(
        prefix="groq",
        keys=("GROQ_API_KEY",),
        default_model="groq/openai/gpt-oss-120b",
        address_variables=("GROQ_API_BASE",),
        endpoint="https://api.groq.com/openai/v1",
    ),
    Provider(
        prefix="xai",
        keys=("XAI_API_KEY",),
        default_model="xai/grok-4.7",
        address_variables=("XAI_API_BASE",),
        endpoint="https://api.x.ai/v1",
    ),
    Provider(
        prefix="moonshot",
        keys=("MOONSHOT_API_KEY",),
        default_model="moonshot/kimi-k2.7-code",
        address_variables=("MOONSHOT_API_BASE",),
        endpoint="https://api.moonshot.ai/v1",
    ),
    Provider(
        prefix="zai",
        keys=("ZAI_API_KEY",),
        default_model="zai/glm-5.3",
        address_variables=("ZAI_API_BASE",),
        endpoint="https://api.z.ai/api/paas/v4",
    ),
    Provider(
        prefix="cerebras",
        keys=("CEREBRAS_API_KEY",),
        default_model="cerebras/gpt-oss-120b",
        address_variables=("CEREBRAS_API_BASE",),
        endpoint="https://api.cerebras.ai/v1",
    ),
    Provider(
        prefix="together_ai",
        keys=("TOGETHERAI_API_KEY", "TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"),
        default_model="together_ai/zai-org/GLM-5.3",
        address_variables=("TOGETHER_AI_API_BASE",),
        endpoint="https://api.together.ai/v1",
    ),
    Provider(
        prefix="fireworks_ai",
        keys=("FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY", "FIREWORKSAI_API_KEY"),
        default_model="fireworks_ai/glm-5p3",
        address_variables=("FIREWORKS_API_BASE",),
        endpoint="https://api.fireworks.ai/inference/v1",
        name_prefix="accounts/fireworks/models/",
    ),
    Provider(
        prefix="minimax",
        keys=("MINIMAX_API_KEY",),
        default_model="minimax/MiniMax-M3",
        address_variables=("MINIMAX_API_BASE",),
        endpoint="https://api.minimax.io/v1",
    ),
    Provider(
        prefix="dashscope",
        keys=("DASHSCOPE_API_KEY",),
        address_variables=("DASHSCOPE_API_BASE",),
        endpoint="https://dashscope.aliyuncs.com/compatible-mode/v1",
    ),
    Provider(prefix="perplexity", keys=("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY")),
    Provider(prefix="cohere", keys=("COHERE_API_KEY", "CO_API_KEY")),
    Provider(prefix="cohere_chat", keys=("COHERE_API_KEY", "CO_API_KEY")),
    Provider(
        prefix="deepinfra",
        keys=("DEEPINFRA_API_KEY",),
        address_variables=("DEEPINFRA_API_BASE",),
        endpoint="https://api.deepinfra.com/v1/openai",
    ),
    Provider(
        prefix="codestral",
        keys=("CODESTRAL_API_KEY",),
        address_variables=("CODESTRAL_API_BASE",),
        endpoint="https://codestral.mistral.ai/v1",
        not_taken=("stream_options",),
    ),
    Provider(
        prefix="sambanova",
        keys=("SAMBANOVA_API_KEY",),
        address_variables=("SAMBANOVA_API_BASE",),
        endpoint="https://api.sambanova.ai/v1",
    ),
    Provider(
        prefix="nebius",
        keys=("NEBIUS_API_KEY",),
        address_variables=("NEBIUS_API_BASE",),
        endpoint="https://api.studio.nebius.ai/v1",
    ),
    Provider(
        prefix="novita",
        keys=("NOVITA_API_KEY",),
        address_variables=("NOVITA_API_BASE",),
        endpoint="https://api.novita.ai/v3/openai",
    ),
    Provider(
        prefix="ollama",
        keys=("OLLAMA_API_KEY",),
        needs_key=False,
        is_ollama=True,
        address="http://127.0.0.1:11434",
        address_variables=("OLLAMA_API_BASE",),
    ),
    Provider(
        prefix="ollama_chat",
        keys=("OLLAMA_API_KEY",),
        needs_key=False,
        is_ollama=True,
        address="http://127.0.0.1:11434",
        address_variables=("OLLAMA_API_BASE",),
    ),
    Provider(
        prefix="lm_studio",
        keys=("LM_STUDIO_API_KEY",),
        needs_key=False,
        address="http://127.0.0.1:1234/v1",
        address_variables=("LM_STUDIO_API_BASE",),
        endpoint="http://127.0.0.1:1234/v1",
    ),
    Provider(
        prefix="hosted_vllm",
        keys=("HOSTED_VLLM_API_KEY",),
        needs_key=False,
        address="http://127.0.0.1:8000/v1",
        address_variables=("HOSTED_VLLM_API_BASE",),
        endpoint="http://127.0.0.1:8000/v1",
    ),
    Provider(
        prefix="llamafile",
        keys=("LLAMAFILE_API_KEY",),
        needs_key=False,
        address="http://127.0.0.1:8080/v1",
        address_variables=("LLAMAFILE_API_BASE",),
        endpoint="http://127.0.0.1:8080/v1",
    ),
)

BY_PREFIX = {provider.prefix: provider for provider in PROVIDERS}
"""Providers by prefix. One that is not here is left to litellm, key and all."""
