"""The providers that are chosen and checked without asking anybody: keys, default models, usual addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One provider by its litellm prefix."""

    prefix: str
    keys: tuple[str, ...] = ()
    """Environment variables that hold its key, the first one preferred. Empty: it needs none."""
    logins: tuple[str, ...] = ()
    """Variables that litellm itself reads for another way in; with one of them no key is needed."""
    default_model: str | None = None
    """What runs when only its key is set."""
    address: str | None = None
    """Where a server of this kind usually listens."""
    address_variables: tuple[str, ...] = ()

    def key(self, environment: Mapping[str, str]) -> str | None:
        """The key that is set; a blank one is none."""
        return next((key for name in self.keys if (key := environment.get(name, "").strip())), None)

    def has_login(self, environment: Mapping[str, str]) -> bool:
        """Whether litellm finds another way in than a key."""
        return any(environment.get(name, "").strip() for name in self.logins)

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
    ),
    Provider(
        prefix="gemini", keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"), default_model="gemini/gemini-3.8-flash"
    ),
    Provider(prefix="openrouter", keys=("OPENROUTER_API_KEY",), default_model="openrouter/openrouter/auto"),
    Provider(prefix="deepseek", keys=("DEEPSEEK_API_KEY",), default_model="deepseek/deepseek-v4-pro"),
    Provider(prefix="mistral", keys=("MISTRAL_API_KEY",), default_model="mistral/devstral-medium-latest"),
    Provider(prefix="groq", keys=("GROQ_API_KEY",), default_model="groq/openai/gpt-oss-120b"),
    Provider(prefix="xai", keys=("XAI_API_KEY",), default_model="xai/grok-4.7"),
    Provider(prefix="moonshot", keys=("MOONSHOT_API_KEY",), default_model="moonshot/kimi-k2.7-code"),
    Provider(prefix="zai", keys=("ZAI_API_KEY",), default_model="zai/glm-5.3"),
    Provider(prefix="cerebras", keys=("CEREBRAS_API_KEY",), default_model="cerebras/gpt-oss-120b"),
    Provider(
        prefix="together_ai",
        keys=("TOGETHERAI_API_KEY", "TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"),
        default_model="together_ai/zai-org/GLM-5.3",
    ),
    Provider(
        prefix="fireworks_ai",
        keys=("FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY", "FIREWORKSAI_API_KEY"),
        default_model="fireworks_ai/glm-5p3",
    ),
    Provider(prefix="minimax", keys=("MINIMAX_API_KEY",), default_model="minimax/MiniMax-M3"),
    Provider(prefix="dashscope", keys=("DASHSCOPE_API_KEY",)),
    Provider(prefix="perplexity", keys=("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY")),
    Provider(prefix="cohere", keys=("COHERE_API_KEY", "CO_API_KEY")),
    Provider(prefix="cohere_chat", keys=("COHERE_API_KEY", "CO_API_KEY")),
    Provider(prefix="deepinfra", keys=("DEEPINFRA_API_KEY",)),
    Provider(prefix="codestral", keys=("CODESTRAL_API_KEY",)),
    Provider(prefix="sambanova", keys=("SAMBANOVA_API_KEY",)),
    Provider(prefix="nebius", keys=("NEBIUS_API_KEY",)),
    Provider(prefix="novita", keys=("NOVITA_API_KEY",)),
    Provider(prefix="ollama", address="http://127.0.0.1:11434", address_variables=("OLLAMA_API_BASE",)),
    Provider(prefix="ollama_chat", address="http://127.0.0.1:11434", address_variables=("OLLAMA_API_BASE",)),
    Provider(
        prefix="lm_studio", address="http://127.0.0.1:1234/v1", address_variables=("LM_STUDIO_API_BASE",)
    ),
    Provider(
        prefix="hosted_vllm", address="http://127.0.0.1:8000/v1", address_variables=("HOSTED_VLLM_API_BASE",)
    ),
    Provider(
        prefix="llamafile", address="http://127.0.0.1:8080/v1", address_variables=("LLAMAFILE_API_BASE",)
    ),
)

BY_PREFIX = {provider.prefix: provider for provider in PROVIDERS}
"""Providers by prefix. One that is not here is left to litellm, key and all."""
