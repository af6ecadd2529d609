from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from chimera.bench.task import BenchTask, discover, load_task
from chimera.errors import ConfigError

TASKS = Path(__file__).parents[2] / "tasks"
MakeTask = Callable[..., BenchTask]


def test_the_tasks_of_the_project_are_found_and_valid() -> None:
    found = [(task.suite, task.name) for task in discover(TASKS)]
    assert {("basics", "chimera/hello-file"), ("basics", "chimera/off-by-one")} <= set(found)
    assert len({name for _, name in found}) == len(found)


def test_a_task_a_suite_and_a_folder_of_suites_are_all_found() -> None:
    suite = TASKS / "basics"
    assert discover(suite) == tuple(task for task in discover(TASKS) if task.suite == "basics")
    assert discover(suite / "off-by-one") == (load_task(suite / "off-by-one"),)


def test_the_tasks_of_the_project_ask_for_nothing_but_python() -> None:
    for task in discover(TASKS):
        assert [need.program for need in task.needs] == ["python"]
        assert task.must_fail_canary
        assert "reward.txt" in task.protected


def test_a_task_can_be_chosen_by_what_it_says_of_itself(make_task: MakeTask) -> None:
    task = make_task(
        toml="[metadata]\ndifficulty = 'hard'\ncategory = 'long'\n[metadata.chimera]\ntags = ['rules', 'long']\n"
    )
    assert task.tags == ("long", "hard", "rules")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("hello-file", [b"06:15", b"07:40", b"Ma\xc3\xb1ana"]),
        ("off-by-one", [b"items 13-24", b"13 of 13", b"of 36", b"10**17", b"1_000_000"]),
    ],
)
def test_what_is_expected_cannot_be_found_in_the_workspace(name: str, values: list[bytes]) -> None:
    task = load_task(TASKS / "basics" / name)
    given = b"".join(path.read_bytes() for path in task.workspace.rglob("*") if path.is_file())
    assert [value for value in values if value in given] == []


@pytest.mark.parametrize("name", ["test.sh", "keep_apart.py"])
def test_a_file_that_the_hidden_tests_share_is_the_same_in_every_task(name: str) -> None:
    files = [file for task in discover(TASKS) if (file := task.tests / name).is_file()]
    assert len(files) > 1
    assert len({file.read_text() for file in files}) == 1


def test_a_task_says_what_it_does_not_say_by_defaults(make_task: MakeTask) -> None:
    task = make_task()
    assert (task.window, task.max_steps, task.protected, task.needs) == (None, None, (), ())
    assert (task.agent_timeout_s, task.verifier_timeout_s, task.must_fail_canary) == (600, 600, False)
    assert [(str(a.path), a.exclude) for a in task.artifacts] == [(".", ())]


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        pytest.param(
            "[metadata.chimera]\nwindow = 0\n", "metadata.chimera.window is 0; it must be a whole", id="zero"
        ),
        pytest.param(
            "[metadata.chimera]\nmax_steps = true\n", "max_steps is True; it must be a whole", id="bool"
        ),
        pytest.param(
            "[metadata.chimera]\nneeds = 'git'\n", "needs is 'git'; it must be a list of texts", id="text"
        ),
        pytest.param(
            "[metadata.chimera]\nneeds = ['git>=2']\n", "needs holds 'git>=2'; write the name", id="need"
        ),
        pytest.param(
            "[metadata.chimera]\nprotect = []\n", "protect is unknown; did you mean 'protected'?", id="typo"
        ),
        pytest.param(
            "[metadata.chimera]\nmust_fail_canary = 1\n", "must_fail_canary is 1; it must be true", id="flag"
        ),
        pytest.param(
            "[agent]\ntimeout_sec = -1\n", "agent.timeout_sec is -1; it must be a number above 0", id="time"
        ),
        pytest.param(
            "[agent]\ntimeout = 5\n", "agent.timeout is unknown; did you mean 'timeout_sec'?", id="agent"
        ),
        pytest.param(
            "[verifier]\nenv = { A = 1 }\n", "verifier.env is {'A': 1}; it must be a table of texts", id="env"
        ),
        pytest.param(
            "[environment]\nnetwork_mode = 'public'\n", "environment.network_mode is 'public'", id="network"
        ),
        pytest.param(
            "[environment]\ndocker_image = 'x'\n", "environment.docker_image is part of the task", id="image"
        ),
        pytest.param(
            "[[steps]]\nname = 'one'\n", "steps is part of the task format, but not of what", id="steps"
        ),
        pytest.param(
            "artifacts = ['/etc']\n",
            "artifacts[0].source is '/etc'; it must lie in the workdir",
            id="outside",
        ),
        pytest.param("artifacts = ['/app/../etc']\n", "artifacts[0].source is '/app/../etc'", id="dots"),
        pytest.param("artifacts = [{ exclude = [] }]\n", "artifacts[0].source is missing", id="source"),
        pytest.param("artifacts = 5\n", "artifacts is 5; it must be a list", id="artifacts"),
        pytest.param("agent = 3\n", "agent", id="no table"),
    ],
)
def test_a_bad_value_is_named_with_its_file(make_task: MakeTask, toml: str, said: str) -> None:
    with pytest.raises(ConfigError) as fault:
        make_task(toml=toml)
    assert "suite/mini/task.toml: " in str(fault.value)
    assert said in str(fault.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param("x = [", "task.toml: not TOML", id="no TOML"),
        pytest.param(
            'schema_version = "1.9"\n', "schema_version is '1.9'; it must be one of: 1.4", id="other"
        ),
        pytest.param("", "schema_version is None; it must be one of: 1.4", id="empty"),
        pytest.param('schema_version = "1.4"\n', "task.name is missing", id="nameless"),
        pytest.param('schema_version = "1.4"\ntask = 3\n', "task is 3; it must be a table", id="no table"),
        pytest.param(
            'schema_version = "1.4"\ntask.name = "mini"\n', "is 'mini'; it must be ORG/NAME", id="org"
        ),
        pytest.param(
            'schema_version = "1.4"\ntask.name = "a/.."\n', "is 'a/..'; it must be ORG/NAME", id="dots"
        ),
    ],
)
def test_a_bad_file_is_named(make_task: MakeTask, content: str, said: str) -> None:
    folder = make_task().folder
    (folder / "task.toml").write_text(content)
    with pytest.raises(ConfigError) as fault:
        load_task(folder)
    assert str(folder / "task.toml") in str(fault.value)
    assert said in str(fault.value)


@pytest.mark.parametrize("missing", ["instruction.md", "environment/workspace", "tests/test.sh", "task.toml"])
def test_a_missing_part_is_named(make_task: MakeTask, missing: str) -> None:
    folder = make_task().folder
    part = folder / missing
    shutil.rmtree(part) if part.is_dir() else part.unlink()
    with pytest.raises(ConfigError, match=Path(missing).name):
        load_task(folder)


def test_an_instruction_must_say_something(make_task: MakeTask) -> None:
    folder = make_task().folder
    (folder / "instruction.md").write_text(" \n")
    with pytest.raises(ConfigError, match=r"instruction\.md: is empty"):
        load_task(folder)


def test_a_folder_that_only_looks_like_a_task_is_not_passed_over(make_task: MakeTask) -> None:
    suite = make_task().folder.parent
    (suite / "other").mkdir()
    (suite / "other" / "instruction.md").write_text("Do it.\n")
    with pytest.raises(ConfigError, match=r"other: has an instruction\.md but no task\.toml"):
        discover(suite)


def test_two_tasks_of_the_same_name_are_refused(make_task: MakeTask, tmp_path: Path) -> None:
    folder = make_task().folder
    shutil.copytree(folder, tmp_path / "more" / "mini")
    with pytest.raises(ConfigError, match="rename one"):
        discover(tmp_path)


@pytest.mark.parametrize("place", ["", "nowhere", "empty"])
def test_a_path_without_tasks_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"no task in|not a folder"):
        discover(tmp_path / place)


def test_the_digest_changes_with_every_file_and_not_with_what_python_leaves(make_task: MakeTask) -> None:
    folder = make_task().folder
    first = load_task(folder).digest
    (folder / "tests" / "__pycache__").mkdir()
    (folder / "tests" / "__pycache__" / "x.pyc").write_bytes(b"1")
    assert load_task(folder).digest == first
    (folder / "tests" / "test.sh").chmod(0o755)
    executable = load_task(folder).digest
    assert executable != first
    (folder / "tests" / "more.txt").write_text("")
    assert load_task(folder).digest not in {first, executable}
