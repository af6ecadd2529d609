"""What a run offers its model: the system text, the tools and how calls travel, which are the floor, and its budget."""

from __future__ import annotations

import fnmatch
import json
import os

from msgspec.structs import replace

from chimera import prompts
from chimera.config import Config
from chimera.core.context_budget import (
    DEFAULT_BUDGET_FRACTION,
    DEFAULT_KEEP_TURNS,
    DEFAULT_TRIGGER_FRACTION,
    ContextBudget,
)
from chimera.core.model import Model
from chimera.core.protocol import JSON, NATIVE, ToolProtocol
from chimera.core.tokens import GROUP_SEPARATOR, Calibration
from chimera.errors import ConfigError
from chimera.models.choose import resolve_window
from chimera.tools.base import Tool
from chimera.tools.schema_compact import compact_schema
from chimera.workspace.terminal_text import escaped

_LISTED_NAMES = 20
_LISTED_CHARACTERS = 40
# In the lean profile. What the others do, a command does, too, and a small model that has a search only searches.
LEAN_TOOLS = ("read_file", "edit_file", "write_file", "shell")


def is_lean(config: Config) -> bool:
    """Whether few words and tools are better: asked for, or because models that need JSON actions are small."""
    return config.tool_protocol == "json" if config.lean is None else config.lean


def system_text(config: Config) -> str:
    """The system message, but for instructions of the repository and for how calls are made.

    A small model that needs JSON actions makes up the names of files rather than look, so it is told the first of them.
    """
    if not is_lean(config):
        return prompts.SYSTEM
    if config.tool_protocol != "json":
        return prompts.LEAN_SYSTEM
    try:
        entries = sorted((_is_folder(entry), entry.name) for entry in os.scandir(config.workspace))
    except OSError:
        entries = []
    names = [f"{name}/" if folder else name for folder, name in entries if _is_telling(name)]
    shown = [json.dumps(escaped(name), ensure_ascii=False) for name in names[:_LISTED_NAMES]]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"{prompts.LEAN_SYSTEM}\n- In the repository: {', '.join(shown) or 'nothing yet'}{more}."


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def _is_telling(name: str) -> bool:
    return not name.startswith((".", "__")) and len(name) <= _LISTED_CHARACTERS


def as_begun(config: Config, *, takes_tools: bool | None) -> Config:
    """The settings that a run begins with: those of JSON actions where it is known that native calls cannot work.

    Args:
        config: the settings as given.
        takes_tools: what is known of the model; None where nobody says.
    """
    begins_with_json = config.tool_protocol == "auto" and takes_tools is False
    return replace(config, tool_protocol="json") if begins_with_json else config


def choose_protocols(config: Config) -> tuple[ToolProtocol, ...]:
    """How calls travel, and how if that turns out not to work."""
    match config.tool_protocol:
        case "native":
            return (NATIVE,)
        case "json":
            return (JSON,)
        case "auto":
            return (NATIVE, JSON)


def choose_tools(tools: tuple[Tool, ...], config: Config) -> tuple[Tool, ...]:
    """The tools that the settings ask for by name or pattern, their schemas compacted if they ask for that.

    Raises:
        ConfigError: a name that is no tool.
    """
    names = [tool.name for tool in tools]
    patterns = config.tools
    if patterns is None and is_lean(config):
        patterns = (*LEAN_TOOLS, *(name for name in names if GROUP_SEPARATOR in name))
    if patterns is not None:
        if unknown := [pattern for pattern in patterns if not fnmatch.filter(names, pattern)]:
            raise ConfigError(
                f"there is no tool named {unknown[0]!r}; the tools are: {', '.join(sorted(names))}"
            )
        chosen = {name for pattern in patterns for name in fnmatch.filter(names, pattern)}
        tools = tuple(tool for tool in tools if tool.name in chosen)
    if config.compact_schemas:
        tools = tuple(
            replace(t, parameters=compact_schema(t.schema())["function"]["parameters"]) for t in tools
        )
    return tools


def make_budget(config: Config, model: Model, calibration: Calibration) -> ContextBudget:
    """The context budget that the settings and the model give."""
    return ContextBudget(
        window=resolve_window(config, model),
        fraction=config.budget_fraction or DEFAULT_BUDGET_FRACTION,
        trigger_fraction=config.trigger or DEFAULT_TRIGGER_FRACTION,
        keep_turns=config.keep_turns or DEFAULT_KEEP_TURNS,
        mode=config.compaction,
        calibration=calibration,
    )
