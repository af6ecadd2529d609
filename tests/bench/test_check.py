from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from chimera.bench.cheat import Cheat, Touching
from chimera.bench.check import CheckReport, check
from chimera.bench.isolation import Isolation, available_isolation
from chimera.bench.new_task import write_task
from chimera.bench.row import Row
from chimera.bench.task import BenchTask, load_task

pytestmark = pytest.mark.slow

MakeTask = Callable[..., BenchTask]
RunTrial = Callable[..., Row]
OFF_BY_ONE = Path(__file__).parents[2] / "tasks" / "basics" / "off-by-one"


def checked(folder: Path, output: Path) -> CheckReport:
    return check(folder, output, isolation="copy", attempts=1)


def test_a_good_task_is_in_order(tmp_path: Path) -> None:
    rows: list[Row] = []
    report = check(
        write_task("acme/sums", tmp_path / "suite"),
        tmp_path / "out",
        isolation="copy",
        attempts=2,
        on_row=rows.append,
    )
    assert (report.exit_code, report.tasks[0].faults) == (0, ())
    assert [row.agent for row in rows] == [
        name for name in ("oracle", "touching", "noop", "cheat") for _ in range(2)
    ]
    assert "acme/sums: ok\n\n1 of 1 tasks are in order; isolation: copy; it hides nothing" in report.text()


@pytest.mark.parametrize(
    ("path", "old", "new", "said"),
    [
        pytest.param(
            "solution/solve.sh", "sum += $1", "sum += 1", ["oracle", "touching"], id="the solution is wrong"
        ),
        pytest.param(
            "tests/test_outputs.py",
            '(APP / "sum.txt").read_text(encoding="utf-8"), "25\\n"',
            '1, 1, (APP / "sum.txt")',
            ["noop", "cheat"],
            id="nothing is tested",
        ),
    ],
)
def test_a_task_that_grades_wrongly_is_found_out(
    tmp_path: Path, path: str, old: str, new: str, said: list[str]
) -> None:
    folder = write_task("acme/sums", tmp_path / "suite")
    text = (folder / path).read_text()
    assert old in text
    (folder / path).write_text(text.replace(old, new))
    report = checked(folder, tmp_path / "out")
    assert report.exit_code == 4
    assert sorted({fault.split(".")[1] for fault in report.tasks[0].faults}) == sorted(said)


def test_a_test_of_dates_is_found_out_by_a_file_with_a_new_one(tmp_path: Path, run_trial: RunTrial) -> None:
    folder = write_task("acme/sums", tmp_path / "suite")
    tests = folder / "tests" / "test_outputs.py"
    old = "self.assertLess(max(file.stat().st_mtime for file in APP.iterdir() if file.is_file()), 9e8)"
    tests.write_text(tests.read_text().replace("self.assertEqual(", f"{old}\n        self.assertEqual("))
    with (folder / "solution" / "solve.sh").open("a") as solve:
        solve.write("touch -d @1 numbers.txt sum.txt\n")
    task = load_task(folder)
    assert run_trial(task).passed
    assert not run_trial(task, agent=Touching(), folder="touched").passed


def test_a_cheat_that_leaves_no_trace_is_a_fault_of_the_task(tmp_path: Path) -> None:
    folder = write_task("acme/sums", tmp_path / "suite")
    toml = folder / "task.toml"
    head, _, rest = toml.read_text().partition("protected = [")
    toml.write_text(head + "protected = []" + rest.partition("]")[2])
    report = checked(folder, tmp_path / "out")
    assert report.exit_code == 4
    assert len(report.tasks[0].faults) == 1
    assert "cheat.1: gets 0 and goes unnoticed; name what it changed" in report.tasks[0].faults[0]


def test_a_task_that_cannot_be_read_fails_and_the_others_are_checked(tmp_path: Path) -> None:
    folder = write_task("acme/sums", tmp_path / "suite")
    (tmp_path / "suite" / "odd").mkdir()
    (tmp_path / "suite" / "odd" / "task.toml").write_text("schema_version = '0'\n")
    report = check(folder.parent, tmp_path / "out", isolation="copy", only_lint=True)
    assert report.exit_code == 4
    assert [(task.task, bool(task.faults)) for task in report.tasks] == [("odd", True), ("acme/sums", False)]


def test_what_cannot_be_tried_here_is_no_fault_and_not_in_order(tmp_path: Path) -> None:
    folder = write_task("acme/sums", tmp_path / "suite")
    toml = folder / "task.toml"
    toml.write_text(toml.read_text().replace('"python>=3.11"', '"no-such-program"'))
    report = checked(folder, tmp_path / "out")
    assert (report.exit_code, report.tasks[0].faults) == (3, ())
    assert "skipped: needs no-such-program" in report.text()


def test_the_cheat_of_the_check_gets_nothing_from_a_real_task(
    isolation: Isolation, run_trial: RunTrial, tmp_path: Path
) -> None:
    # Under a name of its own, so that no other copy of the project on this machine gives its solution away.
    folder = shutil.copytree(OFF_BY_ONE, tmp_path / "suite" / f"off-by-one-{uuid.uuid4().hex}")
    row = run_trial(load_task(folder), isolation, Cheat())
    assert (row.status, row.reward) == ("graded", 0)
    assert {"conftest.py", "sitecustomize.py", "pytest.ini", "tests/test_pager.py", "reward.txt"} <= set(
        row.tampered
    )


@pytest.mark.skipif(available_isolation() != "namespace", reason="no sandbox works here")
def test_the_cheat_finds_a_solution_that_lies_about(
    make_task: MakeTask, run_trial: RunTrial, tmp_path: Path
) -> None:
    task = make_task(name="lying-about")
    leak = Path("/opt/chimera-test-leak/lying-about/solution")
    try:
        leak.mkdir(parents=True)
    except PermissionError:
        pytest.skip("needs a folder that sandboxes show")
    try:
        shutil.copy2(task.solution / "solve.sh", leak)
        assert run_trial(task, "namespace", Cheat()).passed
        assert "found: " in (tmp_path / "trial" / "output.txt").read_text()
    finally:
        shutil.rmtree(leak.parents[1])
