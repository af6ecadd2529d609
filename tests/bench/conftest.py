from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from chimera.bench.agents import BenchAgent, Oracle
from chimera.bench.isolation import Isolation, available_isolation, hidden_folders
from chimera.bench.row import Row
from chimera.bench.task import BenchTask, load_task
from chimera.bench.trial import Keep, Trial

MakeTask = Callable[..., BenchTask]
RunTrial = Callable[..., Row]

TASKS = Path(__file__).parents[2] / "tasks"
_FILES = {
    "task.toml": 'schema_version = "1.4"\n[task]\nname = "test/mini"\n',
    "instruction.md": "Write 4 to answer.txt.\n",
    "environment/workspace/question.txt": "2 + 2\n",
    "solution/solve.sh": "echo 4 >answer.txt\n",
    "tests/test.sh": (
        'mkdir -p "$LOGS_DIR/verifier"\n'
        'if [ "$(cat "$APP_DIR/answer.txt")" = 4 ]; then echo 1; else echo 0; fi >"$LOGS_DIR/verifier/reward.txt"\n'
    ),
}


@pytest.fixture
def isolation() -> Isolation:
    """The best that works here."""
    return available_isolation()


@pytest.fixture
def make_task(tmp_path: Path) -> MakeTask:
    """Writes a small task; `files` replace or add to its files, None removes one, `toml` is added to task.toml."""

    def make(files: dict[str, str | None] | None = None, *, toml: str = "", name: str = "mini") -> BenchTask:
        folder = tmp_path / "suite" / name
        for path, content in {**_FILES, **(files or {})}.items():
            if content is not None:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(content)
        head = _FILES["task.toml"].replace("test/mini", f"test/{name}")
        # Bare keys have to come before the first table.
        (folder / "task.toml").write_text(toml + head if toml.startswith("artifacts") else head + toml)
        return load_task(folder)

    return make


@pytest.fixture
def copy_of(tmp_path: Path) -> Callable[[str, str], BenchTask]:
    """A real task whose solution is another script."""

    def copy(name: str, solve: str) -> BenchTask:
        folder = tmp_path / "copies" / name
        shutil.copytree(TASKS / "basics" / name, folder)
        (folder / "solution" / "solve.sh").write_text(solve)
        return load_task(folder)

    return copy


@pytest.fixture
def run_trial(tmp_path: Path) -> RunTrial:
    """Runs one trial of a task, with its logs in `tmp_path/trial`, and gives its row."""

    def run(
        task: BenchTask,
        isolation: Isolation = "copy",
        agent: BenchAgent | None = None,
        *,
        keep: Keep = "failed",
        folder: str = "trial",
        attempt: int = 1,
    ) -> Row:
        output = tmp_path / folder
        return Trial(
            task=task,
            agent=agent or Oracle(),
            attempt=attempt,
            isolation=isolation,
            folder=output,
            keep=keep,
            hidden=hidden_folders([task], output.parent / "results"),
        ).run()

    return run
