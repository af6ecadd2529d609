"""What the libraries and chimera itself log, on standard error, for those who ask for it."""

from __future__ import annotations

import logging

from chimera.cli.cells import escaped
from chimera.cli.output import Output
from chimera.overriding import override


def show_log(output: Output) -> None:
    """Write from now on what is logged to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(_PlainFormatter(output))
    logging.basicConfig(handlers=[handler])
    logging.getLogger("chimera").setLevel(logging.DEBUG)


class _PlainFormatter(logging.Formatter):
    """A log line that steers no terminal and shows no secret, whatever a library or a provider put into it."""

    def __init__(self, output: Output) -> None:
        super().__init__("%(name)s: %(message)s")
        self._output = output

    @override
    def format(self, record: logging.LogRecord) -> str:
        return escaped(self._output.without_secrets(super().format(record)))
