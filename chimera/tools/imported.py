"""Tools that the user imports for a run, from MCP servers and from the description of a service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from chimera.config import Config
from chimera.core.tokens import GROUP_SEPARATOR
from chimera.errors import ConfigError
from chimera.record.redaction import keep_secret
from chimera.tools.foreign import Deadline, Imported


@contextmanager
def imported_tools(config: Config, environment: Mapping[str, str]) -> Iterator[Imported]:
    """What the settings import. Servers that were started for it are ended with the block, whatever ends it.

    Args:
        config: the settings.
        environment: the one of this process.

    Raises:
        ConfigError: a file is wrong, or a server cannot be used.
    """
    root = config.workspace.resolve()
    with ExitStack() as stack:
        parts: list[Imported] = []
        deadline = Deadline()
        if config.mcp is not None:
            _check_outside(config.mcp, root)
            from chimera.tools.mcp import mcp_tools

            servers = mcp_tools(config.mcp, root=root, environment=environment, deadline=deadline)
            parts.append(stack.enter_context(servers))
        if config.openapi is not None:
            from chimera.tools.openapi import Description, openapi_tools

            description = Description(
                file=config.openapi,
                base_url=config.openapi_base_url,
                methods=config.openapi_methods,
                variable=config.openapi_env,
            )
            service = openapi_tools(description, root=root, environment=environment, deadline=deadline)
            parts.append(stack.enter_context(service))
        yield _together(parts, deadline)


def _together(parts: list[Imported], deadline: Deadline) -> Imported:
    tools = [tool for part in parts for tool in part.tools]
    names = [tool.name for tool in tools]
    if doubled := [name for name in names if names.count(name) > 1]:
        raise ConfigError(
            f"an MCP server and the OpenAPI description both bring a tool named {doubled[0]!r}: rename the server or the file"
        )
    secrets: dict[str, str] = {}
    for name, value in ((n, v) for part in parts for n, v in part.secrets.items()):
        keep_secret(secrets, name, value)
    servers = ", ".join(dict.fromkeys(name.partition(GROUP_SEPARATOR)[0] for name in names))
    said = [f"Imported tools act outside the sandbox: {len(names)} of {servers}."] if names else []
    return Imported(
        tools=tuple(tools),
        notices=(*said, *(notice for part in parts for notice in part.notices)),
        secrets=secrets,
        deadline=deadline,
    )


def _check_outside(file: Path, root: Path) -> None:
    if file.resolve().is_relative_to(root):
        raise ConfigError(
            f"the MCP file {str(file)!r} lies in the workspace, where the repository and the model can change which programs "
            "it starts: keep it in a place of your own"
        )
