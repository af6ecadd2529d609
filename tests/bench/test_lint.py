from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chimera.bench.lint import lint
from chimera.bench.new_task import write_task
from chimera.bench.task import BenchTask, load_task
from chimera.errors import ConfigError

Change = Callable[[Path], None]


def written(path: str, text: str) -> Change:
    def change(folder: Path) -> None:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)

    return change


def replaced(path: str, old: str, new: str) -> Change:
    def change(folder: Path) -> None:
        text = (folder / path).read_text()
        assert old in text
        (folder / path).write_text(text.replace(old, new))

    return change


@pytest.fixture
def task(tmp_path: Path) -> BenchTask:
    return load_task(write_task("acme/sums", tmp_path / "suite"))


def canary(task: BenchTask) -> str:
    assert task.canary is not None
    return task.canary


def test_a_new_task_has_no_fault(task: BenchTask) -> None:
    assert lint(task) == ()
    assert (task.name, task.suite) == ("acme/sums", "suite")


def test_a_task_is_not_written_over_another(task: BenchTask) -> None:
    with pytest.raises(ConfigError, match="exists already"):
        write_task(task.name, task.folder.parent)


@pytest.mark.parametrize("name", ["sums", "Acme/Sums", "acme/..", "acme/"])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="is no name of a task"):
        write_task(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(
            replaced("task.toml", "must_fail_canary = true", "must_fail_canary = false"),
            "must_fail_canary is not true",
            id="no test that must fail",
        ),
        pytest.param(
            written("tests/more.py", "x = 1\n"), "tests/more.py: the canary of task.toml", id="canary"
        ),
        pytest.param(
            replaced("task.toml", "acme-canary ", "acme-"), "write NAME-canary and a UUID", id="odd canary"
        ),
        pytest.param(
            replaced("instruction.md", "sum.txt", "total.txt"),
            "test_outputs.py: reads 'sum.txt', which the instruction does not name",
            id="unnamed file",
        ),
        pytest.param(
            replaced("tests/test.sh", "reward=0", "cat $APP_DIR/out/log.txt; reward=0"),
            "test.sh: reads 'out/log.txt', which the instruction does not name",
            id="unnamed file in shell",
        ),
        pytest.param(
            replaced("tests/test.sh", "reward=0", "pip install pytest; reward=0"),
            "'pip install' fetches something while grading",
            id="fetches",
        ),
        pytest.param(
            replaced("environment/Dockerfile", "WORKDIR", "COPY tests/ /tests\nWORKDIR"),
            "'COPY tests/ /tests' shows hidden files",
            id="tests in the image",
        ),
        pytest.param(
            replaced("tests/Dockerfile", ":3.12.7-slim-bookworm", ""),
            "image 'python' is not pinned",
            id="image",
        ),
        pytest.param(
            lambda folder: (folder / "NOTES.md").unlink(), "NOTES.md: is missing", id="no notes for people"
        ),
        pytest.param(
            lambda folder: (folder / "solution/solve.sh").unlink(), "solve.sh: is missing", id="no solution"
        ),
        pytest.param(
            replaced("task.toml", "max_steps = 25", "min_compactions = 2"),
            "min_compactions says nothing without a window",
            id="compactions of what",
        ),
    ],
)
def test_a_fault_is_seen_without_running_anything(task: BenchTask, change: Change, said: str) -> None:
    change(task.folder)
    (fault,) = lint(load_task(task.folder))
    assert said in fault


@pytest.mark.parametrize(
    "place", ["instruction.md", "environment/workspace/deep/notes.md", "environment/Dockerfile"]
)
@pytest.mark.parametrize(
    ("hidden", "text"),
    [
        pytest.param("tests/test_more.py", "# {canary}\nWANTED = 'token-7f31c9'\n", id="text"),
        pytest.param("tests/test_more.py", "# {canary}\nWANTED = b'token-7f31c9\\n'\n", id="bytes"),
        pytest.param("tests/expected.json", '{{"all": [["token-7f31c9"]]}}', id="json"),
        pytest.param("solution/answer.txt", "{canary}\ntoken-7f31c9\n", id="lines of the solution"),
    ],
)
def test_an_expected_value_in_sight_is_seen(task: BenchTask, hidden: str, text: str, place: str) -> None:
    written(hidden, text.format(canary=canary(task)))(task.folder)
    assert lint(load_task(task.folder)) == ()
    shown = task.folder / place
    shown.parent.mkdir(exist_ok=True)
    shown.write_text((shown.read_text() if shown.exists() else "") + "\n# it is token-7f31c9, says he\n")
    (fault,) = lint(load_task(task.folder))
    assert fault.startswith(f"{hidden}: expects 'token-7f31c9', which {place} shows")
    replaced("task.toml", "max_steps", "expected_in_sight = true\nmax_steps")(task.folder)
    assert lint(load_task(task.folder)) == ()


@pytest.mark.parametrize("name", ["acme/sums", "a.b_c-d/e.f_g", "0/1"])
@pytest.mark.parametrize("suite", ["suite", 'a "quoted" one', "zwei\nZeilen", "naïve"])
def test_a_new_task_is_in_order_whatever_it_is_called(tmp_path: Path, name: str, suite: str) -> None:
    task = load_task(write_task(name, tmp_path / suite))
    assert lint(task) == ()
    assert (task.name, task.suite) == (name, suite)
    assert suite in task.tags
