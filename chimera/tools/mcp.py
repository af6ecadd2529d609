"""Tools of MCP servers: each server of the file is started or connected to, asked for its tools, and ended with the run.

The official SDK speaks the protocol. It is asynchronous, so it runs in a thread of its own; calls wait for it.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chimera import __version__
from chimera.core.outputs import ToolOutput
from chimera.errors import ConfigError, ToolError
from chimera.extras import install_command
from chimera.record.redaction import Redactor, keep_secret
from chimera.tools.base import Tool, failed
from chimera.tools.foreign import Deadline, Imported, schema_check, shown_schema, tool_name
from chimera.tools.mcp_file import Program, ServerEntry, read_mcp_file
from chimera.tools.server_program import MOST_MESSAGE, ServerProgram
from chimera.tools.wording import one_line, size_text
from chimera.workspace.environment import child_environment
from chimera.workspace.terminal_text import escaped, plain_text

if TYPE_CHECKING:
    import anyio
    import mcp
    import mcp_types
    from anyio.from_thread import BlockingPortal

_MOST_PAGES = 100
"""Of a list of tools: a server that never ends it is not waited for."""
_START_S = 60.0
"""At least, whatever the limit of a call is: a program may be downloaded first."""
_CLOSE_S = 15.0
"""The SDK gives a program 2 s to end by itself, 2 s to obey, and then kills it."""
_SHOWN_FAULT = 500
_NEXT_MOVE = " Do without its tools, or say in your answer what needs them."


@contextmanager
def mcp_tools(
    file: Path, *, root: Path, environment: Mapping[str, str], deadline: Deadline | None = None
) -> Iterator[Imported]:
    """The tools of the servers that a file names. The servers are ended with the block, whatever ends it.

    Args:
        file: absolute, outside the workspace.
        root: the workspace, which supplies no program.
        environment: the one of this process.
        deadline: of the run.

    Raises:
        ConfigError: the file is wrong, the SDK is missing, or a server cannot be used.
    """
    entries = read_mcp_file(file, environment)
    deadline = deadline or Deadline()
    try:
        from anyio.from_thread import start_blocking_portal
        from mcp import Client as _Client  # noqa: F401  (whether it is there)
    except ImportError as fault:
        raise ConfigError(
            f"--mcp needs the MCP SDK, which is not installed: {install_command('mcp')}"
        ) from fault
    for name in ("mcp", "client"):
        # Without a handler of ours Python would print its warnings, with text of the server in them.
        logging.getLogger(name).addHandler(logging.NullHandler())
    secrets: dict[str, str] = {}
    for name, value in ((n, v) for entry in entries for n, v in entry.secrets):
        keep_secret(secrets, name, value)
    with ExitStack() as programs, start_blocking_portal(name="mcp") as portal, ExitStack() as stack:
        servers: list[_Server] = []
        # All are asked to end before the first is waited for.
        for entry in entries:
            program = None
            if isinstance(entry.place, Program):
                program = programs.enter_context(
                    ServerProgram.of(entry.place, child_environment(environment), outside=root)
                )
            server = _Server(entry, program, portal, Redactor(secrets), deadline)
            stack.callback(server.wait_closed)
            servers.append(server)
        stack.callback(lambda: [*map(_Server.begin_close, servers)])
        for server in servers:
            server.open()
        tools, notices = _listed(servers)
        yield Imported(tools=tools, notices=notices, secrets=secrets, deadline=deadline)


def _listed(servers: Sequence[_Server]) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    tools: dict[str, Tool] = {}
    notices: list[str] = []
    for server in servers:
        advertised = server.advertised()
        offered = [tool for tool in advertised if server.entry.offers(tool.name)]
        if not offered:
            names = ", ".join(tool.name for tool in advertised) or "none"
            raise ConfigError(
                escaped(
                    f"the MCP server {server.entry.name!r} offers nothing that its filter lets through; it has: {names}"
                )
            )
        for tool in offered:
            if not _is_object(tool.input_schema):
                notices.append(
                    f"The tool {tool.name!r} of {server.entry.name} is left out: its schema is no object."
                )
                continue
            made = server.tool(tool, tool_name(server.entry.name, tool.name, tools))
            tools[made.name] = made
    return tuple(tools.values()), tuple(map(escaped, notices))


def _is_object(schema: Mapping[str, Any]) -> bool:
    """Whether a schema is one of arguments by name: what providers take."""
    return schema.get("type") == "object" and isinstance(schema.get("properties", {}), dict)


class _Server:
    """One server: a task in the portal's loop holds its connection from `open` to `begin_close`."""

    def __init__(
        self,
        entry: ServerEntry,
        program: ServerProgram | None,
        portal: BlockingPortal,
        redactor: Redactor,
        deadline: Deadline,
    ) -> None:
        self.entry = entry
        self._program = program
        self._portal = portal
        self._redactor = redactor
        self._deadline = deadline
        self._held: Future[None] | None = None
        self._client: mcp.Client | None = None
        self._closing: anyio.Event | None = None
        self._ended = False

    def open(self) -> None:
        """Connect.

        Raises:
            ConfigError: the server does not start or answer.
        """
        ready: Future[None] = Future()
        self._held = self._portal.start_task_soon(self._hold, ready)
        self._held.add_done_callback(lambda held: _pass_on(held, ready))
        try:
            ready.result(self._start_s)
        except TimeoutError as fault:
            self._held.cancel()
            raise ConfigError(self._about(f"did not answer within {self._start_s:g} s")) from fault
        except _faults() as fault:
            raise ConfigError(self._about(f"cannot be used: {_reason(fault)}")) from fault

    def begin_close(self) -> bool:
        """Ask for the end of the connection, and of a program; whether there is one to wait for."""
        if self._held is None:
            return False
        if self._client is None or self._closing is None:
            return self._held.cancel()
        self._portal.call(self._closing.set)
        return True

    def wait_closed(self) -> None:
        if self._held is not None:
            # How a connection ends that nobody needs any more is nobody's concern.
            with suppress(CancelledError, *_faults()):
                self._held.result(_CLOSE_S)
            self._held.cancel()

    def advertised(self) -> list[mcp_types.Tool]:
        """All its tools.

        Raises:
            ConfigError: it does not list them.
        """
        tools: list[mcp_types.Tool] = []
        cursor: str | None = None
        ends_at = time.monotonic() + self._start_s
        try:
            for _ in range(_MOST_PAGES):
                listing = partial(self._connected.list_tools, cursor=cursor)
                page = self._ask(listing, max(0.0, ends_at - time.monotonic()))
                tools += page.tools
                cursor = page.next_cursor
                if cursor is None:
                    return tools
        except TimeoutError as fault:
            raise ConfigError(self._about(f"did not list its tools within {self._start_s:g} s")) from fault
        except _faults() as fault:
            raise ConfigError(self._about(f"does not list its tools: {_reason(fault)}")) from fault
        raise ConfigError(self._about(f"does not come to the end of its list of tools ({_MOST_PAGES} pages)"))

    def tool(self, advertised: mcp_types.Tool, name: str) -> Tool:
        """One of its tools, under a name that every provider takes."""
        hints = advertised.annotations

        def run(**arguments: Any) -> ToolOutput:
            return self._call(advertised.name, name, arguments)

        return Tool(
            name=name,
            description=escaped(
                self._redactor.text(advertised.description or advertised.title or advertised.name)
            ),
            parameters=self._redactor.value(shown_schema({"properties": {}, **advertised.input_schema})),
            effect="foreign_read" if hints is not None and hints.read_only_hint else "foreign",
            run=run,
            check=schema_check(advertised.input_schema),
        )

    def _call(self, own_name: str, name: str, arguments: dict[str, Any]) -> ToolOutput:
        if self._ended:
            raise ToolError(self._about("has ended and is not started again in this run") + _NEXT_MOVE)
        limit_s = self._deadline.limit_s(self.entry.timeout_s)
        try:
            call = partial(self._connected.call_tool, own_name, arguments)
            result = self._ask(call, limit_s)
        except TimeoutError as fault:
            raise ToolError(
                f"{name} got no answer within {limit_s:.3g} s. The server may still be at work on it: look "
                "before you repeat the call, ask for less at a time, or go another way."
            ) from fault
        except _faults() as fault:
            if self._has_ended(fault):
                self._ended = True
                raise ToolError(
                    self._about(f"ended during the call: {_reason(fault)}") + _NEXT_MOVE
                ) from fault
            raise ToolError(
                f"The server {self.entry.name} refused the call: {_reason(fault)}. Correct the arguments, or go "
                "another way."
            ) from fault
        return _output(name, result)

    def _ask(self, request: Callable[[], Any], limit_s: float) -> Any:
        import anyio

        async def within() -> Any:
            with anyio.fail_after(limit_s):
                return await request()

        asked = self._portal.start_task_soon(within)
        try:
            return asked.result()
        except KeyboardInterrupt:
            # The server hears that nobody waits any more.
            asked.cancel()
            raise

    async def _hold(self, ready: Future[None]) -> None:
        import anyio
        from mcp import Client, StdioServerParameters, stdio_client
        from mcp.client.streamable_http import streamable_http_client
        from mcp_types import Implementation

        self._closing = anyio.Event()
        async with AsyncExitStack() as stack:
            transport: Any
            if self._program is None:
                from chimera.tools.server_endpoint import endpoint_client

                assert not isinstance(self.entry.place, Program)
                http = endpoint_client(self.entry.place, self.entry.timeout_s)
                await stack.enter_async_context(http)
                transport = streamable_http_client(
                    self.entry.place.url, http_client=http, max_sse_event_size=MOST_MESSAGE
                )
            else:
                command, *arguments = self._program.command_line()
                parameters = StdioServerParameters(
                    command=command,
                    args=arguments,
                    env=self._program.environment,
                    cwd=self._program.cwd,
                    encoding_error_handler="replace",
                )
                transport = stdio_client(parameters, errlog=self._program.errors)
            client = Client(
                transport, client_info=Implementation(name="chimera", version=__version__), cache=None
            )
            self._client = await stack.enter_async_context(client)
            ready.set_result(None)
            await self._closing.wait()

    @property
    def _start_s(self) -> float:
        return max(_START_S, self.entry.timeout_s)

    @property
    def _connected(self) -> mcp.Client:
        assert self._client is not None
        return self._client

    def _has_ended(self, fault: BaseException) -> bool:
        """Whether there is no use in another call."""
        from mcp_types import CONNECTION_CLOSED

        lost = getattr(fault, "code", None) == CONNECTION_CLOSED
        return lost or isinstance(fault, OSError) or self._held is None or self._held.done()

    def _about(self, what: str) -> str:
        """A fault of this server, with the last that it said about itself."""
        words = self._program.last_words() if self._program is not None else ""
        said = f" It said: {one_line(escaped(words[-_SHOWN_FAULT:]), _SHOWN_FAULT)}" if words.strip() else ""
        return self._redactor.text(f"the MCP server {self.entry.name!r} {what}.{said}")


def _pass_on(held: Future[None], ready: Future[None]) -> None:
    """Whoever waits for the connection hears why there is none."""
    if not ready.done() and not held.cancelled() and (fault := held.exception()) is not None:
        ready.set_exception(fault)


def _faults() -> tuple[type[BaseException], ...]:
    """What the SDK and what it stands on raise when a server is not as it should be."""
    import anyio
    import httpx2
    from mcp import MCPError

    streams = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream)
    # A result that is not what the protocol or the server's own schema says: ValueError (pydantic), RuntimeError.
    return (
        MCPError,
        OSError,
        ValueError,
        RuntimeError,
        httpx2.HTTPError,
        httpx2.StreamError,
        ExceptionGroup,
        *streams,
    )


def _reason(fault: BaseException) -> str:
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return one_line(escaped(str(fault) or type(fault).__name__), _SHOWN_FAULT)


def _output(name: str, result: mcp_types.CallToolResult) -> ToolOutput:
    """A result as text. What is not text is told, not shown."""
    parts = [_text(block) for block in result.content]
    if not parts and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False)]
    text = plain_text("\n".join(parts).encode("utf-8", "replace")) or "(an empty result)"
    size = size_text(len(text.encode()))
    if result.is_error:
        return failed(text, digest=f"{name} failed: {text.splitlines()[0]}")
    return ToolOutput(text=text, digest=f"{name}: {size}")


def _text(block: mcp_types.ContentBlock) -> str:
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return f"[{block.type}, {block.mime_type}, {size_text(len(block.data) * 3 // 4)}; not shown]"
        case "resource_link":
            return f"[resource {block.uri}: {block.title or block.name}]"
        case "resource":
            text = getattr(block.resource, "text", None)
            kind = block.resource.mime_type or "unknown type"
            return text if isinstance(text, str) else f"[resource {block.resource.uri}, {kind}; not shown]"
