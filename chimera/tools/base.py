"""What a tool is, and how one call becomes exactly one output.

A `ToolError` is for the model and becomes a failed output, and so does what the operating system refuses; anything
else a tool raises is a bug and surfaces.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from chimera.core.outputs import ToolOutput
from chimera.errors import ToolError
from chimera.record.redaction import Redactor
from chimera.tools.redacted_output import redacted_output
from chimera.tools.schema import check_arguments, parse_arguments
from chimera.workspace.terminal_text import visible

__all__ = ["Approve", "Check", "Effect", "Tool", "ToolOutput", "ToolSet", "failed"]

_SHOWN_SCHEMA = 600

Effect = Literal["read", "edit", "command", "plan", "foreign", "foreign_read"]
"""What a call does. A foreign one is carried out elsewhere, outside the sandbox; `foreign_read` claims to change nothing."""
Check = Callable[[dict[str, Any]], dict[str, Any]]
"""Returns the arguments as the tool takes them; raises `ToolError` with what is wrong with them."""


class Tool(Struct, frozen=True, kw_only=True):
    """A tool as advertised and as run. Made by a factory over the workspace."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON schema of the arguments, an object."""
    effect: Effect
    run: Callable[..., ToolOutput]
    """Called with the checked arguments as keywords. Raises `ToolError` for what the model should read."""
    check: Check | None = None
    """Checks the arguments where the schema was not made here; None: it was made by `schema_of`."""

    def schema(self) -> dict[str, Any]:
        """The tool in the form in which it is sent."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}


Approve = Callable[[Tool, Mapping[str, Any]], None]
"""Called before a tool runs; raises `ToolError` to deny, with the reason as the model should read it."""


class ToolSet:
    """The tools of a run, in the fixed order in which they are advertised."""

    def __init__(
        self, tools: Sequence[Tool], *, approve: Approve | None = None, redactor: Redactor | None = None
    ) -> None:
        """Keep the tools.

        Args:
            tools: in the order in which they are advertised.
            approve: asked before each call; None lets all of them run.
            redactor: takes known secrets out of every output; None takes out what is a secret by its form.
        """
        self._tools = {tool.name: tool for tool in tools}
        self._approve = approve
        self._redactor = redactor or Redactor()

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tuple(self._tools.values())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def schemas(self) -> tuple[dict[str, Any], ...]:
        """What is sent as `tools`, byte-identical on every step."""
        return tuple(tool.schema() for tool in self._tools.values())

    def run(self, name: str, arguments: str) -> ToolOutput:
        """Run one call. `arguments` is the JSON text as the model wrote it. No secret comes out."""
        return redacted_output(self._output(name, arguments), self._redactor)

    def _output(self, name: str, arguments: str) -> ToolOutput:
        try:
            tool = self._find(name)
            parsed = _parsed(arguments, tool)
            values = tool.check(parsed) if tool.check else check_arguments(parsed, tool.parameters, tool=name)
            if self._approve is not None:
                self._approve(tool, values)
            return _run(tool, values)
        except ToolError as error:
            return failed(
                str(error), digest=f"{name} failed: {str(error).splitlines()[0][:100] if str(error) else ''}"
            )

    def _find(self, name: str) -> Tool:
        if name in self._tools:
            return self._tools[name]
        close = difflib.get_close_matches(name.lower(), self._tools, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ToolError(f"There is no tool named {name!r}.{hint} The tools are: {', '.join(self._tools)}.")


def _parsed(arguments: str, tool: Tool) -> dict[str, Any]:
    try:
        return parse_arguments(arguments)
    except ToolError as error:
        schema = json.dumps(tool.parameters, ensure_ascii=False, separators=(",", ":"))
        if len(schema) > _SHOWN_SCHEMA:
            schema = ", ".join(tool.parameters.get("properties", {}))[:_SHOWN_SCHEMA]
        raise ToolError(f"{error} {tool.name} takes: {schema}") from error


def _run(tool: Tool, values: Mapping[str, Any]) -> ToolOutput:
    """Run a tool. What the operating system refuses it, and no tool thought of, is for the model to read, too."""
    try:
        return tool.run(**values)
    except OSError as fault:
        reason = (fault.strerror or str(fault) or type(fault).__name__).lower()
        where = f" ({fault.filename!r})" if isinstance(fault.filename, str) else ""
        raise ToolError(
            f"{tool.name} stopped at a fault of the system: {reason}{where}. It may have done part of its work: look "
            "before you repeat it, or go another way."
        ) from fault
    except MemoryError as fault:
        raise ToolError(
            f"{tool.name} needed more memory than there is and stopped. Work on less at a time."
        ) from fault


def failed(text: str, *, digest: str) -> ToolOutput:
    """An output that tells the model what went wrong."""
    return ToolOutput(text=visible(text), digest=visible(digest), ok=False)
