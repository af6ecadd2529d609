"""The default tools as they are advertised."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from chimera.tools.schema_compact import compact_schema
from tests.tools.caller import Caller

MOST_TOKENS = 780
PARAMETERS = {
    "read_file": (["path", "start_line", "line_count"], ["path"]),
    "search": (["pattern", "path", "glob"], []),
    "edit_file": (["path", "edits"], ["path", "edits"]),
    "write_file": (["path", "content"], ["path", "content"]),
    "shell": (["command", "timeout_s"], ["command"]),
    "update_plan": (["tasks", "plan"], ["tasks"]),
}


def test_the_tools_come_in_their_fixed_order_with_their_parameters(caller: Caller) -> None:
    advertised = {
        tool.name: (list(tool.parameters["properties"]), tool.parameters["required"])
        for tool in caller.tools.tools
    }
    assert list(advertised.items()) == list(PARAMETERS.items())
    edit = next(tool for tool in caller.tools.tools if tool.name == "edit_file").parameters["properties"][
        "edits"
    ]
    assert (list(edit["items"]["properties"]), edit["items"]["required"]) == (
        ["old", "new", "all"],
        ["old", "new"],
    )


def test_every_schema_is_valid_and_stays_the_same(caller: Caller) -> None:
    for tool in caller.tools.tools:
        jsonschema.Draft202012Validator.check_schema(tool.parameters)
    assert json.dumps(caller.tools.schemas()) == json.dumps(caller.tools.schemas())


def test_all_schemas_together_stay_within_their_budget(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    litellm = importlib.util.find_spec("litellm")
    assert litellm is not None
    assert litellm.submodule_search_locations
    vocabularies = Path(litellm.submodule_search_locations[0], "litellm_core_utils", "tokenizers")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(vocabularies))
    import tiktoken  # noqa: TID251

    encoding = tiktoken.get_encoding("cl100k_base")

    def tokens(schemas: object) -> int:
        return len(encoding.encode_ordinary(json.dumps(schemas, separators=(",", ":"))))

    full = tokens(list(caller.tools.schemas()))
    assert full <= MOST_TOKENS
    assert tokens([compact_schema(schema) for schema in caller.tools.schemas()]) <= full


def test_the_tools_load_nothing_heavy() -> None:
    code = "import sys, chimera.tools.default; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"litellm", "git", "tiktoken", "pathspec", "rich", "yaml", "asyncio"} & set(loaded)
