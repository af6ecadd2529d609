from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from chimera.errors import WorkspaceError
from chimera.workspace.checkpoint import FileChange, ShadowRepository
from chimera.workspace.git_program import GitError, find_git

Git = Callable[..., str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    root.mkdir()
    return root


@pytest.fixture
def shadow(tmp_path: Path, root: Path) -> ShadowRepository:
    return ShadowRepository(tmp_path / "state", root)


@pytest.fixture
def repository(root: Path, git: Git) -> Path:
    git(root, "init", "--quiet")
    (root / "a.py").write_text("one\ntwo\n")
    git(root, "add", "a.py")
    git(root, "commit", "--quiet", "-m", "first")
    return root


def state_of(folder: Path) -> dict[str, object]:
    """Content and time of everything in a folder. git renews the time of a shared index whenever it is read."""
    return {
        str(p.relative_to(folder)): (
            p.name.startswith("sharedindex.") or p.lstat().st_mtime_ns,
            p.read_bytes() if p.is_file() else None,
        )
        for p in folder.rglob("*")
    }


def recorded(tmp_path: Path, tree: str) -> dict[str, bytes]:
    """Path and content of every file of a tree, read with a plain git."""
    (git_dir,) = (tmp_path / "state" / "shadow").iterdir()

    def ask(*arguments: str) -> bytes:
        return subprocess.run(
            ["git", f"--git-dir={git_dir}", *arguments], check=True, capture_output=True
        ).stdout

    lines = ask("ls-tree", "-r", "-z", tree).split(b"\0")[:-1]
    return {
        os.fsdecode(line.partition(b"\t")[2]): ask("cat-file", "blob", line.split()[2].decode())
        for line in lines
    }


class TestChanges:
    def test_only_what_happened_between_two_snapshots_is_a_change(
        self, repository: Path, shadow: ShadowRepository
    ) -> None:
        (repository / "a.py").write_text("one\nmine, not committed\n")
        (repository / "untracked.txt").write_text("mine\n")
        before = shadow.snapshot()
        (repository / "a.py").write_text("one\nmine, not committed\nof the run\n")
        (repository / "new.py").write_text("x\ny\n")
        (repository / "untracked.txt").unlink()
        after = shadow.snapshot()

        assert shadow.changes(before.tree, after.tree) == (
            FileChange(path="a.py", added=1, removed=0),
            FileChange(path="new.py", added=2, removed=0),
            FileChange(path="untracked.txt", added=0, removed=1),
        )
        assert before.omitted == after.omitted == ()

    def test_an_untouched_workspace_has_one_tree(self, repository: Path, shadow: ShadowRepository) -> None:
        assert (repository / "a.py").exists()
        assert shadow.snapshot() == shadow.snapshot()

    def test_a_folder_without_repository_is_recorded_as_well(
        self, root: Path, shadow: ShadowRepository
    ) -> None:
        before = shadow.snapshot()
        (root / "f").write_text("x\n")

        assert shadow.changes(before.tree, shadow.snapshot().tree) == (
            FileChange(path="f", added=1, removed=0),
        )

    def test_an_edit_of_the_same_size_in_the_same_moment_is_seen(
        self, root: Path, shadow: ShadowRepository
    ) -> None:
        for turn in range(5):
            (root / "f").write_text(f"{turn % 10}\n")
            before = shadow.snapshot()
            (root / "f").write_text("x\n")

            assert shadow.changes(before.tree, shadow.snapshot().tree) == (
                FileChange(path="f", added=1, removed=1),
            )

    def test_an_edit_with_the_old_time_put_back_is_seen(self, root: Path, shadow: ShadowRepository) -> None:
        (root / "f").write_text("1\n")
        os.utime(root / "f", (1, 1))
        before = shadow.snapshot()
        (root / "f").write_text("2\n")
        os.utime(root / "f", (1, 1))

        assert len(shadow.changes(before.tree, shadow.snapshot().tree)) == 1

    def test_mode_binary_rename_and_link_are_changes(self, root: Path, shadow: ShadowRepository) -> None:
        (root / "run.sh").write_text("#!/bin/sh\n")
        (root / "old name").write_text("same\n")
        (root / "target").symlink_to("nowhere")
        before = shadow.snapshot()
        (root / "run.sh").chmod(0o755)
        (root / "old name").rename(root / "new name")
        (root / "blob").write_bytes(b"\0\1\2")
        (root / "target").unlink()
        (root / "target").mkdir()
        (root / "target" / "f").write_text("x\n")

        assert shadow.changes(before.tree, shadow.snapshot().tree) == (
            FileChange(path="blob", added=0, removed=0),
            FileChange(path="new name", added=1, removed=0),
            FileChange(path="old name", added=0, removed=1),
            FileChange(path="run.sh", added=0, removed=0),
            FileChange(path="target", added=0, removed=1),
            FileChange(path="target/f", added=1, removed=0),
        )

    @pytest.mark.parametrize(
        "name",
        [
            b"new\nline",
            b"-dash",
            b"tab\t",
            b'"quoted"',
            b"caf\xe9",
            "☃".encode(),
            b"x" * 255,
            b":(top)",
            b" ",
        ],
    )
    def test_any_name_works(self, root: Path, shadow: ShadowRepository, tmp_path: Path, name: bytes) -> None:
        before = shadow.snapshot()
        (root / os.fsdecode(name)).write_text("x\n")
        after = shadow.snapshot()

        (change,) = shadow.changes(before.tree, after.tree)
        assert change == FileChange(path=name.decode("utf-8", "backslashreplace"), added=1, removed=0)
        assert recorded(tmp_path, after.tree) == {os.fsdecode(name): b"x\n"}

    def test_the_patch_applies(self, root: Path, shadow: ShadowRepository, git: Git) -> None:
        (root / "f").write_text("a\nb\nc\n")
        before = shadow.snapshot()
        (root / "f").write_text("a\nB\nc\n")
        (root / "ünïcode").write_text("new\n")
        patch = shadow.diff(before.tree, shadow.snapshot().tree)
        (root / "ünïcode").unlink()
        (root / "f").write_text("a\nb\nc\n")
        (root.parent / "patch").write_text(patch)

        git(root, "apply", "../patch")

        assert "b/ünïcode" in patch
        assert "-b\n+B\n" in patch
        assert (root / "f").read_text() == "a\nB\nc\n"
        assert (root / "ünïcode").read_text() == "new\n"

    @pytest.mark.parametrize("tree", ["", "HEAD", "--output=x", "0" * 39, "g" * 40])
    def test_what_is_no_snapshot_is_refused(self, shadow: ShadowRepository, tree: str) -> None:
        good = shadow.snapshot().tree

        with pytest.raises(WorkspaceError, match="not the id of a snapshot"):
            shadow.changes(tree, good)
        with pytest.raises(WorkspaceError, match="not the id of a snapshot"):
            shadow.diff(good, tree)

    def test_the_snapshots_of_one_run_can_be_compared_later(
        self, root: Path, shadow: ShadowRepository, tmp_path: Path
    ) -> None:
        before = shadow.snapshot()
        (root / "f").write_text("x\n")
        after = shadow.snapshot()

        assert ShadowRepository(tmp_path / "state", root).changes(before.tree, after.tree) == (
            FileChange(path="f", added=1, removed=0),
        )


class TestWhatIsRecorded:
    def test_bytes_stay_bytes_whatever_the_attributes_say(
        self, repository: Path, shadow: ShadowRepository, tmp_path: Path
    ) -> None:
        (repository / ".gitattributes").write_text(
            "* text=auto eol=crlf ident filter=evil diff=evil\n*.utf16 working-tree-encoding=UTF-16\n"
            "*.old crlf\n[attr]macro text eol=lf\n*.m macro\n*.bin binary\n"
        )
        contents = {
            "crlf.txt": b"a\r\nb\r\n",
            "mixed.txt": b"a\r\nb\nc\r",
            "ident.txt": b"$Id$ $Id: 123 $\n",
            "x.utf16": "ä\r\n".encode("utf-16"),
            "broken.utf16": b"\xff\xfe\x00",
            "x.old": b"a\r\n",
            "x.m": b"a\r\n",
            "x.bin": b"\0\r\n",
        }
        for name, content in contents.items():
            (repository / name).write_bytes(content)

        tree = shadow.snapshot().tree

        assert recorded(tmp_path, tree).items() >= contents.items()

    def test_a_file_marked_binary_by_the_repository_still_shows_its_lines(
        self, root: Path, shadow: ShadowRepository
    ) -> None:
        (root / ".gitattributes").write_text("*.lock -diff\n")
        before = shadow.snapshot()
        (root / "x.lock").write_text("a\n")

        assert shadow.changes(before.tree, shadow.snapshot().tree)[0].added == 1

    def test_ignored_files_are_left_out_by_every_rule_of_the_user(
        self, repository: Path, shadow: ShadowRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        home = tmp_path / "home"
        (home / ".config" / "git").mkdir(parents=True)
        (home / ".config" / "git" / "ignore").write_text("by-default-file\n")
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        (repository / ".gitignore").write_text("by-root\n")
        (repository / "d").mkdir()
        (repository / "d" / ".gitignore").write_text("by-folder\n!by-root\n")
        (repository / ".git" / "info").mkdir(exist_ok=True)
        (repository / ".git" / "info" / "exclude").write_text("by-exclude\n")
        for name in ("by-root", "by-exclude", "by-default-file", "d/by-folder", "d/by-root", "d/kept"):
            (repository / name).write_text("x")

        names = set(recorded(tmp_path, shadow.snapshot().tree))
        assert names == {".gitignore", "a.py", "d/.gitignore", "d/by-root", "d/kept"}

        (home / ".gitconfig").write_text("[core]\nexcludesFile = ~/mine\n")
        (home / "mine").write_text("kept\n")
        names = set(recorded(tmp_path, shadow.snapshot().tree))
        assert names == {".gitignore", "a.py", "d/.gitignore", "d/by-root", "by-default-file"}

    def test_a_tracked_file_is_recorded_though_a_rule_ignores_it(
        self, repository: Path, shadow: ShadowRepository, git: Git, tmp_path: Path
    ) -> None:
        (repository / ".gitignore").write_text("build/\n")
        (repository / "build").mkdir()
        (repository / "build" / "forced").write_text("tracked")
        (repository / "build" / "output").write_text("ignored")
        git(repository, "add", "--force", "build/forced")

        assert set(recorded(tmp_path, shadow.snapshot().tree)) == {".gitignore", "a.py", "build/forced"}

    def test_a_file_that_becomes_ignored_leaves_the_snapshot(
        self, root: Path, shadow: ShadowRepository, tmp_path: Path
    ) -> None:
        (root / "log").write_text("x")
        shadow.snapshot()
        (root / ".gitignore").write_text("log\n")

        assert set(recorded(tmp_path, shadow.snapshot().tree)) == {".gitignore"}

    def test_marks_in_the_users_index_hide_no_edit(
        self, repository: Path, shadow: ShadowRepository, git: Git
    ) -> None:
        git(repository, "update-index", "--assume-unchanged", "a.py")
        before = shadow.snapshot()
        (repository / "a.py").write_text("edited\n")

        assert len(shadow.changes(before.tree, shadow.snapshot().tree)) == 1

    def test_nested_repositories_worktrees_and_submodules_are_recorded_file_by_file(
        self, repository: Path, shadow: ShadowRepository, git: Git, tmp_path: Path
    ) -> None:
        (repository / "inner" / "deeper").mkdir(parents=True)
        for folder in ("inner", "inner/deeper"):
            git(repository / folder, "init", "--quiet")
            (repository / folder / "f").write_text(folder)
            (repository / folder / ".gitignore").write_text("ignored\n")
            (repository / folder / "ignored").write_text("x")
        git(repository, "worktree", "add", "--quiet", "--detach", "tree")
        git(repository, "submodule", "--quiet", "add", str(repository), "module")

        snapshot = shadow.snapshot()

        assert set(recorded(tmp_path, snapshot.tree)) == {
            *(
                "a.py",
                ".gitmodules",
                "inner/f",
                "inner/.gitignore",
                "inner/deeper/f",
                "inner/deeper/.gitignore",
            ),
            *("tree/a.py", "module/a.py"),
        }
        assert snapshot.omitted == ()

    def test_a_subfolder_obeys_the_rules_of_its_repository(
        self, repository: Path, tmp_path: Path, git: Git
    ) -> None:
        (repository / ".gitignore").write_text("*.log\n/part/only-here\n")
        (repository / "part").mkdir()
        for name in ("x.log", "only-here", "kept", "forced.log"):
            (repository / "part" / name).write_text("x")
        git(repository, "add", "--force", "part/forced.log")

        tree = ShadowRepository(tmp_path / "state", repository / "part").snapshot().tree

        assert set(recorded(tmp_path, tree)) == {"kept", "forced.log"}

    def test_a_workspace_that_the_repository_around_it_ignores_is_recorded(
        self, repository: Path, tmp_path: Path
    ) -> None:
        (repository / ".gitignore").write_text("*\n")
        (repository / "scratch").mkdir()
        (repository / "scratch" / "f").write_text("x")

        tree = ShadowRepository(tmp_path / "state", repository / "scratch").snapshot().tree

        assert set(recorded(tmp_path, tree)) == {"f"}

    def test_links_are_recorded_as_links_and_not_followed(
        self, repository: Path, shadow: ShadowRepository, git: Git, tmp_path: Path
    ) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "f").write_text("secret")
        (repository / "d").mkdir()
        (repository / "d" / "f").write_text("tracked")
        git(repository, "add", "d/f")
        (repository / "d" / "f").unlink()
        (repository / "d").rmdir()
        (repository / "d").symlink_to(outside)
        (repository / "loop").symlink_to("loop")

        assert recorded(tmp_path, shadow.snapshot().tree) == {
            "a.py": b"one\ntwo\n",
            "d": os.fsencode(outside),
            "loop": b"loop",
        }

    def test_what_cannot_be_recorded_is_listed(
        self, root: Path, shadow: ShadowRepository, tmp_path: Path
    ) -> None:
        (root / "d").mkdir()
        (root / "d" / "kept").write_text("x")
        os.mkfifo(root / "d" / "pipe")
        with (root / "huge").open("wb") as file:
            file.truncate(10 * 1024**2 + 1)
        with (root / "large").open("wb") as file:
            file.truncate(10 * 1024**2)

        snapshot = shadow.snapshot()

        assert snapshot.omitted == ("d/pipe", "huge")
        assert set(recorded(tmp_path, snapshot.tree)) == {"d/kept", "large"}

    @pytest.mark.usefixtures("ordinary_user")
    def test_what_cannot_be_read_is_listed(self, root: Path, shadow: ShadowRepository) -> None:
        (root / "f").touch(mode=0)
        (root / "d").mkdir(mode=0)
        try:
            assert shadow.snapshot().omitted == ("d", "f")
        finally:
            (root / "d").chmod(0o755)

    def test_a_state_directory_inside_the_workspace_is_not_part_of_it(self, root: Path) -> None:
        (root / "f").write_text("x")
        shadow = ShadowRepository(root / "state", root)

        assert shadow.snapshot() == shadow.snapshot()


class TestTheUsersRepository:
    def test_it_stays_as_it_is_to_the_byte(
        self, repository: Path, shadow: ShadowRepository, git: Git
    ) -> None:
        (repository / "staged").write_text("x")
        git(repository, "add", "staged")
        (repository / "a.py").write_text("not staged\n")
        git(repository, "update-index", "--split-index")
        (repository / "inner").mkdir()
        git(repository / "inner", "init", "--quiet")
        before = state_of(repository)

        first = shadow.snapshot()
        (repository / "b").write_text("x\n")
        second = shadow.snapshot()
        shadow.diff(first.tree, second.tree)
        (repository / "b").unlink()
        after = state_of(repository)

        assert len(shadow.changes(first.tree, second.tree)) == 1
        assert after == before

    def test_nothing_that_it_configures_is_ever_run(
        self, repository: Path, shadow: ShadowRepository, git: Git, tmp_path: Path
    ) -> None:
        fired = tmp_path / "fired"
        program = tmp_path / "program"
        program.write_text(f'#!/bin/sh\necho "$0 $*" >> {fired}\ncat\n')
        program.chmod(0o755)
        for setting in (
            *(
                "core.fsmonitor",
                "core.pager",
                "core.editor",
                "core.sshCommand",
                "diff.external",
                "gpg.program",
            ),
            *("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.evil.textconv"),
            *(
                "diff.evil.command",
                "alias.update-index",
                "alias.ls-files",
                "credential.helper",
                "merge.evil.driver",
            ),
        ):
            git(repository, "config", setting, str(program))
        (repository / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
        hooks = (
            "post-index-change",
            "reference-transaction",
            "pre-commit",
            "fsmonitor-watchman",
            "pre-auto-gc",
        )
        (repository / ".git" / "hooks").mkdir(exist_ok=True)
        for hook in hooks:
            (repository / ".git" / "hooks" / hook).symlink_to(program)
        inner = repository / "inner"
        inner.mkdir()
        git(inner, "init", "--quiet")
        git(inner, "config", "core.fsmonitor", str(program))
        (inner / ".gitattributes").write_text("* filter=evil\n")
        git(repository, "status")
        assert fired.exists(), "the traps must work"
        fired.unlink()

        first = shadow.snapshot()
        (repository / "a.py").write_text("changed\n")
        (inner / "f").write_text("new\n")
        second = shadow.snapshot()

        assert len(shadow.changes(first.tree, second.tree)) == 2
        assert "+changed" in shadow.diff(first.tree, second.tree)
        assert not fired.exists()

    def test_inherited_git_variables_of_another_repository_change_nothing(
        self,
        repository: Path,
        shadow: ShadowRepository,
        git: Git,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        other = tmp_path / "other"
        other.mkdir()
        git(other, "init", "--quiet")
        before = state_of(other)
        monkeypatch.setenv("GIT_DIR", str(other / ".git"))
        monkeypatch.setenv("GIT_WORK_TREE", str(other))
        monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
        monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other / ".git" / "objects"))

        tree = shadow.snapshot().tree

        for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
            monkeypatch.delenv(name)
        assert set(recorded(tmp_path, tree)) == {"a.py"}
        assert state_of(other) == before
        assert (repository / "a.py").exists()

    @pytest.mark.parametrize(
        "content", ["gitdir: /nowhere\n", "gitdir: .git\n", "gitdir: a\0b\n", "rubbish", ""]
    )
    def test_a_broken_repository_is_recorded_as_a_folder(
        self, root: Path, shadow: ShadowRepository, tmp_path: Path, content: str
    ) -> None:
        (root / ".git").write_text(content)
        (root / "f").write_text("x")

        assert set(recorded(tmp_path, shadow.snapshot().tree)) == {"f"}


class TestBounds:
    def test_a_shadow_repository_is_private(
        self, root: Path, shadow: ShadowRepository, tmp_path: Path
    ) -> None:
        assert root.exists()
        shadow.snapshot()
        (git_dir,) = (tmp_path / "state" / "shadow").iterdir()

        assert git_dir.stat().st_mode & 0o777 == 0o700
        assert not (git_dir / "objects" / "info" / "alternates").exists()
        assert not (git_dir / "hooks").exists()

    def test_what_a_killed_snapshot_left_behind_does_no_harm(
        self, root: Path, shadow: ShadowRepository, tmp_path: Path
    ) -> None:
        (root / "f").write_text("x")
        first = shadow.snapshot()
        (git_dir,) = (tmp_path / "state" / "shadow").iterdir()
        for name, content in (("index.lock", b""), ("index", b"half an ind"), ("info/attributes", b"")):
            (git_dir / name).write_bytes(content)

            assert shadow.snapshot() == first

    def test_too_many_files_are_refused_with_the_way_out(self, root: Path, tmp_path: Path) -> None:
        for number in range(1001):
            (root / str(number)).touch()
        shadow = ShadowRepository(tmp_path / "state", root, max_files=1000)

        with pytest.raises(WorkspaceError, match="1,000 files"):
            shadow.snapshot()

        (root / ".gitignore").write_text("[0-9]*\n")
        assert set(recorded(tmp_path, shadow.snapshot().tree)) == {".gitignore"}

    def test_too_many_bytes_are_refused(self, root: Path, shadow: ShadowRepository) -> None:
        for number in range(205):
            with (root / str(number)).open("wb") as file:
                file.truncate(10 * 1024**2)

        with pytest.raises(WorkspaceError, match="too much to record"):
            shadow.snapshot()

    def test_without_git_the_fault_is_named(
        self, root: Path, shadow: ShadowRepository, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(root))

        with pytest.raises(WorkspaceError, match="git was not found"):
            shadow.snapshot()

    def test_a_git_that_fails_is_quoted(
        self, shadow: ShadowRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "git").write_text("#!/bin/sh\necho 'fatal: no good' >&2\nexit 128\n")
        (tmp_path / "bin" / "git").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}/bin")

        with pytest.raises(WorkspaceError, match="fatal: no good"):
            shadow.snapshot()

    def test_a_git_that_lies_in_the_workspace_is_never_run(
        self, root: Path, shadow: ShadowRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (root / "git").write_text(f"#!/bin/sh\ntouch {tmp_path}/marker\n")
        (root / "git").chmod(0o755)
        monkeypatch.setenv("PATH", f"{root}:.:/usr/local/bin:/usr/bin:/bin")
        monkeypatch.chdir(root)

        shadow.snapshot()

        assert not (tmp_path / "marker").exists()

    def test_an_unusable_state_directory_is_named(self, root: Path, tmp_path: Path) -> None:
        (tmp_path / "file").touch()

        with pytest.raises(WorkspaceError, match="cannot be used"):
            ShadowRepository(tmp_path / "file", root).snapshot()

    def test_a_listing_is_read_only_as_far_as_needed(self, tmp_path: Path) -> None:
        for number in range(20):
            (tmp_path / str(number)).touch()
        git = find_git({"PATH": "/usr/local/bin:/usr/bin:/bin"}, outside=tmp_path)
        git.run(["init", "--quiet"], cwd=tmp_path)

        assert len(git.list_paths(["ls-files", "-z", "--others"], cwd=tmp_path, at_most=20)) == 20
        with pytest.raises(GitError, match="more than 19 files"):
            git.list_paths(["ls-files", "-z", "--others"], cwd=tmp_path, at_most=19)


class TestUnchanged:
    def test_a_workspace_at_rest_is_known_to_be_so_until_something_is_changed(
        self, repository: Path, shadow: ShadowRepository
    ) -> None:
        (repository / ".gitignore").write_text("*.log\n")
        first = shadow.snapshot(run_id="run", with_ignored=True)
        # A clock that stamps with its last tick cannot tell a change from one a moment later; the snapshots take longer.
        for _ in range(20):
            if shadow.unchanged():
                break
            assert shadow.snapshot(run_id="run").tree == first.tree
        assert shadow.unchanged()
        (repository / "noise.log").write_text("ignored")
        same = shadow.snapshot(run_id="run")
        assert (same.tree, same.annex) == (first.tree, first.annex)
        before = (repository / "a.py").stat()
        (repository / "a.py").write_text("two\none\n")
        os.utime(repository / "a.py", ns=(before.st_atime_ns, before.st_mtime_ns))
        assert not shadow.unchanged()
        assert shadow.snapshot(run_id="run").tree != first.tree

    def test_nothing_is_known_where_the_rules_of_now_decide(
        self, repository: Path, shadow: ShadowRepository
    ) -> None:
        shadow.snapshot()
        assert not shadow.unchanged()
