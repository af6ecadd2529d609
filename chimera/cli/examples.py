"""Examples in the help of commands: lines to copy, shown as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typer._click.formatting import HelpFormatter

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "": (
        "chimera demo",
        'chimera run "Make the failing test pass" --verify "pytest -q"',
        "chimera doctor",
    ),
    "run": (
        'chimera run "Make the failing test pass" --verify "pytest -q"',
        'chimera run "Rename add to plus" --model ollama_chat/qwen3-coder --window 32000',
        "chimera run --file task.md --mode auto --max-steps 30 --output-format json",
        'chimera run "Say what calc.py does" --mode plan',
    ),
    "resume": (
        "chimera resume",
        'chimera resume "Now add a test for it"',
        "chimera resume 20261130 --max-steps 20",
    ),
    "chat": (
        "chimera chat",
        'chimera chat "What does calc.py do?" --mode plan',
        'chimera chat --model ollama_chat/qwen3-coder --verify "pytest -q"',
    ),
    "show": (
        "chimera show",
        "chimera show 20261130 --output-format json",
        "chimera show --html run.html",
    ),
    "replay": (
        "chimera replay",
        "chimera replay --window 8000,16000 --compaction note,mask",
        "chimera replay 20261130 --html replay.html",
    ),
    "bench": (
        "chimera bench tasks --agent oracle --fail-under 1",
        "chimera bench tasks/basics --model ollama_chat/qwen3-coder -k 3 --output jobs/first",
        "chimera bench report jobs/first --html report.html",
        "chimera bench check tasks",
    ),
    "local": (
        "chimera local list",
        "chimera local add model.gguf --name mine",
        "chimera local pull qwen2.5-coder-1.5b",
    ),
    "config": (
        "chimera config",
        "chimera config --model ollama_chat/qwen3-coder --output-format json",
    ),
    "floor": (
        "chimera floor --window 16000",
        "chimera floor --openapi ~/shop.json --compact-schemas",
    ),
}
"""By the words behind `chimera`."""


def write_examples(path: str, formatter: HelpFormatter) -> None:
    """Write the examples of a command, unbroken, so that they can be copied.

    Args:
        path: the words by which it is called, the name of the program included.
        formatter: of the help.
    """
    name = path.partition(" ")[2].removesuffix(" run")
    if examples := EXAMPLES.get(name):
        with formatter.section("Examples"):
            formatter.write("".join(f"  {line}\n" for line in examples))
