"""Writes the parts of the documentation that are made from the program: `python docs/generate.py`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import chimera
from chimera.cli.app import app
from chimera.cli.examples import EXAMPLES
from chimera.cli.run_page import PARTS
from chimera.config import FIELD_NAMES
from chimera.pages.context_plot import Column, Limits, context_picture
from chimera.record.events import Event
from chimera.testing import Reply, ScriptedModel, call, text

DOCS = Path(__file__).parent
WINDOW = 8_000
INTRODUCTION = """# Commands

<!-- Made by docs/generate.py; a test compares. -->

Results go to standard output, everything else to standard error. Nothing asks a question without a terminal. What stands in
brackets is the default. Where a variable is named, it sets the same as the option; [`config.toml`](settings.md) takes
the same names in small letters.
"""
NO_NAME = "Without the name of a command, `run` is meant."
_MODULES = 14


def generated() -> dict[Path, str]:
    """What belongs into which file."""
    with tempfile.TemporaryDirectory() as scratch:
        picture = _picture(Path(scratch))
    return {DOCS / "commands.md": _commands(), DOCS / "images" / "context.svg": picture}


def _picture(scratch: Path) -> str:
    """The curve of a scripted run that reads more than its window holds."""
    events = _run(scratch)
    start = next(event.fields for event in events if event.type == "run_started")
    columns = []
    before: int | None = None
    for event in events:
        if event.type == "compaction" and event.fields["changed"]:
            before = event.fields["before"]
        if event.type == "prompt":
            columns.append(
                Column(
                    name=f"step {event.fields['step']}",
                    size=event.fields["calibrated"],
                    parts=event.fields["parts"],
                    compacted=before is not None,
                    before=before,
                )
            )
            before = None
    limits = Limits(trigger=start["trigger"], budget=start["budget"], window=start["window"])
    return context_picture("Tokens of each request of a run, by part", columns, limits, PARTS)


def _run(scratch: Path) -> list[Event]:
    workspace = scratch / "workspace"
    workspace.mkdir()
    for n in range(_MODULES):
        lines = [f"def part_{n}_{k}(value):\n    return value * {k} + {n}\n\n" for k in range(20)]
        (workspace / f"module_{n:02}.py").write_text("".join(lines), encoding="utf-8")
    events: list[Event] = []
    chimera.run(
        "Make every function of the modules return a negative value for a negative argument.",
        workspace=workspace,
        state=scratch / "state",
        model=ScriptedModel(list(_replies()), window=WINDOW),
        emit=events.append,
        mode="yolo",
        sandbox="danger-full-access",
    )
    return events


def _replies() -> Iterator[Reply]:
    for n in range(_MODULES):
        tasks = [
            {"title": f"module_{k:02}.py", "status": "done" if k < n else "doing" if k == n else "todo"}
            for k in range(_MODULES)
        ]
        if n % 4 == 0:
            yield call("update_plan", tasks=tasks, plan="One module after the other, smallest change first.")
        path = f"module_{n:02}.py"
        yield call("read_file", path=path)
        edit = {"old": f"return value * 3 + {n}", "new": f"return value * 3 - {n}"}
        yield call("edit_file", path=path, edits=[edit])
    yield text("All modules are changed.")


def _commands() -> str:
    """The reference of the command line, made from the parser itself."""
    root: Any = typer.main.get_command(app)
    parts = [INTRODUCTION]
    for name, command in root.commands.items():
        parts += _command(f"chimera {name}", command)
    return "\n".join(parts)


def _command(path: str, command: Any) -> Iterator[str]:
    subcommands = getattr(command, "commands", {})
    yield f"{'#' * (path.count(' ') + 1)} {path}\n"
    yield f"{(command.help or NO_NAME).strip()}\n"
    if not subcommands:
        context = command.make_context(path, [], resilient_parsing=True)
        yield f"```text\n{' '.join([path, *command.collect_usage_pieces(context)])}\n```\n"
        yield from _options(path, command, context)
    if examples := EXAMPLES.get(path.partition(" ")[2]):
        yield "```bash\n" + "\n".join(examples) + "\n```\n"
    for name, subcommand in subcommands.items():
        yield from _command(f"{path} {name}", subcommand)


def _options(path: str, command: Any, context: Any) -> Iterator[str]:
    rows = ["| name | means |", "|---|---|"]
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None or parameter.name == "help":
            continue
        names, words = (cell.replace("|", "\\|") for cell in record)
        variable = _variable(path, parameter.name)
        rows.append(f"| `{names}` | {words}{f' `{variable}`' if variable else ''} |")
    if len(rows) > 2:
        yield "\n".join(rows) + "\n"


def _variable(path: str, name: str) -> str | None:
    field = {"model_option": "model_options"}.get(name, name)
    return f"CHIMERA_{field.upper()}" if path == "chimera run" and field in FIELD_NAMES else None


if __name__ == "__main__":
    for path, content in generated().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")
        print(path)
