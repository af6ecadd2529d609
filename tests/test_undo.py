"""Undo gives back what a run changed, to the byte and the mode, and nothing that is the user's."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimera.checkpoints import Checkpoints
from chimera.errors import RecordError, WorkspaceError, WorkspaceLockedError
from chimera.record.run_directory import EVENTS, read_events, read_record
from chimera.testing import Reply, call, calls
from chimera.undo import Outcome, undo
from chimera.workspace.checkpoint import ShadowRepository
from chimera.workspace.lock import workspace_lock
from tests.undoing import Workspace, named, shell

CI = settings().max_examples <= 100
"""Not under the benchmark profile."""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def edit(path: str, old: str, new: str) -> Reply:
    return call("edit_file", path=path, edits=[{"old": old, "new": new}])


def reasons(outcome: Outcome) -> dict[str, str]:
    return {left.path: left.reason for left in outcome.left}


def set_traps(workspace: Workspace) -> Path:
    """Programs in the user's repository that git would run; each writes into the file returned."""
    fired = workspace.home / "fired"
    trap = workspace.home / "trap"
    trap.write_text(f'#!/bin/sh\necho "$0 $*" >> {fired}\ncat\n')
    trap.chmod(0o755)
    for setting in ("core.fsmonitor", "filter.trap.clean", "filter.trap.smudge", "diff.external"):
        workspace.git("config", setting, str(trap))
    (workspace.root / ".git" / "hooks").mkdir(exist_ok=True)
    for hook in ("post-index-change", "reference-transaction", "post-checkout"):
        (workspace.root / ".git" / "hooks" / hook).symlink_to(trap)
    workspace.write(".gitattributes", "* text=auto filter=trap\n*.utf working-tree-encoding=UTF-16\n")
    workspace.git("status")
    assert fired.exists(), "the traps must work"
    return fired


def make_dirty(workspace: Workspace) -> Path:
    """A tree with all that a user can have lying around, and traps that write into the file returned."""
    write, git = workspace.write, workspace.git
    write(".gitignore", "*.log\nbuild/\n.env\n")
    for name in ("clean.py", "unstaged.py", "staged.py", "both.py", "assumed.py", "skipped.py", "gone.py"):
        write(name, f"# {name}\n")
    write("crlf.txt", b"a\r\nb\r\n")
    write("run.sh", "#!/bin/sh\n", 0o755)
    (workspace.root / "link").symlink_to("clean.py")
    (workspace.root / "dangling").symlink_to("nowhere")
    git("add", "-A")
    git("commit", "-qm", "start")
    write("stashed.py", "stash\n")
    git("add", "stashed.py")
    git("stash", "-q")
    write("staged.py", "mine, staged\n")
    write("both.py", "staged\n")
    write("intended.py", "not yet\n")
    git("add", "staged.py", "both.py")
    git("add", "-N", "intended.py")
    git("update-index", "--assume-unchanged", "assumed.py")
    git("update-index", "--skip-worktree", "skipped.py")
    fired = set_traps(workspace)
    for name in ("unstaged.py", "both.py", "assumed.py", "skipped.py"):
        write(name, "mine\n")
    (workspace.root / "gone.py").unlink()
    make_untracked(workspace)
    fired.unlink()
    return fired


def make_untracked(workspace: Workspace) -> None:
    """Files that no commit and no index knows."""
    write = workspace.write
    write("x.utf", "ä\r\n".encode("utf-16"))
    write("untracked/deep/data.csv", b"1;2\r\n")
    write("private.pem", "key\n", 0o600)
    write("group.txt", "x\n", 0o664)
    write(".env", "SECRET=1\n", 0o600)
    write("build/out.o", b"\0\1")
    write("debug.log", "log\n")
    write("closed/f", "x\n")
    (workspace.root / "closed").chmod(0o700)
    (workspace.root / "empty" / "inner").mkdir(parents=True)
    os.mkfifo(workspace.root / "pipe")


class TestADirtyTree:
    def test_everything_the_run_did_to_it_is_undone_and_git_never_notices(self, workspace: Workspace) -> None:
        fired = make_dirty(workspace)
        before = workspace.picture()
        names = "clean.py unstaged.py staged.py both.py assumed.py skipped.py intended.py crlf.txt"
        workspace.run(
            edit("unstaged.py", "mine", "the run's"),
            call("write_file", path="new/deep/module.py", content="x = 1\n"),
            shell(f"for f in {names}; do printf 'z\\n' > $f; done; chmod 600 clean.py; chmod -x run.sh"),
            shell(
                "rm link x.utf private.pem; ln -s elsewhere dangling2; ln -sfn run.sh dangling; echo > gone.py"
            ),
            shell(
                "rm -r untracked closed empty; mkdir -p made/empty; chmod 644 group.txt; echo y > untracked"
            ),
        )
        outcome = workspace.undo()
        assert workspace.picture() == before
        assert not outcome.left
        assert not fired.exists()

    def test_a_destroyed_tree_comes_back_byte_for_byte(self, workspace: Workspace) -> None:
        fired = make_dirty(workspace)
        (workspace.root / "pipe").unlink()
        before = workspace.picture()
        workspace.run(shell("rm -rf * .gitattributes; ls -A"))
        assert not (workspace.root / "clean.py").exists()
        workspace.undo()
        after = workspace.picture()
        lost = {b"build", b"build/out.o", b"debug.log"}
        assert {path: state for path, state in before.items() if path not in lost} == after
        assert not fired.exists()

    def test_commands_that_throw_work_away_are_undone(self, workspace: Workspace) -> None:
        for name in ("a.py", "b.py"):
            workspace.write(name, "committed\n")
        workspace.write(".gitignore", "*.log\n")
        workspace.git("add", "-A")
        workspace.git("commit", "-qm", "start")
        workspace.write("a.py", "not committed\n")
        workspace.write("b.py", "staged\n")
        workspace.git("add", "b.py")
        workspace.write("untracked/data", "1\n", 0o600)
        workspace.write("x.log", "log\n")

        def files() -> dict[bytes, tuple[int, bytes]]:
            return {
                path: state for path, state in workspace.picture().items() if not path.startswith(b".git/")
            }

        before = files()
        workspace.run(shell("git reset -q --hard && git checkout -q . && git clean -qfdx && ls -A"))
        assert not (workspace.root / "untracked").exists()
        outcome = workspace.undo()
        after = files()
        assert {path for path in before if before[path] != after.get(path)} == {b"x.log"}
        (lost,) = outcome.not_covered
        assert lost.path == "x.log"
        assert "git ignores it" in lost.reason
        assert "removed since the run began" in lost.reason

    def test_nothing_of_ours_is_in_a_mirror_or_a_bundle(self, workspace: Workspace, tmp_path: Path) -> None:
        workspace.write("a", "a\n")
        workspace.git("add", "a")
        workspace.git("commit", "-qm", "start")
        before = workspace.git("rev-list", "--all", "--objects")
        workspace.write("secret", "untracked secret\n")
        workspace.run(shell("echo b > b"))
        workspace.undo()
        workspace.git("init", "-q", "--bare", str(tmp_path / "mirror"))
        workspace.git("-c", "protocol.file.allow=always", "push", "-q", "--mirror", str(tmp_path / "mirror"))
        workspace.git("bundle", "create", "-q", str(tmp_path / "bundle"), "--all")
        assert workspace.git("rev-list", "--all", "--objects") == before
        assert workspace.git(f"--git-dir={tmp_path / 'mirror'}", "rev-list", "--all", "--objects") == before
        assert "refs/runs" not in workspace.git("bundle", "list-heads", str(tmp_path / "bundle"))

    def test_the_users_work_after_the_run_stays(self, workspace: Workspace) -> None:
        make_dirty(workspace)
        workspace.run(
            edit("unstaged.py", "mine", "the run's"), call("write_file", path="c.py", content="c\n")
        )
        workspace.write("later.py", "later\n")
        workspace.git(
            "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "commit", "-qm", "later"
        )
        git_files = {path: s for path, s in workspace.picture().items() if path.startswith(b".git/")}
        outcome = workspace.undo()
        assert dict(outcome.put_back) == {"unstaged.py": "restored", "c.py": "removed"}
        assert (workspace.root / "later.py").read_text() == "later\n"
        assert (workspace.root / "unstaged.py").read_text() == "mine\n"
        assert {path: s for path, s in workspace.picture().items() if path.startswith(b".git/")} == git_files


CONTENTS = st.sampled_from([b"", b"a\n", b"a\r\nb\r\n", b"\0\xff", b"no end", "ä☃\n".encode(), b"$Id$\n"])
MODES = st.sampled_from([0o644, 0o755, 0o600, 0o640, 0o664, 0o444])
NAMES = st.sampled_from(
    [
        b"a",
        b"b.py",
        b"-n",
        b"new\nline",
        b"caf\xe9",
        b"d/x",
        b"d/y",
        b"d/e/z",
        b"x.log",
        b".env",
        b" ",
        b"d/-x",
        b"t\t",
    ]
)
IGNORED = (b"x.log", b".env")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES, CONTENTS),
        st.tuples(st.just("chmod"), NAMES, st.sampled_from([b"600", b"755", b"444", b"640"])),
        st.tuples(st.just("rm"), NAMES, st.just(b"")),
        st.tuples(st.just("link"), NAMES, st.sampled_from([b"a", b"nowhere", b"/etc"])),
        st.tuples(st.just("mkdir"), NAMES.filter(lambda name: name not in IGNORED), st.just(b"")),
        st.tuples(st.just("move"), NAMES, NAMES),
    ),
    min_size=1,
    max_size=8,
)
FILES = st.dictionaries(NAMES, st.tuples(CONTENTS, MODES), max_size=8)
INDEXING = st.dictionaries(
    NAMES, st.sampled_from(["add", "intend", "assume", "skip", "uncached"]), max_size=6
)


def command_of(step: tuple[str, bytes, bytes]) -> str:
    kind, name, value = step
    path = named(name)
    parents = f'mkdir -p -- "$(dirname {path})"'
    made = "$'" + "".join(f"\\x{byte:02x}" for byte in value) + "'"
    escapes = "".join(f"\\x{byte:02x}" for byte in value)
    return {
        "write": f"{parents}; printf '{escapes}' > {path}",
        "chmod": f"[ -L {path} ] || chmod {value.decode('latin-1')} {path}",
        "rm": f"rm -rf {path}",
        "link": f"{parents}; ln -sfn {made} {path}",
        "mkdir": f"rm -rf {path}; mkdir -p {path}",
        "move": f"[ -d {path} ] || mv -fT {path} {named(value)}",
    }[kind]


def prepare(workspace: Workspace, files: dict[bytes, tuple[bytes, int]], marks: dict[bytes, str]) -> None:
    workspace.write(".gitignore", "*.log\n.env\n")
    workspace.write(".gitattributes", "* text=auto eol=lf ident\n")
    options = {"add": [], "intend": ["-N"]}
    for name, (content, mode) in files.items():
        workspace.write(name, content, mode)
    for name, mark in marks.items():
        word = ["--", os.fsdecode(name)]
        flags = {"assume": "--assume-unchanged", "skip": "--skip-worktree", "uncached": "--force-remove"}
        if mark in options and name in files:
            workspace.git("add", "-f", *options[mark], *word)
        elif mark in flags and name in files:
            workspace.git("add", "-f", *word)
            workspace.git("update-index", flags[mark], *word)
    if marks:
        workspace.git("commit", "-qm", "x", "--allow-empty")
    for name, (content, mode) in list(files.items())[::2]:
        (workspace.root / os.fsdecode(name)).chmod(0o600)
        workspace.write(name, content + b"dirty\n", mode)


@pytest.mark.timeout(120 if CI else 3_600)
@settings(max_examples=15 if CI else 300, deadline=None)
@given(files=FILES, marks=INDEXING, steps=st.lists(STEPS, min_size=1, max_size=3))
def test_undo_of_any_work_in_any_tree_is_exact(
    tmp_path_factory: pytest.TempPathFactory,
    files: dict[bytes, tuple[bytes, int]],
    marks: dict[bytes, str],
    steps: list[list[tuple[str, bytes, bytes]]],
) -> None:
    workspace = Workspace(tmp_path_factory.mktemp("any"))
    prepare(workspace, files, marks)
    before = workspace.picture()
    workspace.run(*(shell("; ".join(map(command_of, step)) + "; true") for step in steps))
    between = workspace.picture()

    def covered(picture: dict[bytes, tuple[int, bytes]]) -> dict[bytes, tuple[int, bytes]]:
        """All but ignored files that git does not track: a command that changes them is beyond undo, and said to be."""
        tracked = set(workspace.git("ls-files", "-z").split("\0"))
        return {
            path: state
            for path, state in picture.items()
            if path not in IGNORED or os.fsdecode(path) in tracked
        }

    outcome = workspace.undo()
    assert covered(workspace.picture()) == covered(before)
    if outcome.put_back:
        workspace.redo()
    assert covered(workspace.picture()) == covered(between)


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


class TestTheUsersOwnWork:
    def test_a_file_that_both_changed_is_left_and_the_old_version_lies_beside_the_record(
        self, workspace: Workspace
    ) -> None:
        workspace.write("a", "a0\n")
        workspace.write("b", "b0\n")
        workspace.run(edit("a", "a0", "a1"), edit("b", "b0", "b1"))
        workspace.write("a", "mine\n")
        outcome = workspace.undo()
        assert ((workspace.root / "a").read_text(), (workspace.root / "b").read_text()) == ("mine\n", "b0\n")
        (left,) = outcome.left
        assert left.path == "a"
        assert left.reason.startswith("it was changed since")
        assert left.old_version is not None
        assert left.old_version.read_text() == "a0\n"
        assert workspace.record in left.old_version.parents

        forced = workspace.undo(force=True)
        assert (workspace.root / "a").read_text() == "a0\n"
        assert forced.replaced["a"].read_text() == "mine\n"
        assert not forced.left

        workspace.redo()
        assert (workspace.root / "a").read_text() == "mine\n"

    def test_what_the_user_changes_while_the_model_thinks_is_not_taken_for_the_runs(
        self, workspace: Workspace
    ) -> None:
        for name in ("a", "b", "c"):
            workspace.write(name, f"{name}0\n")

        def meanwhile() -> Reply:
            workspace.write("a", "a1\nmine\n")
            workspace.write("c", "c0\nmine\n")
            workspace.write("d", "mine\n")
            return shell("echo b1 > b; echo run >> c")

        workspace.run(edit("a", "a0", "a1"), meanwhile)
        outcome = workspace.undo()
        texts = {name: (workspace.root / name).read_text() for name in ("a", "b", "c", "d")}
        assert texts == {"a": "a1\nmine\n", "b": "b0\n", "c": "c0\nmine\n", "d": "mine\n"}
        assert list(reasons(outcome)) == ["a"]
        assert "you changed it as well while the run was under way" in reasons(outcome)["a"]

    def test_a_change_of_mode_alone_is_work_too(self, workspace: Workspace) -> None:
        workspace.write("a", "a0\n")
        workspace.run(edit("a", "a0", "a1"))
        (workspace.root / "a").chmod(0o600)
        assert "it was changed since" in reasons(workspace.undo())["a"]

    @pytest.mark.parametrize(
        ("act", "reason"),
        [
            (lambda path: path.unlink(), "it was removed since"),
            (lambda path: (path.unlink(), path.mkdir()), "it is a folder now"),
            (lambda path: (path.unlink(), path.symlink_to("b")), "it is a link now"),
            (make_pipe, "cannot be compared"),
        ],
    )
    def test_whatever_the_user_put_there_stays(
        self, workspace: Workspace, act: Callable[[Path], object], reason: str
    ) -> None:
        workspace.write("a", "a0\n")
        workspace.run(edit("a", "a0", "a1"))
        act(workspace.root / "a")
        before = workspace.picture()
        assert reason in reasons(workspace.undo())["a"]
        assert workspace.picture() == before

    def test_a_file_made_by_the_run_and_removed_by_the_user_needs_nothing(self, workspace: Workspace) -> None:
        workspace.run(call("write_file", path="new", content="x\n"))
        (workspace.root / "new").unlink()
        outcome = workspace.undo()
        assert (outcome.put_back, outcome.left) == ({}, ())

    def test_a_folder_of_the_run_stays_while_files_of_others_are_in_it(self, workspace: Workspace) -> None:
        workspace.run(shell("mkdir -p made/inner; echo x > made/inner/f; echo x > made/g"))
        workspace.write("made/mine", "mine\n")
        outcome = workspace.undo()
        assert {path for path in workspace.picture() if path.startswith(b"made")} == {b"made", b"made/mine"}
        assert [item.path for item in outcome.not_covered] == ["made/"]
        assert not outcome.left

    @pytest.mark.parametrize("force", [False, True])
    def test_a_file_that_the_run_made_a_folder_stays_one_while_files_of_others_are_in_it(
        self, workspace: Workspace, *, force: bool
    ) -> None:
        workspace.write("f", "old\n")
        workspace.run(shell("rm f; mkdir f; echo run > f/run"))
        workspace.write("f/mine", "mine\n")
        outcome = workspace.undo(force=force)
        told = reasons(outcome)["f"]
        assert "move them away" in told
        assert "moment" not in told
        assert (workspace.root / "f" / "mine").read_text() == "mine\n"
        (workspace.root / "f" / "mine").unlink()
        assert not workspace.undo().left
        assert (workspace.root / "f").read_text() == "old\n"

    def test_a_folder_of_the_run_goes_with_the_undo_after_its_last_file(self, workspace: Workspace) -> None:
        workspace.run(shell("mkdir -p made/inner; echo x > made/inner/f; echo x > made/g"))
        workspace.write("made/inner/f", "mine\n")
        assert list(workspace.undo().put_back) == ["made/g"]
        (workspace.root / "made" / "inner" / "f").unlink()
        outcome = workspace.undo()
        assert (list(outcome.put_back), outcome.left) == (["made", "made/inner"], ())
        assert workspace.state_of("made") is None

    def test_redo_takes_back_only_what_the_undo_really_did(self, workspace: Workspace) -> None:
        workspace.run(shell("mkdir made; echo x > made/f; echo x > made/g"))
        workspace.write("made/mine", "mine\n")
        workspace.undo()
        outcome = workspace.redo()
        assert (dict(outcome.put_back), outcome.left) == ({"made/f": "recreated", "made/g": "recreated"}, ())
        end = next(event for event in read_events(workspace.record) if event.get("phase") == "end")
        shadow = ShadowRepository(workspace.state, workspace.root)
        assert b"made" in shadow.trees().annex(workspace.record.name, end["annex"]).folders

    def test_a_later_run_counts_as_the_users_work(self, workspace: Workspace) -> None:
        workspace.write("a", "a0\n")
        workspace.write("b", "b0\n")
        workspace.run(edit("a", "a0", "a1"), edit("b", "b0", "b1"))
        first = workspace.record
        workspace.run(shell("echo a2 > a"))
        outcome = undo(workspace.state, first)
        assert list(reasons(outcome)) == ["a"]
        assert "by a later run" in reasons(outcome)["a"]
        assert (workspace.root / "b").read_text() == "b0\n"
        assert (workspace.root / "a").read_text() == "a2\n"

    def test_a_link_in_place_of_a_folder_leads_nowhere(self, workspace: Workspace, tmp_path: Path) -> None:
        workspace.write("d/f", "f0\n")
        workspace.run(shell("echo f1 > d/f; rm d/g 2>/dev/null; true"))
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "f").write_text("f1\n")
        (workspace.root / "d" / "f").unlink()
        (workspace.root / "d").rmdir()
        (workspace.root / "d").symlink_to(outside)
        outcome = workspace.undo(force=True)
        assert (outside / "f").read_text() == "f1\n"
        assert sorted(path.name for path in outside.iterdir()) == ["f"]
        assert [left.path for left in outcome.left] == ["d/f"]


class TestWhatRulesExclude:
    def test_an_ignored_file_changed_by_an_edit_tool_comes_back(self, workspace: Workspace) -> None:
        workspace.write(".gitignore", "local.toml\nbuild/\n")
        workspace.write("local.toml", "A=1\n", 0o600)
        workspace.write("build/old", "old\n")
        before = workspace.picture()
        workspace.run(
            calls(shell("echo x > seen"), edit("local.toml", "A=1", "A=2")),
            call("write_file", path="build/new", content="x\n"),
        )
        assert (workspace.root / "local.toml").read_text() == "A=2\n"
        outcome = workspace.undo()
        assert workspace.picture() == before
        assert not outcome.left

    def test_an_ignored_file_changed_by_a_command_is_named(self, workspace: Workspace) -> None:
        workspace.write(".gitignore", "*.log\ndist/\n")
        workspace.write("x.log", "before\n")
        workspace.write("dist/a", "before\n")
        time.sleep(0.05)
        workspace.run(shell("echo after > x.log; echo after > dist/b"))
        outcome = workspace.undo()
        assert {item.path: item.reason for item in outcome.not_covered} == {
            "dist/": "git ignores it, so it was not recorded, and 1 file in it was changed since the run began, by the run "
            "or by you: look at it yourself",
            "x.log": "git ignores it, so it was not recorded, and it was changed since the run began, by the run or by you: "
            "look at it yourself",
        }

    def test_a_rule_that_the_run_removed_costs_no_ignored_file(self, workspace: Workspace) -> None:
        workspace.write(".gitignore", ".env\nvenv/\n")
        workspace.write(".env", "KEY\n")
        workspace.write("venv/lib/x", "x\n")
        before = workspace.picture()
        workspace.run(shell("rm .gitignore; echo y > own"))
        outcome = workspace.undo()
        assert workspace.picture() == before
        assert not outcome.left

    def test_a_rule_that_the_run_added_hides_no_change_from_undo(self, workspace: Workspace) -> None:
        workspace.write("data", "d0\n")
        before = workspace.picture()
        workspace.run(
            shell("echo made > made"),
            shell("printf 'data\\nmade\\n' > .gitignore"),
            shell("echo d1 > data; echo > made"),
        )
        workspace.undo()
        assert workspace.picture() == before

    def test_files_too_large_to_record_are_never_guessed_at(self, workspace: Workspace) -> None:
        large = workspace.write("large", b"")
        with large.open("wb") as file:
            file.truncate(11 * 1024**2)
        workspace.write("grows", "small\n")
        workspace.run(shell("echo small > large; truncate -s 11M grows"))
        outcome = workspace.undo()
        assert "not recorded" in reasons(outcome)["large"]
        assert "cannot be compared" in reasons(outcome)["grows"]
        assert large.read_text() == "small\n"
        forced = workspace.undo(force=True)
        assert (workspace.root / "grows").read_text() == "small\n"
        assert forced.replaced["grows"].stat().st_size == 11 * 1024**2

    def test_a_repository_whose_git_folder_is_gone_is_reported(self, workspace: Workspace) -> None:
        for name in ("dep", "ignored/dep", "kept"):
            workspace.write(f"{name}/f", "x")
            workspace.git("init", "-q", name)
        workspace.write(".gitignore", "ignored\n")

        workspace.run(call("shell", command="rm -rf dep/.git; mv ignored elsewhere"))
        outcome = workspace.undo()

        gone = [item.path for item in outcome.not_covered if "git's own files" in item.reason]
        assert gone == ["dep/.git", "ignored/dep/.git"]

    def test_a_pipe_that_the_run_removed_is_reported(self, workspace: Workspace) -> None:
        os.mkfifo(workspace.root / "pipe")
        workspace.run(shell("rm pipe"))
        assert "not recorded" in reasons(workspace.undo())["pipe"]


class TestSteps:
    def test_from_a_step_on(self, workspace: Workspace) -> None:
        pictures = [workspace.picture()]

        def step(n: int) -> Callable[[], Reply]:
            def act() -> Reply:
                pictures.append(workspace.picture())
                return shell(f"echo {n} > f{n}; echo {n} >> all")

            return act

        workspace.run(step(1), step(2), step(3))
        workspace.undo(step=3)
        assert workspace.picture() == pictures[3]
        workspace.undo(step=2)
        assert workspace.picture() == pictures[2]
        workspace.redo()
        assert workspace.picture() == pictures[3]
        workspace.undo()
        assert workspace.picture() == pictures[0]

    def test_a_step_that_is_not_there_is_refused(self, workspace: Workspace) -> None:
        workspace.run(shell("echo > f"))
        with pytest.raises(RecordError, match="no step 9; its last one is 2"):
            workspace.undo(step=9)

    def test_a_resumed_run_is_undone_as_a_whole_but_for_what_the_user_did_between(
        self, workspace: Workspace
    ) -> None:
        for name in ("a", "b", "c"):
            workspace.write(name, f"{name}0\n")
        workspace.run(shell("echo a1 > a; echo b1 > b"))
        workspace.write("b", "mine\n")
        workspace.write("c", "mine\n")
        workspace.run(shell("echo a2 > a; echo c2 > c"), resume=True)
        outcome = workspace.undo()
        texts = [(workspace.root / name).read_text() for name in ("a", "b", "c")]
        assert texts == ["a0\n", "mine\n", "mine\n"]
        assert list(reasons(outcome)) == ["b"]

    def test_a_run_can_be_undone_resumed_and_undone_again(self, workspace: Workspace) -> None:
        workspace.write("a", "a0\n")
        before = workspace.picture()
        workspace.run(shell("echo a1 > a; echo n > n"), shell("echo a2 > a"))
        workspace.undo(step=2)
        workspace.run(shell("echo a3 > a"), resume=True)
        workspace.undo()
        assert workspace.picture() == before


class TestRedo:
    def test_it_takes_back_the_last_undo_and_then_the_one_before(self, workspace: Workspace) -> None:
        workspace.write("a", "a0\n", 0o640)
        before = workspace.picture()
        workspace.run(shell("echo a1 > a; chmod 755 a; mkdir -p d/e; echo > d/f; ln -s a l"), shell("rm a"))
        after = workspace.picture()
        workspace.undo(step=2)
        workspace.undo()
        assert workspace.picture() == before
        workspace.redo()
        workspace.redo()
        assert workspace.picture() == after
        with pytest.raises(RecordError, match="nothing to redo"):
            workspace.redo()
        workspace.undo()
        assert workspace.picture() == before

    def test_it_leaves_what_the_user_did_after_the_undo(self, workspace: Workspace) -> None:
        workspace.write("a", "a0\n")
        workspace.write("b", "b0\n")
        workspace.run(shell("echo a1 > a; echo b1 > b"))
        workspace.undo()
        workspace.write("a", "mine\n")
        outcome = workspace.redo()
        assert (workspace.root / "a").read_text() == "mine\n"
        assert (workspace.root / "b").read_text() == "b1\n"
        assert list(reasons(outcome)) == ["a"]

    def test_a_second_undo_has_nothing_to_do(self, workspace: Workspace) -> None:
        workspace.write("a", "a0\n")
        workspace.run(edit("a", "a0", "a1"))
        workspace.undo()
        outcome = workspace.undo()
        assert (outcome.put_back, outcome.left) == ({}, ())


@pytest.mark.parametrize(
    "name",
    [
        b"new\nline",
        b"-rf",
        b"caf\xe9",
        b"x" * 255,
        "e\u0301".encode(),
        "\u00e9".encode(),
        b"~",
        b"http://x",
        b" ",
        b"@run/x",
    ],
)
def test_any_name_comes_back(workspace: Workspace, name: bytes) -> None:
    workspace.write(name, "before\n")
    (workspace.root / "other").symlink_to(os.fsdecode(name))
    before = workspace.picture()
    workspace.run(shell(f"echo after > {named(name)}"), shell(f"rm {named(name)} other"))
    workspace.undo()
    assert workspace.picture() == before


class TestARecordOfAnUndo:
    def test_it_is_in_the_record_and_not_taken_for_the_runs_own_work(self, workspace: Workspace) -> None:
        workspace.write("a", "a0\n")
        workspace.run(edit("a", "a0", "a1"))
        count = len(list(read_events(workspace.record)))
        workspace.undo()
        added = list(read_events(workspace.record))[count:]
        assert read_record(workspace.record).damage == ()
        assert [(e["type"], e["by"], e["phase"]) for e in added] == [
            ("checkpoint", "undo", "begin"),
            ("checkpoint", "undo", "end"),
        ]
        shadow = ShadowRepository(workspace.state, workspace.root)
        assert [c.path for c in shadow.changes(added[0]["tree"], added[0]["after_tree"])] == ["a"]

    def test_a_damaged_one_is_told_or_done_without(self, workspace: Workspace) -> None:
        workspace.write("a", "old\n")
        workspace.run(edit("a", "old", "new"))
        workspace.undo()
        path = workspace.record / EVENTS
        whole = path.read_text()
        for phase, lost in itertools.product(
            ("begin", "end"), ("by", "phase", "tree", "annex", "after_tree")
        ):
            events = [json.loads(line) for line in whole.splitlines()]
            (event,) = [event for event in events if event.get("phase") == phase]
            event[lost] = 7.5
            path.write_text("".join(f"{json.dumps(event)}\n" for event in events))
            for step in (workspace.redo, workspace.undo):
                with suppress(RecordError):
                    step()
                assert (workspace.root / "a").read_text() in {"old\n", "new\n"}

    def test_the_snapshots_survive_a_prune(self, workspace: Workspace) -> None:
        workspace.write("a", "a0\n")
        before = workspace.picture()
        workspace.run(shell("echo a1 > a"), shell("echo a2 > a"))
        (shadow,) = (workspace.state / "shadow").iterdir()
        (shadow / "index").unlink()
        subprocess.run(["git", f"--git-dir={shadow}", "prune", "--expire=now"], check=True)
        workspace.undo()
        assert workspace.picture() == before

    def test_what_a_quota_dropped_is_refused_plainly(self, workspace: Workspace) -> None:
        workspace.write("a", "a0\n")
        workspace.run(shell("echo a1 > a"))
        first = workspace.record
        workspace.run(shell("echo a2 > a"))
        checkpoints = Checkpoints(workspace.state, workspace.root, workspace.record.name)
        checkpoints.drop_old_runs(0)
        assert checkpoints.notices == []  # a run without a snapshot of its own drops nobody's
        checkpoints.begin()
        checkpoints.drop_old_runs(10**9)
        assert checkpoints.notices == []
        checkpoints.drop_old_runs(0)
        (notice,) = checkpoints.notices
        assert notice.endswith(f"can no longer be undone: {first.name}")
        with pytest.raises(WorkspaceError):
            undo(workspace.state, first)
        workspace.undo()
        assert (workspace.root / "a").read_text() == "a1\n"


def test_two_at_once_are_kept_apart(workspace: Workspace) -> None:
    workspace.run(shell("echo > f"))
    with workspace_lock(workspace.state, workspace.root, "another"):
        with pytest.raises(WorkspaceLockedError, match="another"):
            workspace.undo()
        with pytest.raises(WorkspaceLockedError):
            workspace.redo()
    workspace.undo()


def test_what_a_killed_call_did_is_reported_and_left(workspace: Workspace) -> None:
    workspace.write("a", "a0\n")
    workspace.write("b", "b0\n")
    workspace.run(shell("echo a1 > a"), shell("echo b1 > b"))
    path = workspace.record / EVENTS
    lines = path.read_bytes().splitlines(keepends=True)
    started = [n for n, line in enumerate(lines) if b'"type":"tool_started"' in line]
    path.write_bytes(b"".join(lines[: started[1] + 1]))
    outcome = workspace.undo()
    assert (workspace.root / "a").read_text() == "a0\n"
    assert (workspace.root / "b").read_text() == "b1\n"
    (left,) = outcome.left
    assert (left.path, "interrupted" in left.reason) == ("b", True)
    assert left.old_version is not None
    assert left.old_version.read_text() == "b0\n"


UNDO = "import sys; from pathlib import Path; from chimera.undo import undo; undo(Path(sys.argv[1]), Path(sys.argv[2]))"


def test_killed_at_any_moment_each_file_is_old_or_new_and_undo_can_be_repeated(workspace: Workspace) -> None:
    for number in range(40):
        workspace.write(f"d{number % 4}/f{number}", f"old {number}\n" * 50, 0o600 if number % 3 else 0o755)
    before = workspace.picture()
    workspace.run(
        shell(
            "for f in d*/f*; do echo new > $f; chmod 640 $f; done; mkdir new; echo x > new/x; rm d1/f1; rm -r d2"
        )
    )
    after = workspace.picture()
    program = [sys.executable, "-c", UNDO, str(workspace.state), str(workspace.record)]
    changed = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
    chance = random.Random(7)
    tries = halves = 0
    while tries < (4 if CI else 200) or (not halves and tries < 40):
        tries += 1
        awaited = os.fsdecode(chance.choice(changed))
        process = subprocess.Popen(program)
        while process.poll() is None and workspace.state_of(awaited) != before.get(os.fsencode(awaited)):
            time.sleep(0.001)
        process.kill()
        process.wait()
        found = {path: state for path, state in workspace.picture().items() if b".chimera-" not in path}
        for path in before.keys() | after.keys():
            assert found.get(path) in (before.get(path), after.get(path)), path
        assert found.keys() <= before.keys() | after.keys()
        halves += found not in (before, after)
        workspace.undo()
        assert workspace.picture() == before
        workspace.redo()
        assert workspace.picture() == after
    assert halves
