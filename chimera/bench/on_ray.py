"""Trials on a Ray cluster: the one that RAY_ADDRESS names, else one of this machine alone. Needs `chimera[ray]`.

Tasks and results are files: each machine of a cluster must see both at the same paths.
"""

from __future__ import annotations

import importlib
from typing import Any

from msgspec.structs import replace

from chimera.bench.trial import Trial
from chimera.bench.workers import Finished, OnPhase, life_of, say_nothing
from chimera.errors import ConfigError
from chimera.extras import install_command


class OnRay:
    """Several trials at once, each a task of one core. It does not tell phases; a lost machine costs `infra_error` rows."""

    def __init__(self, jobs: int, on_phase: OnPhase) -> None:
        try:
            self._ray: Any = importlib.import_module("ray")
        except ImportError as fault:
            raise ConfigError(f"--executor ray needs ray: {install_command('ray')}") from fault
        self._jobs = jobs
        self._on_phase = on_phase
        self._running: dict[Any, Trial] = {}
        self._stopping = False
        self._ray.init(ignore_reinit_error=True, log_to_driver=False, include_dashboard=False)
        # A trial that is lost is for the job to begin again: it counts the tries.
        self._live = self._ray.remote(num_cpus=1, max_retries=0)(life_of)

    @property
    def free(self) -> bool:
        return len(self._running) < self._jobs

    @property
    def busy(self) -> bool:
        return bool(self._running)

    def start(self, trial: Trial, delay_s: float = 0.0) -> None:
        self._on_phase(trial, trial.phase)
        reference = self._live.options(name=trial.name).remote(replace(trial, notify=say_nothing), delay_s)
        self._running[reference] = trial

    def next(self) -> Finished:
        (reference, *_), _ = self._ray.wait(list(self._running), num_returns=1)
        trial = self._running.pop(reference)
        try:
            kind, told = self._ray.get(reference)
        except self._ray.exceptions.RayError as fault:
            if self._stopping:
                return Finished(trial=trial, row=trial.row("interrupted"))
            error = trial.error("lost", str(fault).strip().splitlines()[-1])
            return Finished(trial=trial, row=trial.row("infra_error", error=error))
        if kind == "config":
            raise ConfigError(told)
        return Finished(trial=trial, row=told)

    def stop(self) -> None:
        self._stopping = True
        for reference in self._running:
            self._ray.cancel(reference)

    def close(self) -> None:
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()
        self._ray.shutdown()
