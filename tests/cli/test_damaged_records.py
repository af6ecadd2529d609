"""No command that reads a record ends in a bug of ours, whatever a field of it holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from chimera.config import state_dir
from tests.cli.command import UNCONFINED, Chimera, Script

CI = settings().max_examples <= 100
JUNK: tuple[Any, ...] = (5, "x", None, [], {}, True, ["x"], {"x": 1}, -1.5)
SCRIPT: list[dict[str, Any]] = [
    {"call": "shell", "arguments": {"command": "echo b > b; seq 100"}},
    *({"call": "shell", "arguments": {"command": f"seq {n}000 {n}400"}} for n in range(1, 8)),
    {"call": "update_plan", "arguments": {"tasks": [{"title": "t", "status": "doing"}]}},
    {"text": "ok"},
]


@pytest.fixture
def record(repository: Path, chimera: Chimera, script: Script) -> Path:
    ended = chimera(
        "run", "x", "--model", script(SCRIPT), *UNCONFINED, "--window", "6000", "--output-format", "json"
    )
    assert ended.result["context"]["compactions"] >= 1
    (path,) = Path(state_dir(), "runs").iterdir()
    return path / "events.jsonl"


def places(events: list[dict[str, Any]]) -> Iterator[tuple[str | int, ...]]:
    """The way to every value, once for each type of event."""
    seen: set[tuple[str | int, ...]] = set()

    def below(value: Any, way: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
        items = (
            value.items()
            if isinstance(value, dict)
            else enumerate(value[:1])
            if isinstance(value, list)
            else ()
        )
        for key, inner in items:
            yield (*way, key)
            yield from below(inner, (*way, key))

    for number, event in enumerate(events):
        for way in below(event, ()):
            if (kind := (event["type"], *way)) not in seen and way[0] not in {"tools", "options"}:
                seen.add(kind)
                yield (number, *way)


def spoiled(events: list[dict[str, Any]], way: tuple[str | int, ...], junk: Any) -> str:
    copy: Any = json.loads(json.dumps(events))
    value = copy
    for key in way[:-1]:
        value = value[key]
    value[way[-1]] = junk
    return "".join(json.dumps(event) + "\n" for event in copy)


@pytest.mark.timeout(300 if CI else 3_600)
def test_any_value_of_a_record_may_be_junk(record: Path, chimera: Chimera, tmp_path: Path) -> None:
    events = [json.loads(line) for line in record.read_text().splitlines()]
    name = record.parent.name
    junk = cycle(JUNK)
    tried = 0
    for way in list(places(events))[:: 20 if CI else 1]:
        snapshots = events[int(way[0])]["type"] in {"run_started", "checkpoint"} and len(way) == 2
        for value in [next(junk)] if CI else JUNK:
            record.write_text(spoiled(events, way, value))
            commands = [["show", name], ["runs"], ["show", name, "--html", str(tmp_path / "page.html")]]
            commands += [["diff", name]] if snapshots else []
            for command in commands:
                ended = chimera(*command)
                assert ended.code in {0, 2}, (command, way, value, ended.err)
            tried += 1
    assert tried > 5
