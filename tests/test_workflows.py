"""What runs on the machines of others with our name on it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def read(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_hash_and_name_their_version(path: Path) -> None:
    used = re.findall(r"uses: *(.*)", path.read_text(encoding="utf-8"))
    assert used
    for action in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_only_publishing_may_write_and_only_its_identity() -> None:
    for path in WORKFLOWS:
        workflow = read(path)
        assert workflow["permissions"] in ({}, {"contents": "read"})
        for name, job in workflow["jobs"].items():
            allowed = {"id-token": "write"} if name == "publish" else {"contents": "read"}
            assert job.get("permissions", allowed) == allowed
            assert "timeout-minutes" in job


def test_what_is_published_was_checked_and_tried_before() -> None:
    jobs = read(ROOT / ".github/workflows/release.yml")["jobs"]
    assert jobs["publish"]["needs"] == "build"
    commands = [step.get("run", "") for step in jobs["build"]["steps"]]
    assert commands.index("bash .ci/run") < commands.index("bash .ci/package dist")
    assert "bash .ci/package" in (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")), ids=lambda p: p.name
)
def test_an_issue_template_is_whole(path: Path) -> None:
    template = read(path)
    if path.name == "config.yml":
        assert template == {"blank_issues_enabled": False}
        return
    assert template["name"]
    assert template["description"]
    ids = [part["id"] for part in template["body"] if part["type"] != "markdown"]
    assert len(set(ids)) == len(ids) > 0
