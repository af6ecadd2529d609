"""Rules about the code base itself that no linter knows."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import chimera
from chimera import testing
from chimera.core.state import StopReason

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "chimera").rglob("*.py"))
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_has_at_most_400_lines_and_says_what_it_is(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 400
    assert ast.get_docstring(ast.parse(source))


def test_the_loop_fits_on_one_screen() -> None:
    tree = ast.parse((ROOT / "chimera/core/agent.py").read_text(encoding="utf-8"))
    sizes = {
        node.name: node.end_lineno - node.lineno + 1
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.end_lineno
    }
    assert sizes["run"] + sizes["step"] <= 50


def swallows_everything(node: ast.AST) -> bool:
    if not isinstance(node, ast.ExceptHandler):
        return False
    broad = node.type is None or (
        isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"}
    )
    cleans_up = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
    return broad and not cleans_up


def test_everything_is_caught_only_around_a_trial_and_in_the_last_line_of_the_command_line() -> None:
    broad = {
        str(path.relative_to(ROOT))
        for path in MODULES
        if any(map(swallows_everything, ast.walk(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert broad == {"chimera/bench/trial.py", "chimera/cli/entry.py"}


@pytest.mark.parametrize("module", [chimera, testing], ids=lambda module: module.__name__)
def test_every_exported_name_exists(module: object) -> None:
    for name in module.__all__:  # type: ignore[attr-defined]
        assert getattr(module, name) is not None


def test_importing_chimera_loads_nothing_heavy() -> None:
    heavy = {"litellm", "openai", "git", "tiktoken", "rich", "pydantic", "asyncio", "httpx", "typer"}
    program = f"import sys, chimera; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


def test_the_readme_lists_every_stop_reason_with_its_exit_code() -> None:
    rows = dict(re.findall(r"^\| (\d+)(?:, 143)? \| `(\w+)` \|", README, re.MULTILINE))
    assert rows == {str(reason.exit_code): str(reason) for reason in StopReason}


def test_ci_calls_the_test_command_of_the_readme() -> None:
    (command,) = re.findall(r"^python3 -m venv .*pytest.*$", README, re.MULTILINE)
    assert command in (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()


def test_changelog_and_version_agree() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[(\d[^\]]*)\]", changelog, re.MULTILINE)[0] == chimera.__version__


def test_the_python_example_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "calc.py").write_text("def add(a, b):\n    return a + b\n")
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("CHIMERA_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("CHIMERA_SANDBOX", "danger-full-access")
    names: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), names)
    result = names["result"]
    assert isinstance(result, chimera.RunResult)
    assert (result.stop_reason, result.answer) == ("answered", "It adds two numbers.")
