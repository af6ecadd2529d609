"""Every exception chimera raises on purpose. Expected ends of a run are `StopReason`s, not exceptions.

    ChimeraError
    ├── ConfigError              the caller's fault: bad option, bad file; nothing was run
    │   └── UnknownPriceError    a cost limit for a model whose price nobody knows
    ├── WorkspaceError           the folder cannot be used
    │   └── WorkspaceLockedError another run holds it
    ├── SandboxUnavailableError  confinement was asked for and cannot be had
    ├── RecordError              a record cannot be written or read
    ├── ModelError               the provider's fault, after the retries
    │   ├── ContextOverflowError the provider refused the request for its size
    │   └── ModelAuthError       missing or refused key, unknown model
    └── ToolError                shown to the model; the run goes on

Anything else that escapes is a bug in chimera and surfaces as one.
"""

from __future__ import annotations


class ChimeraError(Exception):
    """Root of the tree."""


class ConfigError(ChimeraError):
    """An option, environment variable or settings file is wrong. The message names it and the way out."""


class UnknownPriceError(ConfigError):
    """A cost limit is set and the price of the model is unknown, so the limit cannot be kept."""


class WorkspaceError(ChimeraError):
    """The workspace does not exist, is not a directory or cannot be read."""


class WorkspaceLockedError(WorkspaceError):
    """Another run holds the workspace. The message names its process and run."""


class SandboxUnavailableError(ChimeraError):
    """No sandbox backend works here although the mode demands one. The message says how to get one."""


class RecordError(ChimeraError):
    """The state directory cannot be written, or a run's record cannot be read."""


class ModelError(ChimeraError):
    """The provider failed and retrying did not help, or could not.

    Attributes:
        retryable: whether the same request may succeed later.
        retry_after_s: the provider's own waiting time in seconds, if it named one.
    """

    def __init__(self, message: str, *, retryable: bool = False, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.retry_after_s = retry_after_s


class ContextOverflowError(ModelError):
    """The provider refused the request because of its size.

    Attributes:
        limit: the window in tokens that the provider named, if it named one.
    """

    def __init__(self, message: str, *, limit: int | None = None) -> None:
        super().__init__(message)
        self.limit = limit


class ToolsRefusedError(ModelError):
    """The server refused the request because it offers tools: its model has no form for calls."""


class ModelAuthError(ModelError):
    """The key is missing or refused, or the model does not exist. Never retried."""


class ToolError(ChimeraError):
    """A tool could not do what the model asked. The text is prompt text: it tells the model its next move."""
