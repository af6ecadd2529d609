"""Every command and every program in README and documentation is run, with a scripted model where one is needed.

Blocks in `bash` and `python` are run line by line and as a whole; those marked `noexec` install something or start a
program that is not ours. Where a command costs seconds or needs a network, its arguments are parsed: tests of its own run it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from chimera.cli.entry import run_command_line
from chimera.config import load_config, process_environment
from chimera.models.choose import choose_model
from chimera.models.script_file import load_script
from tests.docs.blocks import NOT_RUN, PAGES, ROOT, Command, blocks, check_arguments, commands

PARSED = (("bench",), ("demo",), ("chat",), ("doctor",), ("local", "pull"))
"""Too slow here, on a terminal, or with a network; run by tests/bench, tests/cli and .ci/run."""
RUN_ID = "20261130"
"""Stands in the examples for a run that is there."""
ENDINGS = {"bash", "python", "text", "json", "toml", "yaml", "{toctree}", "{include}"}
SCRIPT = """\
window: 32000
replies:
  - {when: failing test, unless: Edited calc.py, call: edit_file, arguments: {path: calc.py, edits: [{old: a - b, new: a + b}]}}
  - text: It adds two numbers.
"""
ALL = [block for page in PAGES for block in blocks(page)]
RUN = [page for page in PAGES if any(b.page == page and b.language in {"bash", "python"} for b in ALL)]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with all that the examples speak of, and settings by which a scripted model is asked."""
    for name in process_environment():
        if name.startswith("CHIMERA_") or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    root, programs = tmp_path / "repository", tmp_path / "bin"
    for folder in (root / "your/repository", programs):
        folder.mkdir(parents=True)
    (programs / "pytest").write_text('#!/bin/sh\ngrep -q "a + b" calc.py\n', encoding="utf-8")
    (programs / "pytest").chmod(0o755)
    (tmp_path / "script.yaml").write_text(SCRIPT, encoding="utf-8")
    paths = {"/items": {"get": {"operationId": "list", "summary": "List items."}}}
    shop = {"openapi": "3.1.0", "servers": [{"url": "http://127.0.0.1:1"}], "paths": paths}
    for name, content in {
        "task.md": "Say what calc.py does.\n",
        "shop.json": json.dumps(shop),
        "model.gguf": "GGUF",
    }.items():
        (root / name).write_text(content, encoding="utf-8")
    (root / "shop.json").rename(tmp_path / "shop.json")
    server = {"command": sys.executable, "args": ["-S", str(ROOT / "tests/tools/mcp_program.py")]}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"docs": server}}), encoding="utf-8")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    for name, value in {
        "HOME": tmp_path,
        "PATH": f"{programs}:{process_environment()['PATH']}",
        "CHIMERA_STATE_DIR": tmp_path / "state",
        "CHIMERA_CONFIG_DIR": tmp_path / "config",
        "CHIMERA_MODEL": f"scripted:{tmp_path / 'script.yaml'}",
        "CHIMERA_MODE": "yolo",
        "CHIMERA_SANDBOX": "danger-full-access",
    }.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(root)
    return root


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run(
    page: Path, stage: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_unfinished()
    for block in (block for block in ALL if block.page == page and block.mark != NOT_RUN):
        monkeypatch.chdir(stage)
        if block.language == "python":
            exec(compile(block.text, block.where, "exec"), {})
        elif block.language == "bash":
            for number, command in enumerate(commands(block)):
                if number == 0 and command.words[1:2] in {("show",), ("resume",)}:
                    leave_unfinished()
                run_command(command, capsys, monkeypatch)


def run_command(
    command: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    where, words = command.block.where, list(command.words)
    with monkeypatch.context() as changed:
        for name, value in command.environment.items():
            changed.setenv(name, value)
        match words:
            case ["chimera", *arguments] if is_parsed(arguments):
                check_arguments(arguments)
            case ["chimera", *arguments]:
                capsys.readouterr()
                code = run_command_line(stand_in(arguments))
                told = capsys.readouterr()
                assert code == 0, f"{where}: {words} ended with {code}: {told.err}"
            case ["cd" | "export", *_]:
                pass
            case _:
                pytest.fail(f"{where}: {words} is no command of chimera; mark the block {NOT_RUN}")


def leave_unfinished() -> None:
    """A run that can be shown, undone, and taken up again."""
    Path("calc.py").write_text("def add(a, b):\n    return a - b\n", encoding="utf-8")
    assert run_command_line(["run", "Make the failing test pass", "--max-steps", "1"]) == 4


def is_parsed(arguments: list[str]) -> bool:
    return any(tuple(arguments[: len(words)]) == words for words in PARSED)


def stand_in(arguments: list[str]) -> list[str]:
    """The arguments with what is there: the scripted model for a named one, a real run, the home folder."""
    run_id = min(path.name for path in (Path(process_environment()["CHIMERA_STATE_DIR"]) / "runs").iterdir())
    home, model = process_environment()["HOME"], process_environment()["CHIMERA_MODEL"]
    words = []
    for before, word in zip(["", *arguments], arguments, strict=False):
        there = word.replace(RUN_ID, run_id)
        there = f"{home}{there[1:]}" if there.startswith("~/") else there
        words.append(model if before in {"--model", "-m"} else there)
    return words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_say_what_they_are_and_parse(page: Path, tmp_path: Path) -> None:
    for block in (block for block in ALL if block.page == page):
        assert block.language in ENDINGS, block.where
        path = tmp_path / f"file.{block.language}"
        path.write_text(block.text, encoding="utf-8")
        match block.language:
            case "json":
                json.loads(block.text)
            case "toml":
                load_config({}, environment={}, settings_file=path)
            case "yaml":
                load_script(path)
            case "bash" if block.mark == NOT_RUN:
                assert all(command.words[0] != "chimera" for command in commands(block)), block.where
            case _:
                assert not block.mark, f"{block.where}: what is {block.mark!r}?"


def test_the_models_that_examples_name_exist() -> None:
    """That is, chimera knows how to reach them."""
    named = {
        following
        for block in ALL
        if block.language == "bash"
        for command in commands(block)
        for word, following in zip(command.words, command.words[1:], strict=False)
        if word in {"--model", "-m"} and not following.startswith(("local:", "scripted:"))
    }
    assert named
    for name in named - {"NAME"}:
        config = load_config({"model": name, "api_base": "http://127.0.0.1:1/v1"}, environment={})
        choose_model(config, {}, servers=()).close()
