"""`chimera schema-bench`: what tool schemas cost, full and compacted, and proof that both accept the same calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from msgspec.structs import replace

from chimera.cli import options
from chimera.cli.cells import escaped
from chimera.cli.output import Output
from chimera.config import load_config
from chimera.errors import ConfigError

if TYPE_CHECKING:
    from chimera.tools.sample_calls import Comparison

_WINDOWS = (4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 1_000_000)
_SEED = 1
Row = tuple[str, int, int]
"""Name, tokens in full, tokens compacted."""


def schema_bench(  # noqa: PLR0913, PLR0917  (a command has the options it has)
    ctx: typer.Context,
    tools: options.Tools = None,
    mcp: options.Mcp = None,
    openapi: options.OpenApi = None,
    openapi_base_url: options.OpenApiBaseUrl = None,
    openapi_methods: options.OpenApiMethods = None,
    openapi_env: options.OpenApiEnv = None,
    tools_json: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also the tools in a JSON list, as a provider gets them.",
            rich_help_panel=options.TOOLS,
        ),
    ] = None,
    calls: Annotated[
        int, typer.Option(metavar="N", min=0, help="Made-up calls to compare both forms by.")
    ] = 2_000,
    output_format: Annotated[
        Literal["text", "json"], typer.Option(help="Of the table.", rich_help_panel=options.OUTPUT)
    ] = "text",
) -> int:
    """Count the tokens of each tool's schema, in full and with --compact-schemas, and prove that the same calls pass.

    The calls are made up from the full schemas, valid and invalid ones. Exit code: 0, or 1 where the two forms differ
    about one.
    """
    from chimera.cli.advertised import advertised_tools
    from chimera.core.context_budget import ContextBudget
    from chimera.core.model import Window
    from chimera.core.tokens import TokenCounter
    from chimera.tools.sample_calls import is_sound
    from chimera.tools.schema_compact import compact_schema

    output: Output = ctx.obj
    config = load_config(
        {
            "tools": options.tool_names(tools),
            **options.imports(mcp, openapi, openapi_base_url, openapi_methods, openapi_env),
        }
    )
    with advertised_tools(replace(config, compact_schemas=False)) as (advertised, notices):
        schemas = [tool.schema() for tool in advertised]
    schemas += _from_json(tools_json) if tools_json is not None else []
    counter = TokenCounter()
    pairs = [(schema, compact_schema(schema)) for schema in schemas]
    rows: list[Row] = [(s["function"]["name"], counter.schema(s), counter.schema(c)) for s, c in pairs]
    full, compact = sum(row[1] for row in rows), sum(row[2] for row in rows)
    budgets = {n: ContextBudget(window=Window(tokens=n, source="argument")).budget for n in _WINDOWS}
    whole = [is_sound(schema["function"]["parameters"]) for schema in schemas]
    broken = [name for (name, _, _), sound in zip(rows, whole, strict=True) if not sound]
    proof = _proof([pair for pair, sound in zip(pairs, whole, strict=True) if sound], calls)
    if output_format == "json":
        output.json(
            {
                "tools": [{"name": n, "full_tokens": f, "compact_tokens": c} for n, f, c in rows],
                "full_tokens": full,
                "compact_tokens": compact,
                "budget_shares": [
                    {"window": n, "full": round(full / b, 4), "compact": round(compact / b, 4)}
                    for n, b in budgets.items()
                ],
                "proof": {
                    "calls": proof.calls,
                    "valid": proof.valid,
                    "differing": proof.differing,
                    "left_out": broken,
                },
            }
        )
    else:
        output.text(escaped("\n".join([*notices, *_table(rows, budgets, proof)])))
        if broken:
            output.text(escaped(f"Not compared, since their schemas are no JSON Schema: {', '.join(broken)}"))
    return 1 if proof.differing else 0


def _table(rows: Sequence[Row], budgets: Mapping[int, int], proof: Comparison) -> list[str]:
    from chimera.core.tokens import GROUP_SEPARATOR

    full, compact = sum(row[1] for row in rows), sum(row[2] for row in rows)
    servers: dict[str, list[Row]] = {}
    for row in rows:
        server, separator, _ = row[0].partition(GROUP_SEPARATOR)
        servers.setdefault(f"server {server}" if separator else "chimera", []).append(row)
    sums = [(name, sum(r[1] for r in group), sum(r[2] for r in group)) for name, group in servers.items()]
    shown = [*rows, *(sums if len(sums) > 1 else []), ("total", full, compact)]
    headings = {window: f"window {window // 1000:,}k" for window in budgets}
    width = max(map(len, (*(name for name, _, _ in shown), *headings.values())))
    lines = [f"{'tool':<{width}}  {'full':>8}  {'compact':>8}  {'saved':>6}"]
    lines += [f"{name:<{width}}  {f:>8,}  {c:>8,}  {1 - c / max(f, 1):>6.0%}" for name, f, c in shown]
    lines.append("\nshare of the budget")
    for window, budget in budgets.items():
        lines.append(f"{headings[window]:<{width}}  {full / budget:>8.1%}  {compact / budget:>8.1%}")
    if proof.calls:
        lines.append(
            f"\n{proof.calls:,} made-up calls, {proof.valid:,} of them valid: the two forms differ about {proof.differing:,}"
        )
    return lines


def _proof(pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]], calls: int) -> Comparison:
    from chimera.tools.sample_calls import Comparison, compare

    total = Comparison()
    for index, (full, compact) in enumerate(pairs):
        share = calls // len(pairs) + (index < calls % len(pairs))
        if share:
            one, other = full["function"]["parameters"], compact["function"]["parameters"]
            total += compare(one, other, calls=share, seed=_SEED + index)
    return total


def _from_json(path: Path) -> list[dict[str, Any]]:
    """Tools from a file: a list, or an object with `tools`, in the form of OpenAI, Anthropic or MCP."""
    from chimera.tools.foreign import named_file, parsed_json

    where = f"the tools file {str(path)!r}"
    value = parsed_json(named_file(path, "tools file"), where)
    entries = value.get("tools") if isinstance(value, dict) else value
    if not isinstance(entries, list):
        raise ConfigError(f'{where} must be a list of tools, or an object with "tools"')
    found = []
    for number, entry in enumerate(entries, 1):
        function = entry.get("function", entry) if isinstance(entry, dict) else {}
        keys = ("parameters", "input_schema", "inputSchema")
        parameters = next((function[key] for key in keys if isinstance(function.get(key), dict)), None)
        if parameters is None or not isinstance(function.get("name"), str):
            raise ConfigError(
                f"tool {number} of {where} needs a name and parameters (or input_schema, inputSchema)"
            )
        description = str(function.get("description") or "")
        made = {"name": function["name"], "description": description, "parameters": parameters}
        found.append({"type": "function", "function": made})
    return found
