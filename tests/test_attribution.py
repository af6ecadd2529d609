"""Whose work a change is: the run's, the user's, or of one of the two, where a run was killed in a call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from chimera.record.run_directory import EVENTS
from chimera.testing import Reply, call, text
from chimera.tools.approval import Ask
from chimera.tools.base import Tool
from tests.undoing import Workspace, shell


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def edit(path: str, old: str, new: str) -> Reply:
    return call("edit_file", path=path, edits=[{"old": old, "new": new}])


def kill_after(workspace: Workspace, kind: str, count: int) -> None:
    """Throw away what the record holds after the n-th event of a type: as a kill at that moment would."""
    path = workspace.record / EVENTS
    lines = path.read_bytes().splitlines(keepends=True)
    seen = [n for n, line in enumerate(lines) if json.loads(line)["type"] == kind]
    path.write_bytes(b"".join(lines[: seen[count - 1] + 1]))


def content(workspace: Workspace, name: str) -> str | None:
    state = workspace.state_of(name)
    return None if state is None else state[1].decode()


class TestAfterAKill:
    def killed(self, workspace: Workspace) -> None:
        """The second call is lost; the user may have been at work, too."""
        for name in ("a", "b", "gone"):
            workspace.write(name, f"{name}0\n")
        workspace.run(shell("echo a1 > a"), shell("echo b1 > b; mkdir made; echo n > made/n; rm gone"))
        kill_after(workspace, "tool_started", 2)

    def test_undo_names_what_the_lost_call_or_the_user_changed_and_force_takes_it_back(
        self, workspace: Workspace
    ) -> None:
        self.killed(workspace)
        workspace.run(edit("a", "a1", "a2"), resume=True)
        outcome = workspace.undo()
        assert {left.path for left in outcome.left} == {"b", "gone", "made", "made/n"}
        for left in outcome.left:
            assert "interrupted" in left.reason
            assert "--force" in left.reason
        assert (content(workspace, "a"), content(workspace, "b")) == ("a0\n", "b1\n")
        forced = workspace.undo(force=True)
        assert not forced.left
        assert (content(workspace, "b"), content(workspace, "gone")) == ("b0\n", "gone0\n")
        assert workspace.state_of("made") is None
        assert forced.replaced["made/n"].read_text() == "n\n"

    def test_without_a_resume_force_takes_it_back_as_well(self, workspace: Workspace) -> None:
        self.killed(workspace)
        outcome = workspace.undo()
        assert {left.path for left in outcome.left} == {"b", "gone", "made", "made/n"}
        assert all("--force" in left.reason for left in outcome.left)
        workspace.undo(force=True)
        assert [content(workspace, name) for name in ("a", "b", "gone")] == ["a0\n", "b0\n", "gone0\n"]
        assert workspace.state_of("made") is None

    def test_the_model_and_the_user_are_told(self, workspace: Workspace) -> None:
        self.killed(workspace)
        seen: list[str] = []

        def look() -> Reply:
            return text("done")

        result = workspace.run(look, resume=True, emit=lambda event: seen.append(str(event.fields)))
        (told,) = [warning for warning in result.warnings if "interrupted" in warning]
        for name in ("b", "gone", "made/n"):
            assert name in told
        assert "undo" in told
        assert any(told in fields for fields in seen)

    def test_a_call_that_ended_but_was_not_followed_by_a_snapshot_is_nobodys_for_sure(
        self, workspace: Workspace
    ) -> None:
        workspace.write("a", "a0\n")
        workspace.run(shell("echo a1 > a"))
        kill_after(workspace, "tool_finished", 1)
        workspace.run(resume=True)
        (left,) = workspace.undo().left
        assert (left.path, "interrupted" in left.reason) == ("a", True)

    def test_work_of_the_user_between_an_end_and_a_resume_stays_the_users(self, workspace: Workspace) -> None:
        workspace.write("a", "a0\n")
        workspace.run(shell("echo a1 > a"))
        workspace.write("mine", "mine\n")
        result = workspace.run(shell("echo a2 > a"), resume=True)
        assert [file.path for file in result.files_changed] == ["a"]
        assert not workspace.undo().left
        assert content(workspace, "mine") == "mine\n"

    def test_what_an_undo_before_the_resume_put_back_is_not_listed(self, workspace: Workspace) -> None:
        self.killed(workspace)
        workspace.undo(force=True)
        workspace.run(resume=True)
        assert not workspace.undo().left


class TestWhileAQuestionIsOpen:
    """The user edits a file while chimera waits for their answer."""

    def asked(self, workspace: Workspace, *answers: bool) -> Ask:
        """Someone who writes a file of their own at each question, and another line into one that the run changes."""
        left = list(answers)

        def ask(_tool: Tool, _arguments: Mapping[str, Any]) -> bool:
            workspace.write(f"mine{len(left)}", "mine\n")
            shared = workspace.root / "shared"
            shared.write_text(shared.read_text() + f"mine {len(left)}\n")
            return left.pop(0)

        return ask

    @pytest.mark.parametrize("answers", [(True, True), (False, True), (True, False), (False, False)])
    @pytest.mark.parametrize("together", [False, True], ids=["a step each", "one step"])
    def test_what_the_user_edits_stays_the_users(
        self, workspace: Workspace, answers: tuple[bool, bool], *, together: bool
    ) -> None:
        workspace.write("shared", "".join(f"line {n}\n" for n in range(20)))
        calls = [shell("echo one > one"), shell("sed -i 's/line 2$/the run/' shared; echo two > two")]
        script = [Reply(calls=calls[0].calls + calls[1].calls)] if together else calls
        result = workspace.run(*script, mode="ask", ask=self.asked(workspace, *answers))
        made = [
            name for name, yes in (("one", answers[0]), ("shared", answers[1]), ("two", answers[1])) if yes
        ]
        assert [file.path for file in result.files_changed] == made
        undone = workspace.undo()
        assert (set(undone.put_back), undone.left) == (set(made), ())
        assert (content(workspace, "mine2"), content(workspace, "mine1")) == ("mine\n", "mine\n")
        assert (content(workspace, "shared") or "").endswith("mine 2\nmine 1\n")

    def test_a_kill_in_the_second_question_leaves_what_the_user_did_in_it_alone(
        self, workspace: Workspace
    ) -> None:
        workspace.write("shared", "shared\n")
        workspace.run(
            shell("echo a > a"), shell("echo b > b"), mode="ask", ask=self.asked(workspace, True, False)
        )
        kill_after(workspace, "tool_started", 2)
        assert {left.path for left in workspace.undo().left} <= {"mine1", "shared"}
        assert (content(workspace, "mine1"), content(workspace, "a")) == ("mine\n", None)

    def test_a_kill_in_an_approved_call_leaves_its_work_nobodys_for_sure(self, workspace: Workspace) -> None:
        workspace.write("shared", "shared\n")
        workspace.run(shell("echo a > a"), mode="ask", ask=self.asked(workspace, True))
        kill_after(workspace, "checkpoint", 2)
        (left,) = workspace.undo().left
        assert (left.path, "interrupted" in left.reason) == ("a", True)


class TestFilesChanged:
    def test_what_the_user_changes_meanwhile_is_not_counted(self, workspace: Workspace) -> None:
        for name in ("a", "b", "c"):
            workspace.write(name, f"{name}0\n")

        def meanwhile() -> Reply:
            workspace.write("b", "b0\nmine\n")
            workspace.write("mine", "mine\n")
            (workspace.root / "c").unlink()
            return shell("echo run > made")

        result = workspace.run(edit("a", "a0", "a1"), meanwhile)
        assert [file.path for file in result.files_changed] == ["a", "made"]

    @pytest.mark.parametrize("first", ["user", "run"])
    def test_of_a_file_that_both_changed_only_the_runs_lines_count(
        self, workspace: Workspace, first: str
    ) -> None:
        workspace.write("a", "".join(f"line {n}\n" for n in range(9)))

        def by_user() -> Reply:
            path = workspace.root / "a"
            path.write_text(path.read_text() + "mine\nmine\nmine\n")
            return shell("true")

        by_run = shell("sed -i 's/line 2/the run/' a")
        result = workspace.run(by_user, by_run) if first == "user" else workspace.run(by_run, by_user)
        assert [(f.path, f.added, f.removed) for f in result.files_changed] == [("a", 1, 1)]

    def test_the_users_lines_between_two_of_the_run_are_taken_out(self, workspace: Workspace) -> None:
        workspace.write("a", "".join(f"line {n}\n" for n in range(30)))

        def by_user() -> Reply:
            path = workspace.root / "a"
            path.write_text(path.read_text() + "mine\nmine\nmine\n")
            return shell("sed -i 's/line 2$/the run/' a")

        result = workspace.run(shell("sed -i 's/line 12/the run/' a"), by_user)
        assert [(f.path, f.added, f.removed) for f in result.files_changed] == [("a", 2, 2)]

    def test_an_ignored_file_that_an_edit_tool_changed_is_not_new(self, workspace: Workspace) -> None:
        workspace.write(".gitignore", "local\n")
        workspace.write("local", "".join(f"line {n}\n" for n in range(30)))
        result = workspace.run(edit("local", "line 7\n", "seven\n"))
        assert [(f.path, f.added, f.removed) for f in result.files_changed] == [("local", 1, 1)]
