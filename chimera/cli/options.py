"""Options that several commands share, and their help in groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from chimera.cli.examples import write_examples
from chimera.cli.output import OutputFormat
from chimera.config import (
    FIELD_NAMES,
    AdapterName,
    CompactionMode,
    Mode,
    SandboxLevel,
    ToolProtocolChoice,
    parse_model_options,
)
from chimera.overriding import override

if TYPE_CHECKING:
    from typer._click.formatting import HelpFormatter

MODEL, CONTEXT, LIMITS, SAFETY, TOOLS, OUTPUT = "Model", "Context", "Limits", "Safety", "Tools", "Output"

Workspace = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The folder to work in [the current one].")
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        help="litellm name (PROVIDER/MODEL) or scripted:FILE.",
        rich_help_panel=MODEL,
    ),
]
ApiBase = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Address of an OpenAI-compatible server.", rich_help_panel=MODEL),
]
Adapter = Annotated[
    AdapterName | None,
    typer.Option(
        help="What speaks to the provider [auto: direct, or litellm where it must].", rich_help_panel=MODEL
    ),
]
ModelOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="Passed to the provider (temperature=0); repeatable.",
        rich_help_panel=MODEL,
    ),
]
Window = Annotated[
    int | None,
    typer.Option(
        metavar="TOKENS", help="Context window, prompt and completion together.", rich_help_panel=CONTEXT
    ),
]
BudgetFraction = Annotated[
    float | None,
    typer.Option(metavar="SHARE", help="Share of the window for the prompt [0.6].", rich_help_panel=CONTEXT),
]
Trigger = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE", help="Share of the budget at which to compact [0.8].", rich_help_panel=CONTEXT
    ),
]
KeepTurns = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Newest turns a compaction keeps as they are [6].", rich_help_panel=CONTEXT
    ),
]
Compaction = Annotated[
    CompactionMode | None,
    typer.Option(help="How old turns are shortened [note].", rich_help_panel=CONTEXT),
]
ModeOption = Annotated[
    Mode | None,
    typer.Option(help="What needs your yes [ask on a terminal, else auto].", rich_help_panel=SAFETY),
]
Sandbox = Annotated[
    SandboxLevel | None,
    typer.Option(help="What commands may write [workspace-write].", rich_help_panel=SAFETY),
]
AllowNet = Annotated[
    bool | None,
    typer.Option("--allow-net/--no-net", help="Commands may use the network.", rich_help_panel=SAFETY),
]
AllowGitWrite = Annotated[
    bool | None,
    typer.Option("--allow-git-write/--no-git-write", help="Commands may commit.", rich_help_panel=SAFETY),
]
AllowSecretFiles = Annotated[
    bool | None,
    typer.Option(
        "--allow-secret-files/--no-secret-files",
        help="Commands may read ignored .env, *.pem and the like.",
        rich_help_panel=SAFETY,
    ),
]
Verify = Annotated[str | None, typer.Option(metavar="COMMAND", help="Must succeed before an answer counts.")]
Format = Annotated[
    OutputFormat, typer.Option(help="Format of the result on standard output.", rich_help_panel=OUTPUT)
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Only errors and the result.", rich_help_panel=OUTPUT)
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also outputs, and tracebacks.", rich_help_panel=OUTPUT)
]
Tools = Annotated[
    str | None,
    typer.Option(metavar="A,B", help="Offer only these tools.", rich_help_panel=TOOLS),
]
ToolProtocol = Annotated[
    ToolProtocolChoice | None,
    typer.Option(
        help="How calls travel: natively or as JSON [auto: JSON where the other fails].",
        rich_help_panel=TOOLS,
    ),
]
Lean = Annotated[
    bool | None,
    typer.Option(
        "--lean/--full", help="A smaller floor with fewer tools [with json].", rich_help_panel=TOOLS
    ),
]
CompactSchemas = Annotated[
    bool | None,
    typer.Option(
        "--compact-schemas/--full-schemas",
        help="Send tool schemas without annotations.",
        rich_help_panel=TOOLS,
    ),
]
Mcp = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Offer the tools of the MCP servers in this file.", rich_help_panel=TOOLS
    ),
]
OpenApi = Annotated[
    Path | None,
    typer.Option(
        "--openapi",
        metavar="FILE",
        help="Offer the operations of this OpenAPI description.",
        rich_help_panel=TOOLS,
    ),
]
OpenApiBaseUrl = Annotated[
    str | None,
    typer.Option(
        "--openapi-base-url",
        metavar="URL",
        help="Where that service is [as described].",
        rich_help_panel=TOOLS,
    ),
]
OpenApiMethods = Annotated[
    str | None,
    typer.Option(
        "--openapi-methods",
        metavar="A,B",
        help="Offer operations with these methods [get].",
        rich_help_panel=TOOLS,
    ),
]
OpenApiEnv = Annotated[
    str | None,
    typer.Option(
        "--openapi-env",
        metavar="NAME",
        help="Environment variable with the key of that service.",
        rich_help_panel=TOOLS,
    ),
]


_WIDE_CELLS = 60
"""Below them what an option does is told in the line under its name."""


def write_list(records: Sequence[tuple[str, str]], formatter: HelpFormatter) -> None:
    """Write names and what they mean, side by side where there is room for that."""
    formatter.write_dl(records, col_max=30 if formatter.width >= _WIDE_CELLS else 6)


class GroupedCommand(TyperCommand):
    """A command whose help lists options under the headings of their groups, and ends with examples."""

    @override
    def format_options(self, ctx: Any, formatter: HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                heading = getattr(parameter, "rich_help_panel", None) or "Options"
                if parameter.param_type_name == "argument":
                    heading = "Arguments"
                groups.setdefault(heading, []).append(record)
        for heading, records in groups.items():
            with formatter.section(heading):
                write_list(records, formatter)

    @override
    def format_epilog(self, ctx: Any, formatter: HelpFormatter) -> None:
        write_examples(ctx.command_path, formatter)


class CommandGroup(TyperGroup):
    """A group whose help lists commands under the headings of their groups, and ends with examples."""

    @override
    def format_commands(self, ctx: Any, formatter: HelpFormatter) -> None:
        self.write_commands(
            {
                name: (
                    getattr(command, "rich_help_panel", None) or "Commands",
                    command.get_short_help_str(formatter.width),
                )
                for name, command in self.commands.items()
            },
            formatter,
        )

    def write_commands(self, commands: Mapping[str, tuple[str, str]], formatter: HelpFormatter) -> None:
        """Write commands: name -> heading and help."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for name, (heading, text) in commands.items():
            groups.setdefault(heading, []).append((name, text))
        for heading, records in groups.items():
            with formatter.section(heading):
                write_list(records, formatter)

    @override
    def format_epilog(self, ctx: Any, formatter: HelpFormatter) -> None:
        write_examples(ctx.command_path, formatter)


def settings_given(params: Mapping[str, Any]) -> dict[str, Any]:
    """The options that a command has in common with the settings, None for those that were not given.

    Args:
        params: what the parser made of the command line.
    """
    settings = {name: params[name] for name in FIELD_NAMES if name in params}
    if "model_option" in params:
        pairs = params["model_option"]
        settings["model_options"] = parse_model_options(list(pairs)) if pairs else None
    if "tools" in params:
        settings["tools"] = tool_names(params["tools"])
    if "mcp" in params:
        names = ("mcp", "openapi", "openapi_base_url", "openapi_methods", "openapi_env")
        settings |= imports(*(params[name] for name in names))
    return settings


def imports(
    mcp: Path | None, openapi: Path | None, base_url: str | None, methods: str | None, env: str | None
) -> dict[str, Any]:
    """The options that import tools, as settings."""
    names = tool_names(methods)
    return {
        "mcp": mcp,
        "openapi": openapi,
        "openapi_base_url": base_url,
        "openapi_methods": names and tuple(name.lower() for name in names),
        "openapi_env": env,
    }


def tool_names(text: str | None) -> tuple[str, ...] | None:
    """`a,b` as names; None stays None."""
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())
