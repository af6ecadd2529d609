"""Fakes for tests of agents: a model that plays a script behind the ordinary protocol."""

from chimera.models.scripted import Reply, ScriptedModel, call, calls, error, text

__all__ = ["Reply", "ScriptedModel", "call", "calls", "error", "text"]
