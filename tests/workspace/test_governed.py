"""Changes of files that other programs obey are noticed, and nothing else is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from chimera.workspace.governed import GovernedFiles


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    for name in (
        "AGENTS.md",
        ".github/workflows/ci.yml",
        ".vscode/tasks.json",
        ".husky/pre-commit",
        "src/a.py",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{name}\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


@pytest.mark.parametrize(
    "name",
    [
        *(
            "AGENTS.md",
            "CLAUDE.md",
            ".github/workflows/ci.yml",
            ".github/workflows/new.yml",
            ".vscode/tasks.json",
        ),
        *(".idea/workspace.xml", ".envrc", ".mcp.json", ".husky/pre-commit", ".gitmodules", ".chimera.toml"),
        *(".git/config", ".git/hooks/pre-commit", ".git/info/attributes"),
    ],
)
def test_a_changed_or_new_file_is_named_once(root: Path, name: str) -> None:
    governed = GovernedFiles(root)
    assert governed.changed() == ()
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text("other\n")
    assert governed.changed() == (name,)
    assert governed.changed() == ()
    assert governed.reported == [name]


def test_a_change_that_hides_its_time_and_size_is_noticed(root: Path) -> None:
    file = root / "AGENTS.md"
    before = file.stat()
    governed = GovernedFiles(root)
    file.write_text("agents.MD\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert governed.changed() == ("AGENTS.md",)


def test_a_file_that_goes_becomes_a_link_or_becomes_a_program_is_noticed(root: Path) -> None:
    governed = GovernedFiles(root)
    (root / "AGENTS.md").unlink()
    assert governed.changed() == ("AGENTS.md",)
    (root / "AGENTS.md").symlink_to("src/a.py")
    assert governed.changed() == ("AGENTS.md",)
    (root / ".husky/pre-commit").chmod(0o755)
    assert governed.changed() == (".husky/pre-commit",)
    (root / ".vscode/tasks.json").unlink()
    (root / ".vscode").rmdir()
    (root / ".vscode").symlink_to("src")
    assert governed.changed() == (".vscode", ".vscode/tasks.json")


def test_other_files_touching_and_rewriting_the_same_are_nothing(root: Path) -> None:
    governed = GovernedFiles(root)
    (root / "src" / "a.py").write_text("other\n")
    (root / ".github" / "note.md").write_text("x\n")
    os.utime(root / "AGENTS.md", (1, 1))
    text = (root / ".github/workflows/ci.yml").read_text()
    (root / ".github/workflows/ci.yml").unlink()
    (root / ".github/workflows/ci.yml").write_text(text)
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    assert governed.changed() == ()


def test_what_could_block_or_be_endless_is_looked_at_without_harm(root: Path) -> None:
    governed = GovernedFiles(root)
    os.mkfifo(root / ".envrc")
    (root / ".mcp.json").symlink_to("/dev/zero")
    (root / ".husky" / "big").write_bytes(b"\0" * 2_000_000)
    assert governed.changed() == (".envrc", ".husky/big", ".mcp.json")
    assert governed.changed() == ()


def test_the_hooks_of_a_linked_worktree_are_those_of_its_repository(root: Path, tmp_path: Path) -> None:
    author = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *author, "commit", "-q", "--allow-empty", "-m", "x"], cwd=root, check=True)
    subprocess.run(
        ["git", "worktree", "add", "-q", str(tmp_path / "tree")], cwd=root, check=True, capture_output=True
    )
    governed = GovernedFiles(tmp_path / "tree")
    (root / ".git" / "hooks").mkdir(exist_ok=True)
    (root / ".git" / "hooks" / "post-commit").write_text("#!/bin/sh\n")
    assert governed.changed() == ("../checkout/.git/hooks/post-commit",)


def test_a_folder_without_git_is_watched_too(tmp_path: Path) -> None:
    governed = GovernedFiles(tmp_path)
    (tmp_path / "AGENTS.md").write_text("x")
    assert governed.changed() == ("AGENTS.md",)


@pytest.mark.parametrize("kind", ["folder", "pointer", "bare"])
def test_nested_repositories_are_watched_and_their_samples_are_not(root: Path, kind: str) -> None:
    options = {"folder": [], "pointer": ["--separate-git-dir", str(root / "store")], "bare": ["--bare"]}[kind]
    subprocess.run(["git", "init", "-q", *options, str(root / "inner")], check=True)
    folder = {"folder": "inner/.git", "pointer": "store", "bare": "inner"}[kind]
    governed = GovernedFiles(root)
    (root / folder / "hooks").mkdir(exist_ok=True)
    for name in ("config", "commondir", "hooks/post-checkout", "hooks/new.sample"):
        (root / folder / name).write_text("x")
    assert governed.changed() == tuple(
        f"{folder}/{n}" for n in ("commondir", "config", "hooks/post-checkout")
    )


def test_what_the_settings_of_git_name_in_the_workspace_is_watched(root: Path) -> None:
    for name, value in (("include.path", "../shared"), ("core.hooksPath", ".githooks")):
        subprocess.run(["git", "config", name, value], cwd=root, check=True)
    governed = GovernedFiles(root)
    (root / ".githooks").mkdir()
    (root / ".githooks" / "pre-commit").write_text("x")
    (root / "shared").write_text("x")
    assert governed.changed() == (".githooks/pre-commit", "shared")


def test_a_repository_that_comes_later_is_noticed(root: Path) -> None:
    governed = GovernedFiles(root)
    subprocess.run(["git", "init", "-q", str(root / "inner")], check=True)
    assert "inner/.git/config" in governed.changed()
    (root / "inner" / ".git").rename(root / "store")
    (root / "inner" / ".git").write_text("gitdir: ../store\n")
    assert {"inner/.git", "store/config"} <= set(governed.changed())
