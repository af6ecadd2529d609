"""chimera as an agent of Harbor: `harbor run --agent chimera.bench.harbor_agent:HarborAgent --model ...`.

Needs Harbor beside chimera (Python 3.12 or newer). Options of `chimera run` are given as agent options (`--ak window=32000`),
further variables as its environment (`--ae NAME=VALUE`).
"""

from __future__ import annotations

import importlib
from typing import Any

from chimera import __version__
from chimera.bench.in_container import InContainer, usage_of
from chimera.errors import ConfigError


def _base() -> Any:
    try:
        return importlib.import_module("harbor.agents.base").BaseAgent
    except ImportError as fault:
        raise ImportError(
            "chimera.bench.harbor_agent is for Harbor: pip install harbor (Python 3.12)"
        ) from fault


class HarborAgent(_base()):  # type: ignore[misc]
    """Runs this chimera in the container of a Harbor trial."""

    def __init__(self, logs_dir: Any, model_name: str | None = None, **known: Any) -> None:
        theirs = {name: known.pop(name) for name in list(known) if name in _THEIRS}
        super().__init__(logs_dir=logs_dir, model_name=model_name, **theirs)
        if model_name is None:
            raise ConfigError("name a model: --model PROVIDER/NAME")
        self._chimera = InContainer(
            model=model_name,
            options={name.replace("_", "-"): str(value) for name, value in known.items()},
            variables=dict(theirs.get("extra_env") or {}),
        )

    @staticmethod
    def name() -> str:
        """As Harbor lists it."""
        return "chimera"

    def version(self) -> str:
        """Of chimera."""
        return __version__

    async def setup(self, environment: Any) -> None:
        """Put chimera into the container."""
        await self._chimera.install(environment)

    async def run(self, instruction: str, environment: Any, context: Any) -> None:
        """Work on the task, and tell Harbor what it took."""
        result = await self._chimera.run(environment, instruction, self.logs_dir)
        tokens = usage_of(result)
        context.n_input_tokens, context.n_cache_tokens, context.n_output_tokens, context.cost_usd = tokens
        context.metadata = {name: result[name] for name in ("stop_reason", "stop_detail", "steps", "context")}


_THEIRS = (
    *(
        "logger",
        "mcp_servers",
        "skills_dir",
        "extra_env",
        "base_url",
        "model_api_key_name",
        "model_api_format",
    ),
    *("skip_model_parsing", "load_trajectory", "environment_logs_dir", "override_setup_timeout_sec"),
)
"""Arguments that Harbor gives every agent."""
