"""Choosing tasks from those that were found, and the agent that is to do them."""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from msgspec import Struct

from chimera.bench.agents import BenchAgent, Chimera, Desk, NoOp, Oracle, Work
from chimera.bench.cheat import Cheat
from chimera.bench.policies.mind import MINDS
from chimera.bench.policies.policy import PolicyModel
from chimera.bench.task import BenchTask
from chimera.config import Config, Settings, load_settings
from chimera.core.tokens import TokenCounter
from chimera.errors import ConfigError
from chimera.record.known_secrets import without_secrets

_PLAIN: Mapping[str, type[NoOp | Oracle | Cheat]] = {"oracle": Oracle, "noop": NoOp, "cheat": Cheat}
_OF_TRIALS = {
    "workspace": "every trial has a folder of its own",
    "sandbox": "the row says how a trial was kept apart; use --isolation",
    "mode": "it follows from --isolation",
    "max_seconds": "the time limit is the task's; use --timeout-multiplier",
    "allow_net": "the row says what could be reached; use --network",
}
"""Settings that would make a row untrue, and what to do instead."""
AGENTS = ("chimera", *_PLAIN, "scripted:NAME", "module:Class")


class Selection(Struct, frozen=True, kw_only=True):
    """Which tasks of those that were found. Names may hold `*` and `?`."""

    suites: Sequence[str] = ()
    tags: Sequence[str] = ()
    """A task with any of them."""
    exclude: Sequence[str] = ()
    """Names of tasks, with or without organisation."""
    limit: int | None = None
    shuffle_seed: int | None = None
    """Shuffles before the limit is applied."""

    def of(self, tasks: Iterable[BenchTask]) -> tuple[BenchTask, ...]:
        """The chosen ones.

        Raises:
            ConfigError: there is none.
        """
        found = tuple(tasks)
        chosen = [task for task in found if self._chooses(task)]
        if self.shuffle_seed is not None:
            random.Random(self.shuffle_seed).shuffle(chosen)  # noqa: S311
        chosen = chosen[: self.limit]
        if not chosen:
            suites = sorted({task.suite for task in found})
            tags = sorted({tag for task in found for tag in task.tags})
            raise ConfigError(
                f"none of the {len(found)} tasks is chosen; suites: {', '.join(suites)}; tags: {', '.join(tags)}"
            )
        return tuple(chosen)

    def _chooses(self, task: BenchTask) -> bool:
        return (
            (not self.suites or _matches([task.suite], self.suites))
            and (not self.tags or _matches(task.tags, self.tags))
            and not _matches([task.name, task.short_name], self.exclude)
        )


def _matches(names: Iterable[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def agent_of(name: str, config: Config, options: Mapping[str, Any]) -> BenchAgent:
    """The agent with this name.

    Args:
        name: one of `AGENTS`.
        config: the settings that `options` come to, for chimera itself.
        options: fields of `Config` that were given; only chimera and scripted agents have a use for them.

    Raises:
        ConfigError: there is no such agent, or it has no use for an option.
    """
    rest = {key: value for key, value in options.items() if key != "model"}
    if name == "chimera":
        return Chimera(model_choice=config.model, options=rest)
    if name.startswith("scripted:"):
        _refuse(name, {"model": options.get("model")})
        return _scripted(name.removeprefix("scripted:"), rest)
    _refuse(name, options)
    if plain := _PLAIN.get(name):
        return plain()
    if ":" in name:
        return _foreign(name)
    raise ConfigError(f"there is no agent {name!r}; known: {', '.join(AGENTS)}")


def _refuse(name: str, options: Mapping[str, Any]) -> None:
    for key, value in options.items():
        if value is not None:
            raise ConfigError(f"--{key.replace('_', '-')} says nothing to --agent {name}; leave it out")


class Scripted(Struct, frozen=True, kw_only=True):
    """chimera with a scripted policy in place of a model. What it shows is shown of chimera, not of any model."""

    policy: str
    options: Mapping[str, Any]

    @property
    def name(self) -> str:
        return f"scripted-{self.policy}"

    @property
    def model(self) -> str | None:
        return f"scripted:{self.policy}"

    def check(self, task: BenchTask) -> None:
        Chimera().check(task)

    def work(self, task: BenchTask, desk: Desk) -> Work:
        model = PolicyModel(policy=self.policy, counter=TokenCounter())
        return Chimera(model_choice=model, options=self.options).work(task, desk)


def _scripted(name: str, options: Mapping[str, Any]) -> BenchAgent:
    if name not in MINDS:
        raise ConfigError(f"there is no scripted agent {name!r}; known: {', '.join(MINDS)}")
    return Scripted(policy=name, options=options)


def _foreign(name: str) -> BenchAgent:
    """An agent by the import path of its class, which is made without arguments. The current folder is searched, too."""
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        made: BenchAgent = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError, TypeError, ValueError) as fault:
        raise ConfigError(f"agent {name!r} cannot be made: {fault}") from fault
    for needed in ("name", "model", "check", "work"):
        if not hasattr(made, needed):
            raise ConfigError(f"agent {name!r} has no {needed!r}; see chimera.bench.agents.BenchAgent")
    return made


def settings_of(settings: Settings) -> dict[str, Any]:
    """Whatever was set, in whatever way, as JSON values without secrets: what is not in it is a default."""
    found = {
        name: getattr(settings.config, name)
        for name in settings.origins
        if name != "model" and name not in _OF_TRIALS
    }
    return {
        name: str(value) if isinstance(value, Path) else without_secrets(name, value)
        for name, value in found.items()
    }


def checked_settings(options: Mapping[str, Any]) -> Settings:
    """The settings of a run with these options.

    Raises:
        ConfigError: one cannot be.
    """
    for name, instead in _OF_TRIALS.items():
        if options.get(name) is not None:
            raise ConfigError(f"{name} cannot be set: {instead}")
    return load_settings(options)
