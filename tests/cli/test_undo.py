"""`chimera undo` and `chimera redo`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chimera.config import state_dir
from chimera.workspace.lock import workspace_lock
from tests.cli.command import UNCONFINED, Chimera, Script

FIX: dict[str, Any] = {
    "call": "edit_file",
    "arguments": {"path": "calc.py", "edits": [{"old": "a - b", "new": "a + b"}]},
}
MORE: dict[str, Any] = {
    "call": "shell",
    "arguments": {"command": r"echo x > new.py; printf y > $'odd\nname\x1b[31m'; mkdir made"},
}


@pytest.fixture
def run_id(repository: Path, chimera: Chimera, script: Script) -> str:
    model = script([FIX, MORE, {"text": "Fixed."}])
    ended = chimera("run", "Fix it", "--model", model, *UNCONFINED, "--output-format", "json")
    assert ended.code == 0
    return str(ended.result["run_id"])


@pytest.mark.usefixtures("run_id")
def test_undo_says_what_it_put_back_and_redo_takes_it_back(repository: Path, chimera: Chimera) -> None:
    undone = chimera("undo")
    assert undone.code == 0, undone.err
    assert undone.out.splitlines()[1:] == [
        "  restored  calc.py",
        "  removed   made",
        "  removed   new.py",
        "  removed   odd\\nname\\x1b[31m",
    ]
    assert (repository / "calc.py").read_text().endswith("a - b\n")
    assert sorted(path.name for path in repository.iterdir()) == [".git", "calc.py"]

    redone = chimera("redo")
    assert redone.code == 0
    assert (repository / "calc.py").read_text().endswith("a + b\n")
    assert (repository / "made").is_dir()
    assert chimera("redo").code == 2


def test_the_diff_of_a_run_is_the_same_after_its_undo(run_id: str, chimera: Chimera) -> None:
    before = chimera("diff", run_id).out
    assert "+    return a + b" in before
    chimera("undo", run_id)
    assert chimera("diff", run_id).out == before


def test_the_json_report_holds_everything(run_id: str, repository: Path, chimera: Chimera) -> None:
    (repository / "calc.py").write_text("mine\n")
    ended = chimera("undo", run_id[:-2], "--output-format", "json")
    assert ended.code == 1
    report = ended.result
    (left,) = report.pop("left")
    assert report == {
        "schema_version": 1,
        "run_id": run_id,
        "exit_code": 1,
        "put_back": [
            {"path": "made", "done": "removed"},
            {"path": "new.py", "done": "removed"},
            {"path": "odd\nname\x1b[31m", "done": "removed"},
        ],
        "replaced": [],
        "not_covered": [],
    }
    assert left["path"] == "calc.py"
    assert left["reason"].startswith("it was changed since")
    assert Path(left["old_version"]).read_text().endswith("a - b\n")


@pytest.mark.usefixtures("run_id")
def test_what_is_left_alone_is_exit_one_and_force_keeps_a_copy(repository: Path, chimera: Chimera) -> None:
    (repository / "calc.py").write_text("mine\n")
    ended = chimera("undo")
    assert ended.code == 1
    assert "left alone calc.py: it was changed since" in ended.out
    assert "--force" in ended.out
    forced = chimera("undo", "--force", "--output-format", "json")
    assert forced.code == 0
    ((copy),) = forced.result["replaced"]
    assert Path(copy["copy"]).read_text() == "mine\n"
    assert (repository / "calc.py").read_text().endswith("a - b\n")


@pytest.mark.usefixtures("run_id")
def test_a_step_is_undone_by_its_number(repository: Path, chimera: Chimera) -> None:
    assert chimera("undo", "--step", "2").code == 0
    assert (repository / "calc.py").read_text().endswith("a + b\n")
    assert not (repository / "new.py").exists()
    missing = chimera("undo", "--step", "7")
    assert missing.code == 2
    assert "no step 7" in missing.err


@pytest.mark.usefixtures("run_id")
def test_the_last_run_is_the_last_one_of_this_workspace(
    repository: Path, chimera: Chimera, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    ended = chimera(
        "run", "x", "--workspace", str(other), "--model", script([MORE, {"text": "ok"}]), *UNCONFINED
    )
    assert ended.code == 0, ended.err
    (repository / "sub").mkdir()
    monkeypatch.chdir(repository / "sub")
    assert "calc.py" in chimera("undo").out
    assert (other / "new.py").exists()
    monkeypatch.chdir(tmp_path)
    nowhere = chimera("undo")
    assert (nowhere.code, "no run is recorded of" in nowhere.err) == (2, True)


@pytest.mark.usefixtures("run_id")
def test_a_workspace_in_use_is_exit_fourteen(repository: Path, chimera: Chimera) -> None:
    with workspace_lock(state_dir(), repository, "busy"):
        ended = chimera("undo", "--output-format", "json")
    assert ended.code == 14
    assert ended.result["error"]["type"] == "workspace_locked"


def test_the_help_states_the_exit_codes(chimera: Chimera) -> None:
    shown = " ".join(chimera("undo", "--help").out.split())
    assert "0 if everything was put back, 1 if something was left alone" in shown
