"""The options that import tools, and AGENTS.md, on the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.command import UNCONFINED, Chimera, Script

PROGRAM = Path(__file__).parents[1] / "tools/mcp_program.py"


@pytest.mark.xdist_group("mcp")
def test_floor_run_and_resume_import_tools_and_count_agents_md(
    repository: Path, tmp_path: Path, chimera: Chimera, script: Script
) -> None:
    servers = tmp_path / "servers.json"
    server = {"command": sys.executable, "args": ["-S", str(PROGRAM)], "tools": ["echo"]}
    servers.write_text(json.dumps({"mcpServers": {"tracker": server}}), encoding="utf-8")
    shop = tmp_path / "shop.json"
    upload = {"requestBody": {"required": True, "content": {"multipart/form-data": {}}}}
    paths = {
        "/items": {"get": {"operationId": "list"}, "post": {"operationId": "add"}},
        "/up": {"post": upload},
    }
    shop.write_text(json.dumps({"openapi": "3.1.0", "paths": paths}), encoding="utf-8")
    (repository / "AGENTS.md").write_text("Be brief.\n", encoding="utf-8")
    imports = (
        *("--mcp", str(servers), "--openapi", str(shop), "--openapi-base-url", "http://127.0.0.1:1"),
        *("--openapi-methods", "GET,post"),
    )

    told = chimera("floor", "--window", "16000", "--workspace", str(repository), *imports).out
    assert "server tracker" in told
    assert "shop__add" in told
    assert "POST /up is left out: its body is multipart/form-data" in told
    assert "AGENTS.md in it" in told

    model = script([{"call": "tracker__echo", "arguments": {"text": "hi"}}, {"text": "Done."}])
    run = chimera("run", "go", "--model", model, *UNCONFINED, *imports)
    assert (run.code, run.out) == (0, "Done.\n")
    assert "AGENTS.md: " in run.err
    assert "Imported tools act outside the sandbox: 3 of tracker, shop." in run.err

    again = chimera("resume", "more", "--model", model, "--openapi-methods", "get", "--output-format", "json")
    assert list(again.result["context"]["floor"]["tools"])[-2:] == ["tracker__echo", "shop__list"]
    assert again.result["context"]["floor"]["instructions"] > 0
