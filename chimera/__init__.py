"""chimera: a coding agent that spends the context window as a budget."""

__version__ = "0.1.0"
