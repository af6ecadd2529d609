"""Scripted policies: stand-ins for a model that know nothing but the prompt in front of them."""
