"""chimera: a coding agent that spends the context window as a budget.

`chimera.run("task", workspace=".", model=...)` is the whole of it; `Agent` and what it takes are the parts.
Names are loaded when they are used, so that `import chimera` stays light.
"""

import sys

# `python -m` puts the current directory first on the import path, even before the standard library. The repository
# there is not to be imported, so this comes before any import.
if not sys.flags.safe_path and sys.argv[:1] == ["-m"] and {"-mchimera", "chimera"} & {*sys.orig_argv}:
    del sys.path[0]

import importlib

# What type checkers take for true. Importing it from `typing` would delay the start, in which a signal is still fatal.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from chimera.api import run
    from chimera.core.agent import Agent
    from chimera.core.context_budget import ContextBudget
    from chimera.core.model import Completion, Model, Request, Window
    from chimera.core.state import Limits, RunResult, StopReason
    from chimera.record.events import Event
    from chimera.tools.base import Tool, ToolOutput, ToolSet

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "Completion",
    "ContextBudget",
    "Event",
    "Limits",
    "Model",
    "Request",
    "RunResult",
    "StopReason",
    "Tool",
    "ToolOutput",
    "ToolSet",
    "Window",
    "__version__",
    "run",
]

_HOMES = {
    "Agent": "chimera.core.agent",
    "Completion": "chimera.core.model",
    "ContextBudget": "chimera.core.context_budget",
    "Event": "chimera.record.events",
    "Limits": "chimera.core.state",
    "Model": "chimera.core.model",
    "Request": "chimera.core.model",
    "RunResult": "chimera.core.state",
    "StopReason": "chimera.core.state",
    "Tool": "chimera.tools.base",
    "ToolOutput": "chimera.core.outputs",
    "ToolSet": "chimera.tools.base",
    "Window": "chimera.core.model",
    "run": "chimera.api",
}


def __getattr__(name: str) -> "Any":
    if name not in _HOMES:
        raise AttributeError(f"module 'chimera' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
