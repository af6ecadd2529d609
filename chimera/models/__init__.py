"""Adapters that turn a provider into a `Model`, and the scripted model."""
