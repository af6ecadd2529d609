"""Rules of one moment mean the same as the files that they came from, and files written later change nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimera.errors import WorkspaceError
from chimera.workspace.checkpoint import ShadowRepository
from chimera.workspace.ignore_rules import IgnoreRules
from tests.undoing import Workspace

CI = settings().max_examples <= 100
NAMES = [
    "a",
    "b.log",
    "d/a",
    "d/b.log",
    "d/e/a",
    "d/e/x y",
    "e/d/a",
    "e/a",
    "e/[x]/a",
    "e/[x]/b.log",
    "x/d/e/a",
]
RULE = st.sampled_from(
    ["a", "/a", "d/", "*.log", "!b.log", "!a", "e/a", "/e/*", "**/e", "e/**", "*", "!*/", "\\!a", "#a", "x y", "[ab]*", "?",
     "", "d/e", "!d/e", "/d/**/a", "a\r", "x\\ y"]
)  # fmt: skip
RULES = st.lists(RULE, max_size=4).map("\n".join)


def recorded(
    state: Path, root: Path, run_id: str, *, first: bool = False, also: Iterable[str] = ()
) -> set[str]:
    shadow = ShadowRepository(state, root)
    snapshot = shadow.snapshot(run_id=run_id, with_ignored=first, also=map(os.fsencode, also))
    return {os.fsdecode(path) for path in snapshot.paths}


@settings(max_examples=10 if CI else 500, deadline=None)
@given(rules=st.dictionaries(st.sampled_from(["", "d/", "d/e/", "e/", "e/[x]/", "x/"]), RULES, max_size=4))
def test_the_rules_of_the_first_snapshot_mean_what_their_files_do(
    tmp_path_factory: pytest.TempPathFactory, rules: dict[str, str]
) -> None:
    workspace = Workspace(tmp_path_factory.mktemp("rules"))
    for name in NAMES:
        workspace.write(name, "x")
    for folder, text in rules.items():
        workspace.write(f"{folder}.gitignore", text + "\n")
    first = recorded(workspace.state, workspace.root, "r", first=True)
    assert recorded(workspace.state, workspace.root, "r") == first
    for folder in {"", "d/", "e/", *rules}:
        workspace.write(f"{folder}.gitignore", "*\n")
    written = {f"{folder}.gitignore" for folder in {"", "d/", "e/", *rules}}
    assert recorded(workspace.state, workspace.root, "r", also=first) - written == first - written
    assert not recorded(workspace.state, workspace.root, "another", first=True)


def test_rules_of_the_user_of_the_repository_and_of_folders_above_hold_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace(tmp_path)
    monkeypatch.setenv("HOME", str(workspace.home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(workspace.home / ".config"))
    (workspace.home / ".config" / "git").mkdir(parents=True)
    (workspace.home / ".config" / "git" / "ignore").write_text("users\n")
    (workspace.root / ".git" / "info").mkdir(exist_ok=True)
    (workspace.root / ".git" / "info" / "exclude").write_text("repositorys\n")
    workspace.write(".gitignore", "above\n")
    workspace.write("part/kept", "x")
    names = ["part/users", "part/repositorys", "part/above"]
    for name in names:
        workspace.write(name, "x")
    part = workspace.root / "part"
    assert recorded(workspace.state, part, "r", first=True) == {"kept"}
    for path in (workspace.home / ".config/git/ignore", workspace.root / ".git/info/exclude"):
        path.unlink()
    (workspace.root / ".gitignore").unlink()
    assert recorded(workspace.state, part, "r") == {"kept"}
    assert recorded(workspace.state, part, "another", first=True) == {"kept", "users", "repositorys", "above"}


def test_what_new_repositories_and_new_caches_ignore_is_omitted_by_name(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.write("old/.gitignore", "*\n")
    workspace.write("old/x", "x")
    assert recorded(workspace.state, workspace.root, "r", first=True) == set()
    workspace.write("cache/.gitignore", "# made by a tool\n*\n")
    workspace.write("cache/deep/x", "x")
    workspace.write("clone/.gitignore", "hidden\n")
    workspace.write("clone/hidden", "x")
    workspace.write("clone/f", "x")
    workspace.git("init", "-q", "clone")
    workspace.write("old/y", "y")
    snapshot = ShadowRepository(workspace.state, workspace.root).snapshot(run_id="r")
    assert snapshot.paths == {b"clone/.gitignore", b"clone/f"}
    assert snapshot.omitted == ("cache/", "clone/hidden")


def test_a_folder_with_recorded_files_is_not_left_out_for_a_rule_in_it(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.write("d/f", "x")
    first = recorded(workspace.state, workspace.root, "r", first=True)
    workspace.write("d/.gitignore", "*\n")
    workspace.write("d/new", "x")
    shadow = ShadowRepository(workspace.state, workspace.root)
    snapshot = shadow.snapshot(run_id="r", also=map(os.fsencode, first))
    assert snapshot.paths == {b"d/f", b"d/new", b"d/.gitignore"}


def test_where_the_old_rules_let_too_much_in_those_of_now_are_obeyed_and_it_is_said(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.write("f", "x")
    shadow = ShadowRepository(workspace.state, workspace.root, max_files=20)
    shadow.snapshot(run_id="r", with_ignored=True)
    for n in range(30):
        workspace.write(f"modules/{n}", "x")
    workspace.write(".gitignore", "modules/\n")
    snapshot = shadow.snapshot(run_id="r", with_ignored=True)
    assert snapshot.by_new_rules
    assert snapshot.paths == {b"f", b".gitignore"}


def test_damaged_rules_are_no_rules(tmp_path: Path) -> None:
    assert IgnoreRules.load(tmp_path / "none") is None
    for content in (b"", b"[]", b'{"a": 1}', b'{"a": ["x", 5]}'):
        (tmp_path / "rules").write_bytes(content)
        with pytest.raises(WorkspaceError, match="cannot be read"):
            IgnoreRules.load(tmp_path / "rules")
