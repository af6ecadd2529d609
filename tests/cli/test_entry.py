from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Annotated

import pytest
import typer

from chimera.cli.app import app
from chimera.cli.entry import run_command_line
from chimera.cli.examples import EXAMPLES
from chimera.cli.output import Output
from chimera.record.events import Event
from tests.cli.command import Chimera, Ended


def broken_app() -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None, add_completion=False)

    @app.command()
    def run(ctx: typer.Context, output_format: Annotated[str, typer.Option()] = "text") -> None:
        output: Output = ctx.obj
        output.observe(Event("run_started", {"run_id": "r1", "model": "m"}))
        output.observe(
            Event("run_finished", {"run_id": "r1", "run_dir": "/runs/r1", "steps": 3, "answer": "no"})
        )
        raise KeyError("a \x1b[31mbug")

    @app.command()
    def other() -> None:
        raise AssertionError

    return app


def ended(capsys: pytest.CaptureFixture[str], *arguments: str) -> Ended:
    code = run_command_line(arguments, broken_app())
    captured = capsys.readouterr()
    return Ended(code=code, out=captured.out, err=captured.err)


def test_a_bug_is_a_message_with_the_record_and_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    run = ended(capsys, "run", "--output-format=json")
    assert (run.code, run.result["stop_reason"], run.result["exit_code"]) == (1, "internal_error", 1)
    assert (run.result["run_id"], run.result["steps"], run.result["answer"]) == ("r1", 3, None)
    assert "KeyError" in run.result["error"]["message"]
    assert "/runs/r1" in run.err
    assert "Traceback" not in run.err
    assert "\x1b" not in run.err


def test_the_last_line_of_a_stream_is_the_result_of_a_bug_too(capsys: pytest.CaptureFixture[str]) -> None:
    run = ended(capsys, "run", "--output-format", "stream-json")
    assert [line["type"] for line in run.lines] == ["run_started", "run_finished", "result"]
    assert run.lines[-1]["stop_reason"] == "internal_error"


def test_a_traceback_is_for_those_who_ask(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHIMERA_DEBUG", "1")
    assert "Traceback (most recent call last)" in ended(capsys, "run").err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["floor", "--window", "x"], "'x'"),
        (["floor", "--tools", "rm"], "no tool named 'rm'"),
        (["show", "nope"], "no run is recorded"),
        (["completion", "tcsh"], "'bash', 'zsh', 'fish'"),
        (["runs", "--limit", "0"], "--limit"),
    ],
)
def test_other_commands_end_with_2_on_bad_arguments(
    chimera: Chimera, arguments: list[str], words: str
) -> None:
    run = chimera(*arguments)
    assert (run.code, run.out) == (2, "")
    assert words in run.err


@pytest.mark.parametrize(
    "arguments",
    [
        *(["show"], ["show", "nope"], ["resume"], ["replay", "nope"], ["diff"], ["undo"]),
        *(["bogus"], ["run"], ["run", "go", "--mode", "yolo"], ["run", "go", "--window", "0"]),
        *(["run", "go", "--model", "scripted:none"], ["run", "--file", "none"], ["floor", "--mcp", "none"]),
        *(["bench", "none"], ["bench", "report", "none"], ["local", "rm", "x"], ["completion", "tcsh"]),
    ],
    ids=" ".join,
)
def test_an_error_says_what_to_type_next(chimera: Chimera, repository: Path, arguments: list[str]) -> None:
    run = chimera(*arguments)
    assert (run.code, run.out) == (2, "")
    assert re.search(r"chimera (run|bench|local|runs|[\w-]* ?--help)", run.err.removeprefix("error: "))


def test_an_option_without_its_value_leads_to_the_help_of_its_command(chimera: Chimera) -> None:
    assert chimera("show", "--html").err.endswith("Try: chimera show --help\n")
    assert chimera("--nope").err.endswith("Try: chimera --help\n")


def test_an_error_of_another_command_is_one_object_where_json_was_asked_for(chimera: Chimera) -> None:
    run = chimera("show", "nope", "--output-format", "json")
    assert run.code == 2
    assert set(run.result) == {"exit_code", "error"}


def test_without_arguments_the_help_is_shown(chimera: Chimera) -> None:
    run = chimera()
    assert run.code == 2
    assert "chimera demo" in run.err


def test_run_has_a_help_for_every_option(chimera: Chimera) -> None:
    from chimera.config import FIELD_NAMES

    run = chimera("run", "--help")
    assert run.code == 0
    for name in FIELD_NAMES:
        assert f"--{name.replace('_', '-').removesuffix('s')}" in run.out
    for heading in ("Model:", "Context:", "Limits:", "Safety:", "Tools:", "Output:"):
        assert heading in run.out


def test_the_help_of_a_command_ends_with_examples_that_can_be_copied(chimera: Chimera) -> None:
    assert {"run", "resume", "show", "bench", "replay", "local", "chat"} <= EXAMPLES.keys()
    for command, examples in EXAMPLES.items():
        told = chimera(*command.split(), "--help").out
        assert told.endswith("Examples:\n" + "".join(f"  {line}\n" for line in examples)), command


@pytest.mark.parametrize("arguments", [[], ["run"], ["resume"], ["diff"], ["bench"], ["local"]])
def test_help_fits_a_narrow_terminal_but_for_names_and_examples(
    chimera: Chimera, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    help_text = chimera(*arguments, "--help").out
    wide = [line for line in help_text.splitlines() if len(line) > 39]
    assert all(line.startswith(("  --", "  chimera ")) for line in wide), wide
    assert " chimera " in help_text


def test_the_commands_are_listed_in_groups_and_each_once(chimera: Chimera) -> None:
    told = chimera("--help").out
    groups = re.findall(r"^(\w[\w ]*):\n((?:  .*\n)+)", told, re.MULTILINE)
    listed = [
        line.split()[0]
        for name, rows in groups
        if name not in {"Options", "Examples"}
        for line in rows.splitlines()
    ]
    assert [name for name, _ in groups][1:5] == ["Work", "Look back", "Measure", "Set up"]
    assert sorted(listed) == sorted({*listed})
    assert set(listed) == set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_one_of_its_shell_and_asks_the_program(chimera: Chimera, shell: str) -> None:
    run = chimera("completion", shell)
    assert run.code == 0
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=run.out, text=True, check=False).returncode == 0
    begins = {"bash": "_chimera_completion() {", "zsh": "#compdef chimera", "fish": "complete "}
    assert run.out.startswith(begins[shell])
    assert f"complete_{shell}" in run.out
    assert "_CHIMERA_COMPLETE" in run.out


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("chimera sch", {"schema-bench"}),
        ("chimera run --compac", {"--compaction", "--compact-schemas"}),
        ("chimera run --compaction m", {"mask"}),
        ("chimera bench rep", {"report"}),
        ("chimera bench --swe", {"--sweep"}),
        ("chimera bench tasks --swe", {"--sweep"}),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_options_and_choices_are_completed(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    shell: str,
    typed: str,
    offered: set[str],
) -> None:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    args = {"_TYPER_COMPLETE_ARGS": typed, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    for name, value in {"_CHIMERA_COMPLETE": f"complete_{shell}", **words, **args}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        run_command_line([])
    told = capsys.readouterr().out
    found = set(re.findall(r"[\w-]+", told.partition("_arguments '*: :((")[2] or told))
    assert offered <= found
    assert not {"demo", "--window"} & found
