"""Shared settings of the suite."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

settings.register_profile("ci", max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "benchmark", max_examples=2_000, deadline=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile("ci")

# Who starts the suite in the background of a script has it ignore these, and so would every program of the tests.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
