"""`chimera diff`: the work of a run and nothing else, and what stands in the way said with a way out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chimera.testing import Reply, ScriptedModel, call, text
from tests.cli.command import UNCONFINED, Chimera, Script
from tests.undoing import Workspace, shell


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    found = Workspace(tmp_path)
    monkeypatch.setenv("CHIMERA_STATE_DIR", str(found.state))
    monkeypatch.chdir(found.root)
    return found


def lines_of(patch: str) -> list[str]:
    return [line for line in patch.splitlines() if line[:1] in "+-" and line[:3] not in {"+++", "---"}]


def damaged(workspace: Workspace, kind: str, nth: int, fields: dict[str, Any]) -> tuple[Path, int]:
    """Damage fields of the n-th event of a type, counted from 0; the file and the number of the line."""
    path = workspace.record / "events.jsonl"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    number = [n for n, event in enumerate(events) if event["type"] == kind][nth]
    events[number] |= fields
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path, number + 1


class TestWhoseWork:
    def test_what_the_user_changed_meanwhile_is_not_shown(
        self, workspace: Workspace, chimera: Chimera
    ) -> None:
        workspace.write("a", "".join(f"{n}\n" for n in range(30)))
        workspace.write("b", "b\n")

        def meanwhile() -> Reply:
            path = workspace.root / "a"
            path.write_text(path.read_text() + "mine\n")
            workspace.write("b", "mine\n")
            return shell("sed -i s/^9$/nine/ a")

        workspace.run(shell("sed -i s/^3$/three/ a"), meanwhile)
        ended = chimera("diff")
        assert (ended.code, ended.err) == (0, "")
        assert sorted(lines_of(ended.out)) == ["+nine", "+three", "-3", "-9"]
        assert chimera("diff", "--stat").out == "a +2 -2\n"
        workspace.git(
            "apply", "--check", "--reverse", "--unidiff-zero", str(self.saved(workspace, ended.out))
        )

    @staticmethod
    def saved(workspace: Workspace, patch: str) -> Path:
        path = workspace.home / "patch"
        path.write_text(patch)
        return path

    def test_lines_that_cannot_be_told_apart_are_said_to_be(
        self, workspace: Workspace, chimera: Chimera
    ) -> None:
        workspace.write("a", "a0\n")

        def meanwhile() -> Reply:
            workspace.write("a", "mine\n")
            return shell("echo a2 > a")

        workspace.run(shell("echo a1 > a"), meanwhile)
        ended = chimera("diff")
        assert lines_of(ended.out) == ["-a0", "+a2"]
        assert "notice: a: you changed it between two changes of the run" in " ".join(ended.err.split())

    def test_of_an_interrupted_run_what_is_nobodys_for_sure_is_shown_and_named(
        self, workspace: Workspace, chimera: Chimera
    ) -> None:
        workspace.write("a", "a0\n")
        workspace.run(shell("echo a1 > a"), shell("echo b > b"))
        path = workspace.record / "events.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        started = [n for n, line in enumerate(lines) if b'"type":"tool_started"' in line]
        path.write_bytes(b"".join(lines[: started[1] + 1]))
        for _ in range(2):
            ended = chimera("diff")
            assert lines_of(ended.out) == ["-a0", "+a1", "+b"]
            assert "notice: b: changed where the run was interrupted" in " ".join(ended.err.split())
            workspace.run(resume=True)


class TestWhatIsInNoSnapshot:
    def test_a_file_that_was_too_large_is_not_shown_as_new(
        self, workspace: Workspace, chimera: Chimera
    ) -> None:
        for name in ("shrinks", "changes", "same"):
            workspace.write(name, b"x\n" * (6 * 1024**2))
        workspace.write("grows", "small\n")
        workspace.run(shell("echo s > shrinks; echo y >> changes; truncate -s 11M grows; echo new > new"))
        ended = chimera("diff")
        assert lines_of(ended.out) == ["+new"]
        told = " ".join(ended.err.split())
        for name in ("shrinks", "changes"):
            assert f"{name}: what was there before is in no snapshot (larger than 10 MiB)" in told
        assert "grows: what is there now is in no snapshot (larger than 10 MiB)" in told
        assert "same" not in told
        assert chimera("diff", "--stat").out.splitlines() == [
            "changes +0 -0", "grows +0 -0", "new +1 -0", "shrinks +0 -0",
        ]  # fmt: skip

    def test_rules_that_the_run_wrote_hide_nothing(self, workspace: Workspace, chimera: Chimera) -> None:
        workspace.write(".gitignore", "*.log\n")
        workspace.write("d/.gitignore", "/local\n")
        workspace.write("d/local", "x\n")
        before = workspace.picture()
        workspace.run(
            shell(
                "echo '*' > .gitignore; echo x > new; echo '*' > d/.gitignore; echo y > d/new; echo z > d/local"
            ),
            shell("echo more > later; echo l > x.log"),
        )
        stat = chimera("diff", "--stat").out.splitlines()
        assert [line.split()[0] for line in stat] == [".gitignore", "d/.gitignore", "d/new", "later", "new"]
        outcome = workspace.undo()
        assert not outcome.left
        after = workspace.picture()
        assert {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)} == {
            b"d/local", b"x.log",
        }  # fmt: skip

    def test_a_new_folder_that_ignores_itself_is_named(self, workspace: Workspace, chimera: Chimera) -> None:
        workspace.write("a", "a\n")
        workspace.run(shell("mkdir cache; echo '*' > cache/.gitignore; echo x > cache/x; echo b > b"))
        ended = chimera("diff")
        assert lines_of(ended.out) == ["+b"]
        assert "cache/: made during the run" in " ".join(ended.err.split())
        assert [item.path for item in workspace.undo().not_covered] == ["cache/"]


FIELDS: list[tuple[str, int, dict[str, Any]]] = [
    ("run_started", 0, {"workspace": 5}),
    ("checkpoint", 0, {"tree": 5}),
    ("checkpoint", 0, {"tree": "no id"}),
    ("checkpoint", 0, {"annex": ["x"]}),
    ("checkpoint", 0, {"by": "nobody"}),
    ("checkpoint", 1, {"tree": 7}),
    ("checkpoint", 1, {"annex": None}),
    ("checkpoint", 1, {"step": "one"}),
    ("checkpoint", 1, {"type": "garbage"}),
]


@pytest.mark.parametrize(("kind", "nth", "fields"), FIELDS, ids=str)
@pytest.mark.parametrize("command", ["diff", "undo"])
def test_a_damaged_field_is_told_with_file_and_line_and_what_still_works(
    workspace: Workspace, chimera: Chimera, command: str, kind: str, nth: int, fields: dict[str, Any]
) -> None:
    workspace.write("a", "a0\n")
    workspace.run(shell("echo a1 > a"))
    path, number = damaged(workspace, kind, nth, fields)
    name = workspace.record.name
    ended = chimera(command, name)
    told = " ".join(ended.err.split())
    if fields == {"type": "garbage"}:  # the snapshot after the run's change is lost: whose it is is not known
        assert ended.code in {0, 1}
        return
    assert ended.code == 2, told
    assert f"line {number}: {next(iter(fields))} is " in told
    assert str(path) in told.replace(" ", "") or path.name in told
    assert f"chimera show {name}" in told
    shown = chimera("show", name)
    assert shown.code == 0
    assert "step 1" in shown.out
    assert f"line {number}" in " ".join(shown.err.split())


def test_a_lost_snapshot_line_makes_its_changes_nobodys(workspace: Workspace) -> None:
    workspace.write("a", "a0\n")

    def meanwhile() -> Reply:
        workspace.write("mine", "mine\n")
        return shell("echo a1 > a")

    workspace.run(call("shell", command="true"), meanwhile)
    path = workspace.record / "events.jsonl"
    lines = path.read_text().splitlines()
    lost = next(n for n, line in enumerate(lines) if json.loads(line).get("by") == "user")
    lines[lost] = lines[lost][:20]
    path.write_text("\n".join(lines) + "\n")
    outcome = workspace.undo()
    assert (workspace.root / "mine").read_text() == "mine\n"
    assert {left.path for left in outcome.left} == {"a", "mine"}


@pytest.mark.parametrize("command", ["show", "diff", "undo"])
def test_without_a_name_the_run_is_the_last_one_here(
    workspace: Workspace, chimera: Chimera, script: Script, tmp_path: Path, command: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    workspace.run(shell("echo here > here"))
    here = workspace.record.name
    other = tmp_path / "other"
    other.mkdir()
    chimera("run", "x", "--workspace", str(other), "--model", script([{"text": "ok"}]), *UNCONFINED)
    ended = chimera(command)
    assert "here" in ended.out
    if command == "show":
        assert here in ended.out
    monkeypatch.chdir(tmp_path)
    nowhere = chimera(command)
    assert nowhere.code == 2
    assert "chimera runs" in nowhere.err


@pytest.mark.parametrize("command", ["show", "diff", "undo", "runs", "resume"])
def test_a_run_killed_before_its_first_event_is_told_plainly(
    workspace: Workspace, chimera: Chimera, command: str
) -> None:
    workspace.run(shell("echo x > x"))
    (workspace.record / "events.jsonl").write_bytes(b"")
    name = [] if command == "runs" else [workspace.record.name]
    ended = chimera(command, *name)
    told = " ".join((ended.out + ended.err).split())
    assert "None" not in told
    assert "bug" not in told
    if command == "runs":
        assert ended.code == 0
        return
    assert ended.code == (0 if command == "show" else 2)
    assert "has no beginning" in told
    assert "chimera run" in told


def test_a_run_that_ended_before_its_first_request_has_an_empty_patch(
    workspace: Workspace, chimera: Chimera
) -> None:
    with pytest.raises(AssertionError, match="cannot_shrink"):
        workspace.run(model=ScriptedModel([text("never")], window=500))
    workspace.write("a", "mine\n")
    name = workspace.record.name
    for command in (("diff", name), ("diff", name, "--stat"), ("undo", name)):
        ended = chimera(*command)
        assert (ended.code, "+mine" in ended.out) == (0, False), ended.err
    assert (workspace.root / "a").read_text() == "mine\n"
