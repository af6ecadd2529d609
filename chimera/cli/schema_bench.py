"""`chimera schema-bench`: what the schema of each tool costs, full and compacted."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from chimera.cli.output import Output

_WINDOWS = (8_000, 32_000, 128_000)


def schema_bench(
    ctx: typer.Context,
    output_format: Annotated[Literal["text", "json"], typer.Option(help="Of the table.")] = "text",
) -> int:
    """Count the tokens of each tool's schema, as sent in full and with --compact-schemas."""
    from chimera.cli.advertised import advertised_tools
    from chimera.core.context_budget import ContextBudget
    from chimera.core.model import Window
    from chimera.core.tokens import TokenCounter
    from chimera.tools.schema_compact import compact_schema

    output: Output = ctx.obj
    counter = TokenCounter()
    schemas = [(tool.name, tool.schema()) for tool in advertised_tools()]
    rows = [
        (name, counter.schema(schema), counter.schema(compact_schema(schema))) for name, schema in schemas
    ]
    full, compact = sum(row[1] for row in rows), sum(row[2] for row in rows)
    if output_format == "json":
        tools = [{"name": n, "full_tokens": f, "compact_tokens": c} for n, f, c in rows]
        output.json({"tools": tools, "full_tokens": full, "compact_tokens": compact})
        return 0
    rows.append(("total", full, compact))
    width = max(len(name) for name, _, _ in rows)
    output.text(f"{'tool':<{width}}  {'full':>8}  {'compact':>8}")
    for name, tokens, compacted in rows:
        output.text(f"{name:<{width}}  {tokens:>8,}  {compacted:>8,}")
    output.text("\nshare of the budget")
    for window in _WINDOWS:
        budget = ContextBudget(window=Window(tokens=window, source="argument")).budget
        heading = f"window {window // 1000}k"
        output.text(f"{heading:<{width}}  {full / budget:>8.1%}  {compact / budget:>8.1%}")
    return 0
