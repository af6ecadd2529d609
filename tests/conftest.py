"""Shared settings of the suite."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("ci", max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "benchmark", max_examples=2_000, deadline=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile("ci")
