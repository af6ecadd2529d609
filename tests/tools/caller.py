"""Calls the default tools on a real workspace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from chimera.tools.base import ToolOutput, ToolSet
from chimera.tools.default import default_tools
from chimera.workspace.environment import child_environment
from chimera.workspace.paths import Workspace
from chimera.workspace.process import CommandRunner
from chimera.workspace.sandbox import Sandbox


class Caller:
    """Calls tools as a model would, and shows what became of the files."""

    def __init__(self, root: Path, run_dir: Path) -> None:
        self.root = root
        self.run_dir = run_dir
        self.workspace = Workspace.open(root, run_dir=run_dir)
        unconfined = Sandbox(level="danger-full-access", backend="none", missing=())
        environment = child_environment({"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(run_dir)})
        self.runner = CommandRunner(root, unconfined, environment, run_dir, grace_s=0.5, linger_s=0.2)
        self.tools = ToolSet(default_tools(self.workspace, self.runner))

    def call(self, name: str, **arguments: Any) -> ToolOutput:
        output = self.tools.run(name, json.dumps(arguments))
        output.text.encode("utf-8")
        assert "\x1b" not in output.text
        return output

    def refused(self, name: str, **arguments: Any) -> str:
        output = self.call(name, **arguments)
        assert not output.ok
        return output.text

    def edit(self, path: str, *pairs: tuple[str, str], every: bool = False) -> ToolOutput:
        edits = [{"old": old, "new": new, **({"all": True} if every else {})} for old, new in pairs]
        return self.call("edit_file", path=path, edits=edits)

    def put(self, name: str, content: bytes | str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path
