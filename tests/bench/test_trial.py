from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from chimera.bench import generators
from chimera.bench.agents import Chimera, Desk, NoOp, Oracle, Work
from chimera.bench.isolation import Isolation, available_isolation, hidden_folders
from chimera.bench.measures import Rework
from chimera.bench.row import Phase, Row
from chimera.bench.selection import Scripted
from chimera.bench.task import BenchTask, load_task
from chimera.bench.trajectory import PastStep, write_trajectory
from chimera.bench.trial import Trial
from chimera.core.messages import Usage
from chimera.core.state import RunResult, Stop, StopReason
from chimera.errors import ConfigError
from chimera.testing import Reply, ScriptedModel, call, error, text
from chimera.workspace.landlock import landlock_abi

pytestmark = pytest.mark.slow

MakeTask = Callable[..., BenchTask]
CopyOf = Callable[[str, str], BenchTask]
RunTrial = Callable[..., Row]

BASICS = Path(__file__).parents[2] / "tasks" / "basics"
TASKS = ["hello-file", "off-by-one"]
REPAIRS = [
    "s|return total // per_page + 1|return max(1, -(-total // per_page))|",
    "s|return item // per_page + 1|return (item - 1) // per_page + 1|",
    "s|first + per_page, total|first + per_page - 1, total|",
]


def repairing(repairs: list[str]) -> str:
    return "".join(f"sed -i -e '{repair}' pager.py\n" for repair in repairs)


@pytest.mark.parametrize("name", TASKS)
def test_the_oracle_passes(name: str, isolation: Isolation, run_trial: RunTrial) -> None:
    row = run_trial(load_task(BASICS / name), isolation)
    assert (row.status, row.reward, row.passed, row.tampered) == ("graded", 1, True, ())
    assert row.isolation == isolation
    assert set(row.seconds) == {"setup", "agent", "verify"}


@pytest.mark.parametrize("name", TASKS)
def test_the_oracle_passes_in_a_mere_copy(name: str, run_trial: RunTrial) -> None:
    row = run_trial(load_task(BASICS / name), "copy")
    assert (row.status, row.reward, row.isolation) == ("graded", 1, "copy")


@pytest.mark.parametrize("name", TASKS)
def test_nobody_passes_nothing(name: str, isolation: Isolation, run_trial: RunTrial) -> None:
    row = run_trial(load_task(BASICS / name), isolation, NoOp())
    assert (row.status, row.reward, row.passed, row.tampered) == ("graded", 0, False, ())


CHEAT = """
printf 'import unittest\\n' >tests/test_pager.py
printf 'def pytest_runtest_makereport(item, call): pass\\n' >conftest.py
printf 'import os\\nos._exit(0)\\n' | tee sitecustomize.py usercustomize.py unittest.py pytest.py >/dev/null
printf 'import os; os._exit(0)\\n' >cheat.pth
echo 1 >reward.txt
mkdir -p bin && printf '#!/bin/sh\\nexit 0\\n' | tee bin/pytest bin/python3 >/dev/null
chmod +x bin/pytest bin/python3
export PATH="$PWD/bin:$PATH" PYTHONPATH="$PWD"
for folder in "${LOGS_DIR:-/logs}/verifier" "$PWD/../logs/verifier"; do
    mkdir -p "$folder" && echo 1 >"$folder/reward.txt"
done 2>/dev/null
exit 0
"""


def test_a_cheat_gets_nothing_and_is_listed(
    copy_of: CopyOf, isolation: Isolation, run_trial: RunTrial
) -> None:
    row = run_trial(copy_of("off-by-one", CHEAT), isolation)
    assert (row.status, row.reward) == ("graded", 0)
    assert row.tampered == (
        "bin/pytest",
        "cheat.pth",
        "conftest.py",
        "pytest.py",
        "reward.txt",
        "sitecustomize.py",
        "tests/test_pager.py",
        "unittest.py",
        "usercustomize.py",
    )


@pytest.mark.parametrize(
    "planted",
    [
        pytest.param("import os; os._exit(0)", id="ends the process early"),
        pytest.param(
            "import unittest; unittest.TestCase.assertEqual = lambda *a: None", id="patches unittest"
        ),
        pytest.param(
            "class Any:\n    __eq__ = lambda *a: True\npage_count = lambda *a: Any()", id="equals all"
        ),
        pytest.param("import sys; sys.stdout.write('[1]'); sys.exit(0)", id="prints results"),
    ],
)
def test_a_module_that_plays_with_the_grader_does_not_pass(
    copy_of: CopyOf, run_trial: RunTrial, planted: str
) -> None:
    task = copy_of("off-by-one", f"cat >>pager.py <<'E'\n{planted}\nE\n")
    assert run_trial(task).reward == 0


LOOKS = """
import glob, os, pathlib
found = []
for place in [*glob.glob("/proc/*/cwd/*"), *glob.glob(f"{pathlib.Path(__file__).parents[1]}/*/*"), *glob.glob("/tests/*")]:
    try:
        found.append(pathlib.Path(place).read_bytes())
    except OSError:
        pass
def tried(use):
    try:
        use()
        return True
    except OSError:
        return False
logs = pathlib.Path(__file__).parents[1] / "logs" / "verifier"
report = {
    "tests": any(b"unittest" in text or b"cases" in text for text in found),
    "memory": tried(lambda: open(f"/proc/{os.getppid()}/mem", "rb+")),
    "reward": tried(lambda: (logs / "reward.json").write_text('{"reward": 1}')),
    "own": tried(lambda: pathlib.Path(__file__).with_name("note.txt").write_text("kept")),
}
raise SystemExit(f"seen: {report}")
"""


@pytest.mark.skipif(landlock_abi() == 0, reason="this kernel keeps nobody apart")
@pytest.mark.parametrize(
    ("name", "module"), [("off-by-one", "pager.py"), ("config-precedence", "settings.py")]
)
def test_a_module_that_looks_for_the_tests_while_they_run_finds_nothing(
    copy_of: CopyOf, isolation: Isolation, run_trial: RunTrial, tmp_path: Path, name: str, module: str
) -> None:
    task = copy_of(name, f"cat >{module} <<'E'\n{LOOKS}\nE\n")
    tests = task.tests / "test_outputs.py"
    tests.write_text(tests.read_text().replace("capture_output=True", "stdout=subprocess.PIPE"))
    row = run_trial(task, isolation)
    assert (row.status, row.reward) == ("graded", 0)
    said = (tmp_path / "trial" / "verifier" / "output.txt").read_text()
    assert "seen: {'tests': False, 'memory': False, 'reward': False, 'own': True}" in said


@pytest.mark.parametrize(
    ("name", "module", "planted"),
    [
        pytest.param("off-by-one", "pager.py", "while True: pass", id="never ends"),
        pytest.param(
            "off-by-one",
            "pager.py",
            "import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True)",
            id="leaves a process",
        ),
        pytest.param("config-precedence", "settings.py", "while True: pass", id="another never ends"),
        pytest.param(
            "config-precedence",
            "settings.py",
            "import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True)",
            id="another leaves a process",
        ),
    ],
)
def test_a_module_that_does_not_end_is_wrong_rather_than_without_a_grade(
    copy_of: CopyOf, isolation: Isolation, run_trial: RunTrial, name: str, module: str, planted: str
) -> None:
    task = copy_of(name, f"cat >>{module} <<'E'\n{planted}\nE\n")
    calls = task.tests / "test_outputs.py"
    calls.write_text(calls.read_text().replace("timeout=30", "timeout=1"))
    row = run_trial(replace(task, verifier_timeout_s=6.0), isolation)
    assert (row.status, row.reward) == ("graded", 0)


@pytest.mark.parametrize(
    "solve",
    [
        pytest.param(
            "printf '%s\\n' 'Manana 06:15: database read-only' 'Back at 07:40 - thanks!'", id="re-encoded"
        ),
        pytest.param(
            "printf '%s\\n%s' 'Mañana 06:15: database read-only' 'Back at 07:40 - thanks!'", id="no end"
        ),
        pytest.param(
            "printf '%s\\r\\n' 'Mañana 06:15: database read-only' 'Back at 07:40 - thanks!'", id="CRLF"
        ),
    ],
)
def test_a_nearly_right_file_is_wrong(copy_of: CopyOf, run_trial: RunTrial, solve: str) -> None:
    task = copy_of("hello-file", f"mkdir notices\n{solve} >notices/maintenance.txt\n")
    assert run_trial(task).reward == 0


@pytest.mark.parametrize("left_out", range(3))
def test_two_of_three_repairs_are_not_enough(copy_of: CopyOf, run_trial: RunTrial, left_out: int) -> None:
    solve = repairing([repair for n, repair in enumerate(REPAIRS) if n != left_out])
    assert run_trial(copy_of("off-by-one", solve)).reward == 0


def test_another_right_solution_passes(copy_of: CopyOf, run_trial: RunTrial) -> None:
    assert run_trial(copy_of("off-by-one", repairing(REPAIRS))).passed


@dataclass(frozen=True)
class Watched:
    """The oracle, telling where it worked."""

    trees: list[Path]
    name: str = "watched"
    model: str | None = None

    def check(self, task: BenchTask) -> None:
        pass

    def work(self, task: BenchTask, desk: Desk) -> Work:
        self.trees.append(desk.tree)
        return Oracle().work(task, desk)


LEAVES_A_WRITER = """
(while :; do echo 4 >>one.txt; sleep 0.02; done) >/dev/null 2>&1 &
setsid bash -c 'trap "" TERM HUP; while :; do echo 4 >>two.txt; sleep 0.02; done' >/dev/null 2>&1 &
until [ -s one.txt ] && [ -s two.txt ]; do sleep 0.02; done
"""


def test_whatever_the_agent_left_running_is_dead_before_grading(
    make_task: MakeTask, isolation: Isolation, tmp_path: Path
) -> None:
    task = make_task({"solution/solve.sh": LEAVES_A_WRITER})
    sizes: list[list[int]] = []
    trees: list[Path] = []

    def watch(trial: Trial, phase: Phase) -> None:
        if phase == "verify":
            sizes.append([trees[0].joinpath(name).stat().st_size for name in ("one.txt", "two.txt")])
            # A writer that is still there writes several times within this.
            time.sleep(0.2)
            sizes.append([trees[0].joinpath(name).stat().st_size for name in ("one.txt", "two.txt")])

    row = Trial(
        task=task,
        agent=Watched(trees),
        attempt=1,
        isolation=isolation,
        folder=tmp_path / "trial",
        notify=watch,
    ).run()
    assert row.status == "graded"
    assert sizes[0] == sizes[1]


def test_what_a_grader_leaves_running_is_ended(
    make_task: MakeTask, isolation: Isolation, run_trial: RunTrial
) -> None:
    mark = f"600.{secrets.randbelow(10**9):09}"
    grader = (
        'mkdir -p "$LOGS_DIR/verifier"\n'
        f"setsid bash -c 'trap \"\" TERM; sleep {mark}; exit' >/dev/null 2>&1 &\n"
        'sleep 0.1; echo 0 >"$LOGS_DIR/verifier/reward.txt"\n'
    )
    row = run_trial(make_task({"tests/test.sh": grader}), isolation)
    assert (row.status, row.reward) == ("graded", 0)
    assert [file for file in Path("/proc").glob("[0-9]*/cmdline") if mark in content(file)] == []


def content(file: Path) -> str:
    try:
        return file.read_bytes().decode(errors="replace")
    except OSError:
        return ""


def test_the_grader_gets_an_environment_built_from_nothing(
    make_task: MakeTask,
    isolation: Isolation,
    run_trial: RunTrial,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("PYTHONPATH", "PYTEST_ADDOPTS", "BASH_ENV", "SOME_API_KEY"):
        monkeypatch.setenv(name, "/nonexistent")
    grader = 'mkdir -p "$LOGS_DIR/verifier"; env; ls -A "$HOME"; echo 1 >"$LOGS_DIR/verifier/reward.txt"\n'
    run_trial(make_task({"tests/test.sh": grader}, toml='[verifier]\nenv = { EXTRA = "1" }\n'), isolation)
    said = (tmp_path / "trial" / "verifier" / "output.txt").read_text()
    names = {line.partition("=")[0] for line in said.splitlines()}
    assert names - {"_", "SHLVL", "PWD", "OLDPWD", "CHIMERA_MARK"} == {
        *("APP_DIR", "TESTS_DIR", "LOGS_DIR", "EXTRA", "HOME", "LANG", "LC_ALL", "PATH"),
        *("PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "TMPDIR", "TZ"),
    }
    assert "TZ=UTC\n" in said
    assert "PYTHONHASHSEED=0\n" in said
    assert "LC_ALL=C.UTF-8\n" in said


@pytest.mark.skipif(available_isolation() != "namespace", reason="no sandbox works here")
def test_the_hidden_tests_cannot_be_written_while_they_run(
    make_task: MakeTask, run_trial: RunTrial, tmp_path: Path
) -> None:
    grader = (
        'mkdir -p "$LOGS_DIR/verifier"; echo >>"$TESTS_DIR/test.sh" && echo written\n'
        'touch "$APP_DIR/beside"; echo 1 >"$LOGS_DIR/verifier/reward.txt"\n'
    )
    assert run_trial(make_task({"tests/test.sh": grader}), "namespace").passed
    said = (tmp_path / "trial" / "verifier" / "output.txt").read_text()
    assert "Read-only file system" in said
    assert "written" not in said


@pytest.mark.parametrize(
    ("grader", "said"),
    [
        pytest.param("exit 7", "test.sh (exit code 7) left no reward", id="no reward"),
        pytest.param("echo yes >$R", "left no reward from 0 to 1", id="no number"),
        pytest.param("echo 2 >$R", "left no reward from 0 to 1", id="too much"),
        pytest.param("echo nan >$R", "left no reward from 0 to 1", id="not a number"),
        pytest.param("echo 1 >$R.x; ln -s $R.x $R", "left no reward from 0 to 1", id="link"),
        pytest.param("echo 1 >$R; sleep 60", "did not end within 1 s", id="too slow"),
    ],
)
def test_a_grader_that_fails_gives_no_grade(
    make_task: MakeTask, run_trial: RunTrial, grader: str, said: str
) -> None:
    head = 'mkdir -p "$LOGS_DIR/verifier"; R="$LOGS_DIR/verifier/reward.txt"\n'
    row = run_trial(make_task({"tests/test.sh": head + grader}, toml="[verifier]\ntimeout_sec = 1\n"))
    assert (row.status, row.reward, row.passed) == ("verifier_error", None, False)
    assert row.error is not None
    assert said in row.error.message
    assert row.error.phase == "verify"


@pytest.mark.parametrize(
    ("grader", "said"),
    [
        pytest.param("echo passed >$C; echo 1 >$R", "reported as 'passed'", id="canary passed"),
        pytest.param("echo broken >$C; echo 0 >$R; exit 1", "reported as 'broken'", id="canary broken"),
        pytest.param("echo 1 >$R", "reported as 'missing'", id="no canary"),
        pytest.param(
            "echo failed >$C; echo 1 >$R; exit 1", "the reward is 1 and test.sh ended", id="forged reward"
        ),
        pytest.param("echo failed >$C; echo 0 >$R", "the reward is 0 and test.sh ended", id="forged exit"),
    ],
)
def test_a_canary_that_did_not_fail_or_a_disagreement_gives_no_grade(
    make_task: MakeTask, run_trial: RunTrial, grader: str, said: str
) -> None:
    head = 'V="$LOGS_DIR/verifier"; mkdir -p "$V"; R="$V/reward.txt"; C="$V/canary.txt"\n'
    toml = "[metadata.chimera]\nmust_fail_canary = true\n"
    row = run_trial(make_task({"tests/test.sh": head + grader}, toml=toml))
    assert (row.status, row.reward) == ("verifier_error", None)
    assert row.error is not None
    assert said in row.error.message


def test_half_a_reward_is_graded_and_not_passed(make_task: MakeTask, run_trial: RunTrial) -> None:
    grader = 'mkdir -p "$LOGS_DIR/verifier"; echo 0.5 >"$LOGS_DIR/verifier/reward.txt"\n'
    row = run_trial(make_task({"tests/test.sh": grader}))
    assert (row.status, row.reward, row.passed) == ("graded", 0.5, False)


@pytest.mark.parametrize("need", ["python>=9.1", "no-such-program-anywhere"])
def test_a_trial_is_skipped_where_a_need_is_not_met(
    make_task: MakeTask, run_trial: RunTrial, need: str
) -> None:
    row = run_trial(make_task(toml=f"[metadata.chimera]\nneeds = ['python>=3.11', 'bash', '{need}']\n"))
    assert (row.status, row.reward) == ("skipped", None)
    assert row.error is not None
    assert need.removeprefix("python>=") in row.error.message


def test_a_solution_that_breaks_is_an_error_of_the_agent(make_task: MakeTask, run_trial: RunTrial) -> None:
    row = run_trial(make_task({"solution/solve.sh": "exit 3\n"}))
    assert (row.status, row.reward, row.passed) == ("agent_error", 0, False)
    assert row.error is not None
    assert row.error.message == "solve.sh ended with exit code 3"


def test_a_solution_that_runs_out_of_time_is_graded(make_task: MakeTask, run_trial: RunTrial) -> None:
    task = make_task(
        {"solution/solve.sh": "echo 4 >answer.txt; sleep 60\n"}, toml="[agent]\ntimeout_sec = 0.5\n"
    )
    row = run_trial(task)
    assert (row.status, row.reward, row.stop_reason) == ("graded", 1, "time_limit")


@pytest.mark.parametrize(
    ("keep", "kept"),
    [("all", {"good", "bad"}), ("failed", {"bad"}), ("none", set())],
    ids=["all", "failed", "none"],
)
def test_working_trees_are_kept_as_asked(
    make_task: MakeTask, run_trial: RunTrial, tmp_path: Path, keep: str, kept: set[str]
) -> None:
    run_trial(make_task(), keep=keep, folder="good")
    run_trial(make_task({"solution/solve.sh": "echo 5 >answer.txt; mkfifo pipe\n"}), keep=keep, folder="bad")
    found = {name for name in ("good", "bad") if (tmp_path / name / "workspace" / "answer.txt").exists()}
    assert found == kept
    assert "+5\n" in (tmp_path / "bad" / "patch.diff").read_text()


def test_no_private_folder_is_left_behind(make_task: MakeTask, isolation: Isolation, tmp_path: Path) -> None:
    solve = "mkdir d; touch d/f; chmod 500 d; echo 4 >answer.txt\n"
    grader = 'mkdir -p "$LOGS_DIR/verifier"; echo "$APP_DIR"; echo 1 >"$LOGS_DIR/verifier/reward.txt"\n'
    task = make_task({"solution/solve.sh": solve, "tests/test.sh": grader})
    trees: list[Path] = []
    row = Trial(
        task=task, agent=Watched(trees), attempt=1, isolation=isolation, folder=tmp_path / "trial"
    ).run()
    assert row.passed
    graded = Path((tmp_path / "trial" / "verifier" / "output.txt").read_text().strip())
    assert graded.is_absolute()
    assert not graded.parent.exists()
    assert not trees[0].parent.exists()


def test_a_trial_finds_nothing_of_the_one_before(
    make_task: MakeTask, isolation: Isolation, run_trial: RunTrial, tmp_path: Path
) -> None:
    solve = (
        'ls -A "$HOME" "$TMPDIR" >seen.txt; ls ..  >>seen.txt; touch "$HOME/.hint" "$TMPDIR/hint" ../hint\n'
    )
    task = make_task({"solution/solve.sh": solve})
    seen = []
    for folder in ("first", "second"):
        run_trial(task, isolation, keep="all", folder=folder)
        seen.append((tmp_path / folder / "workspace" / "seen.txt").read_text())
    assert "hint" not in seen[1]
    assert len(seen[0].split()) == len(seen[1].split())


@pytest.mark.skipif(available_isolation() != "namespace", reason="no sandbox works here")
def test_an_agent_in_a_namespace_sees_neither_tests_nor_results(
    make_task: MakeTask, run_trial: RunTrial, tmp_path: Path
) -> None:
    task = make_task()
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "results.jsonl").write_text("{}\n")
    look = (
        f"cat {task.folder}/tests/test.sh {tmp_path}/results/results.jsonl {BASICS}/off-by-one/tests/test.sh"
    )
    model = ScriptedModel(
        [call("shell", command=f"{look}; git log --oneline | wc -l"), text("done")], window=32_000
    )
    hidden = (*hidden_folders([load_task(BASICS / "off-by-one")], tmp_path / "results"), task.folder)
    row = Trial(
        task=task,
        agent=Chimera(model_choice=model),
        attempt=1,
        isolation="namespace",
        folder=tmp_path / "trial",
        hidden=hidden,
    ).run()
    assert row.stop_reason == "answered"
    said = model.requests[-1].messages[-1].content
    assert said.count("No such file") == 3
    assert said.rstrip().endswith("\n1")


@pytest.mark.skipif(available_isolation() != "namespace", reason="no sandbox works here")
def test_an_agent_in_a_namespace_cannot_generate_the_tests_of_its_task(
    make_task: MakeTask, run_trial: RunTrial, tmp_path: Path
) -> None:
    search = (
        "python3 -m chimera.bench.generators made 1; cat made/*/*/solution/solve.sh"
        f"; cat {Path(generators.__file__).parent}/relay.py {Path(__file__)}"
    )
    row = run_trial(make_task({"solution/solve.sh": f"{search}; true\n"}), "namespace")
    assert row.status == "graded"
    said = (tmp_path / "trial" / "output.txt").read_text()
    assert said.count("No such file") == 3
    assert "No module named" in said


REPAIR: list[Reply] = [
    call("read_file", path="README.md"),
    call("read_file", path="pager.py"),
    call(
        "edit_file",
        path="pager.py",
        edits=[
            {"old": "total // per_page + 1", "new": "max(1, -(-total // per_page))"},
            {"old": "return item // per_page", "new": "return (item - 1) // per_page"},
            {"old": "first + per_page, total", "new": "first + per_page - 1, total"},
        ],
    ),
    call("shell", command="python3 -m unittest discover -s tests -t ."),
    Reply(
        text="Three places counted one too far.",
        usage=Usage(
            input_tokens=1000,
            cached_input_tokens=600,
            cache_write_tokens=100,
            output_tokens=50,
            reasoning_tokens=20,
            cost_usd=0.25,
        ),
    ),
]


def test_chimera_with_a_script_solves_a_task(
    isolation: Isolation, run_trial: RunTrial, tmp_path: Path
) -> None:
    agent = Chimera(model_choice=ScriptedModel(REPAIR, window=32_000))
    row = run_trial(load_task(BASICS / "off-by-one"), isolation, agent)
    assert (row.status, row.reward, row.stop_reason, row.steps) == ("graded", 1, "answered", 5)
    assert row.model == "scripted"
    assert row.context is not None
    assert (row.context.window, row.context.compactions) == (32_000, 0)
    assert 0 < row.context.floor < row.context.prompt_peak < row.context.prompt_sum
    assert row.run_dir is not None
    assert Path(row.run_dir).is_relative_to(tmp_path / "trial" / "state")
    assert (Path(row.run_dir) / "events.jsonl").exists()


def test_tokens_are_told_in_classes_that_do_not_overlap(run_trial: RunTrial, make_task: MakeTask) -> None:
    row = run_trial(make_task(), agent=Chimera(model_choice=ScriptedModel(REPAIR[-1:], window=32_000)))
    assert row.tokens is not None
    assert (row.tokens.in_uncached, row.tokens.cache_read, row.tokens.cache_write) == (300, 600, 100)
    assert (row.tokens.out, row.tokens.reasoning, row.tokens.total) == (30, 20, 1050)
    assert row.cost_usd == 0.25


def test_an_unknown_price_is_unknown_in_the_row(run_trial: RunTrial, make_task: MakeTask) -> None:
    row = run_trial(make_task(), agent=Chimera(model_choice=ScriptedModel([text("4")], window=32_000)))
    assert row.tokens is not None
    assert row.tokens.estimated
    assert row.cost_usd is None


def test_the_settings_of_the_agent_win_over_those_of_the_task(
    make_task: MakeTask, run_trial: RunTrial
) -> None:
    task = make_task(toml="[metadata.chimera]\nwindow = 20000\nmax_steps = 1\n")

    def look(**options: object) -> Row:
        model = ScriptedModel([call("shell", command="ls"), text("done")], window=32_000)
        return run_trial(
            task, agent=Chimera(model_choice=model, options=options), folder=f"trial-{len(options)}"
        )

    as_task, as_given = look(), look(window=24_000, max_steps=5)
    assert as_task.context is not None
    assert as_given.context is not None
    assert (as_task.context.window, as_task.stop_reason) == (20_000, "max_steps")
    assert (as_given.context.window, as_given.stop_reason) == (24_000, "answered")


def test_a_task_that_begins_in_the_middle_is_gone_on_with(make_task: MakeTask, run_trial: RunTrial) -> None:
    past = write_trajectory(
        "Write 4 to answer.txt.",
        [PastStep(name="shell", arguments={"command": "cat question.txt"}, output="exit 0\n2 + 2")],
    )
    task = make_task({"trajectory.json": past})
    model = ScriptedModel([call("shell", command="echo 4 >answer.txt"), text("done")], window=32_000)
    row = run_trial(task, agent=Chimera(model_choice=model))
    assert (row.reward, row.steps) == (1, 2)
    _, opening, asked, answered = model.requests[0].messages
    assert opening.content == task.instruction
    assert asked.tool_calls[0].arguments == '{"command": "cat question.txt"}'
    assert answered.content == "exit 0\n2 + 2"
    assert run_trial(task, folder="oracle").passed


def test_a_trajectory_that_cannot_be_gone_on_from_stops_chimera_before_anything_is_run(
    make_task: MakeTask,
) -> None:
    with pytest.raises(ConfigError, match=r"trajectory\.json: no ATIF trajectory"):
        Chimera().check(make_task({"trajectory.json": "{}"}))


def test_an_overfull_history_is_shrunk_before_the_first_request_of_a_trial(run_trial: RunTrial) -> None:
    task = load_task(BASICS.parent / "long" / "resume-overfull")
    row = run_trial(task, agent=Scripted(policy="rereader", options={}))
    assert row.passed
    assert row.context is not None
    assert row.invariants is not None
    assert row.rework is not None
    assert row.context.shrinkings[0].step == 1
    assert row.context.shrinkings[0].before > 4 * row.context.shrinkings[0].after
    assert row.invariants.requests == row.steps
    assert row.invariants.breaches == 0
    assert row.rework.tool_calls > 0


def test_a_row_tells_what_was_done_twice_and_how_many_lines_were_changed(
    make_task: MakeTask, run_trial: RunTrial, tmp_path: Path
) -> None:
    again = [call("read_file", path="question.txt"), call("read_file", path="question.txt")]
    changing = [call("shell", command="date +%N"), call("shell", command="date +%N")]
    model = ScriptedModel(
        [*again, *changing, call("write_file", path="answer.txt", content="4\n5\n"), text("done")],
        window=32_000,
    )
    row = run_trial(make_task(), agent=Chimera(model_choice=model))
    assert row.rework == Rework(tool_calls=5, repeated_calls=1, rereads_unchanged=1)
    assert (row.files_changed, row.lines_added, row.lines_removed) == (1, 2, 0)
    assert row.context is not None
    assert (row.context.prefix_breaks, row.context.shrinkings) == (0, ())
    log = [json.loads(line) for line in (tmp_path / "trial" / "requests.jsonl").read_text().splitlines()]
    assert [len(request["messages"]) for request in log] == [2, 4, 6, 8, 10, 12]
    assert all(
        late["messages"][: len(early["messages"])] == early["messages"] for early, late in pairwise(log)
    )
    assert Row.of_fields(json.loads(json.dumps(row.fields()))) == row


def test_what_an_agent_without_a_run_changed_is_counted_too(make_task: MakeTask, run_trial: RunTrial) -> None:
    row = run_trial(make_task())
    assert (row.files_changed, row.lines_added, row.lines_removed) == (1, 1, 0)
    assert (row.invariants, row.rework) == (None, None)


def test_stopping_at_a_limit_is_graded(make_task: MakeTask, run_trial: RunTrial) -> None:
    model = ScriptedModel([call("shell", command="echo 4 >answer.txt")], window=32_000)
    row = run_trial(make_task(), agent=Chimera(model_choice=model, options={"max_steps": 1}))
    assert (row.status, row.reward, row.stop_reason) == ("graded", 1, "max_steps")


@pytest.mark.parametrize(("kind", "stop"), [("auth", "auth_error"), ("server", "model_error")])
def test_a_fault_of_the_provider_is_no_grade(
    make_task: MakeTask, run_trial: RunTrial, kind: str, stop: str
) -> None:
    model = ScriptedModel([error(kind, "out of order")], window=32_000)  # type: ignore[arg-type]
    row = run_trial(make_task(), agent=Chimera(model_choice=model))
    assert (row.status, row.reward, row.stop_reason) == ("provider_error", None, stop)
    assert row.error is not None
    assert "out of order" in row.error.message


@dataclass(frozen=True)
class Ending:
    """An agent whose run ends in a given way."""

    reason: StopReason
    name: str = "ending"
    model: str | None = None

    def check(self, task: BenchTask) -> None:
        pass

    def work(self, task: BenchTask, desk: Desk) -> Work:
        result = RunResult.of_stop(Stop(self.reason, message="so it ended"))
        return Work(stop_reason=str(self.reason), run=result)


@pytest.mark.parametrize("reason", sorted(set(StopReason) - {StopReason.USAGE_ERROR}))
def test_every_end_of_a_run_is_graded_or_explained(
    make_task: MakeTask, run_trial: RunTrial, reason: StopReason
) -> None:
    row = run_trial(make_task(), agent=Ending(reason))
    if row.status == "graded":
        assert row.reward == 0
    else:
        assert row.status in {"provider_error", "agent_error", "infra_error", "interrupted"}
        assert row.error is not None
        assert row.error.message == "so it ended"


def test_settings_that_cannot_be_are_no_result(make_task: MakeTask, run_trial: RunTrial) -> None:
    with pytest.raises(ConfigError, match="so it ended"):
        run_trial(make_task(), agent=Ending(StopReason.USAGE_ERROR))
