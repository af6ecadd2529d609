"""Imported tools in runs: advertised, asked about, redacted, resumed, and nothing started on a repository's word."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import chimera
from chimera.api import resume
from chimera.record.run_directory import read_events
from chimera.testing import ScriptedModel, call, text
from chimera.tools.base import Tool
from chimera.workspace import process_table

PROGRAM = Path(__file__).parent / "tools/mcp_program.py"
TOKEN = "trk-4815162342-canary"
UNCONFINED: dict[str, Any] = {"mode": "yolo", "sandbox": "danger-full-access"}
pytestmark = pytest.mark.xdist_group("mcp")


@dataclass(frozen=True, kw_only=True)
class Place:
    """A workspace, a state directory and the user's own file of servers."""

    root: Path
    state: Path
    file: Path

    def run(self, *replies: Any, **options: Any) -> chimera.RunResult:
        model = ScriptedModel(list(replies), window=32_000)
        given = {"mcp": self.file, **UNCONFINED, **options}
        return chimera.run("go", workspace=self.root, state=self.state, model=model, **given)

    def events(self, result: chimera.RunResult) -> list[dict[str, Any]]:
        assert result.run_dir is not None
        return list(read_events(Path(result.run_dir)))


def outputs(events: list[dict[str, Any]]) -> list[str]:
    return [event["output"] for event in events if event["type"] == "tool_finished"]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "workspace").mkdir()
    server = {"command": sys.executable, "args": ["-S", str(PROGRAM)], "env": {"TRACKER_TOKEN": TOKEN}}
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"tracker": server}}), encoding="utf-8")
    return Place(root=tmp_path / "workspace", state=tmp_path / "state", file=file)


def test_a_run_offers_calls_and_ends_a_server_and_keeps_its_secrets(place: Place) -> None:
    result = place.run(
        call("tracker__echo", text="hi"), call("tracker__environment"), text("ok"), tools=("read_file", "tracker__e*")
    )  # fmt: skip
    assert result.answer == "ok"
    assert result.context is not None
    assert list(result.context.floor["tools"]) == ["read_file", "tracker__echo", "tracker__environment"]
    assert "Imported tools act outside the sandbox: 7 of tracker." in result.warnings
    events = place.events(result)
    echoed, environment = outputs(events)
    assert echoed == "hi"
    told = json.loads(environment)
    assert told["TRACKER_TOKEN"] == "[redacted:TRACKER_TOKEN]"
    assert TOKEN not in json.dumps(events)
    assert told["pid"] not in process_table.living()


@pytest.mark.parametrize("mode", ["ask", "accept-edits"])
def test_the_modes_that_ask_ask_about_every_imported_tool(place: Place, mode: str) -> None:
    asked: list[str] = []

    def ask(tool: Tool, arguments: Mapping[str, Any]) -> bool:
        asked.append(tool.name)
        return tool.name == "tracker__echo"

    result = place.run(
        call("tracker__echo", text="hi"), call("tracker__fail"), text("ok"), mode=mode, ask=ask
    )
    assert asked == ["tracker__echo", "tracker__fail"]
    echoed, failed = outputs(place.events(result))
    assert echoed == "hi"
    assert "denied by the user" in failed


def test_a_resumed_run_uses_the_same_file(place: Place) -> None:
    first = place.run(call("tracker__echo", text="a"), text("ok"))
    options = place.events(first)[0]["options"]
    assert options["mcp"] == str(place.file)
    model = ScriptedModel([call("tracker__echo", text="b"), text("again")], window=32_000)
    again = resume(message="more", workspace=place.root, state=place.state, model=model)
    assert again.answer == "again"
    assert outputs(place.events(again)) == ["a", "b"]


def test_a_file_in_the_workspace_starts_nothing(place: Place, tmp_path: Path) -> None:
    mark = tmp_path / "started"
    inside = place.root / ".mcp.json"
    inside.write_text(
        json.dumps({"mcpServers": {"evil": {"command": "touch", "args": [str(mark)]}}}), encoding="utf-8"
    )
    (tmp_path / "link.json").symlink_to(inside)
    for file in (inside, tmp_path / "link.json"):
        result = place.run(text("ok"), mcp=file)
        assert (result.stop_reason, result.exit_code) == ("usage_error", 2)
        assert "lies in the workspace" in result.message
    assert place.run(text("ok"), mcp=None).answer == "ok"
    assert not mark.exists()


def test_a_server_that_cannot_be_used_stops_the_run_before_it_is_recorded(place: Place) -> None:
    server = {
        "command": "sh",
        "args": ["-c", 'echo "no licence for $TRACKER_TOKEN" >&2'],
        "env": {"TRACKER_TOKEN": TOKEN},
    }
    place.file.write_text(json.dumps({"mcpServers": {"tracker": server}}), encoding="utf-8")
    result = place.run(text("ok"))
    assert result.stop_reason == "usage_error"
    assert "the MCP server 'tracker' cannot be used" in result.message
    assert "no licence for [redacted:TRACKER_TOKEN]" in result.message
    assert not list(place.state.glob("runs/*"))


def test_compacted_schemas_of_imported_tools_take_the_same_calls(place: Place) -> None:
    result = place.run(
        call("tracker__echo", text="hi"), call("tracker__echo", text=1), text("ok"), compact_schemas=True
    )
    echoed, refused = outputs(place.events(result))
    assert echoed == "hi"
    assert "1 is not of type 'string'" in refused


def test_operations_and_servers_stand_side_by_side_in_a_run(place: Place, tmp_path: Path) -> None:
    shop = tmp_path / "shop.json"
    described = {
        "openapi": "3.1.0",
        "paths": {"/items": {"get": {"operationId": "list"}, "post": {"operationId": "add"}}},
    }
    shop.write_text(json.dumps(described), encoding="utf-8")
    url = "http://127.0.0.1:1/v1"
    result = place.run(call("shop__list"), text("ok"), openapi=shop, openapi_base_url=url)
    (told,) = outputs(place.events(result))
    assert "could not reach 127.0.0.1:1" in told
    assert result.context is not None
    assert {"shop__list", "tracker__echo"} <= result.context.floor["tools"].keys()
    assert "shop__add" not in result.context.floor["tools"]
    options = place.events(result)[0]["options"]
    assert (options["openapi"], options["openapi_base_url"]) == (str(shop), url)
