"""`search` with ripgrep and without: the same tree, the same answers."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from chimera.tools.base import Tool, ToolOutput, ToolSet
from chimera.tools.search import search_tool
from chimera.workspace.programs import find_program
from tests.tools.caller import Caller

RIPGREP = shutil.which("rg", path="/usr/bin:/bin:/usr/local/bin")


@pytest.fixture(
    params=[
        pytest.param(True, id="ripgrep", marks=pytest.mark.skipif(RIPGREP is None, reason="needs ripgrep")),
        pytest.param(False, id="python"),
    ]
)
def search(request: pytest.FixtureRequest, caller: Caller) -> Tool:
    return search_tool(caller.workspace, use_ripgrep=request.param)


def run(tool: Tool, **arguments: object) -> ToolOutput:
    return ToolSet([tool]).run("search", json.dumps(arguments))


@pytest.fixture
def tree(caller: Caller) -> Caller:
    for name, content in {
        ".gitignore": "node_modules/\n*.log\n!keep.log\n/build\n",
        ".github/ci.yml": "needle: 1\n",
        ".git/config": "needle\n",
        "a.py": "no\nneedle here\nNeedle\n",
        "a/z.py": "\tneedle tabs\r\nsecond needle\r\n",
        "a/.gitignore": "own.txt\n",
        "a/own.txt": "needle\n",
        "build/out.py": "needle\n",
        "src/build/in.py": "needle\n",
        "keep.log": "needle\n",
        "drop.log": "needle\n",
        "node_modules/x.js": "needle\n",
        "bin.dat": "needle\0needle\n",
        "-dash.txt": "needle\n",
        "sub/deep/f.txt": "needle (x)[0].*\n",
    }.items():
        caller.put(name, content)
    return caller


def test_matches_come_in_path_order_with_line_and_text(search: Tool, tree: Caller) -> None:
    output = run(search, pattern="needle")
    assert output.text.splitlines() == [
        "-dash.txt:1: needle",
        ".github/ci.yml:1: needle: 1",
        "a/z.py:1: \tneedle tabs",
        "a/z.py:2: second needle",
        "a.py:2: needle here",
        "keep.log:1: needle",
        "src/build/in.py:1: needle",
        "sub/deep/f.txt:1: needle (x)[0].*",
    ]
    assert output.digest == "searched 'needle': 8 matches in 7 files"


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        pytest.param({"glob": "*.py"}, ["a/z.py", "a.py", "src/build/in.py"], id="by ending"),
        pytest.param({"glob": "*.{py,yml}"}, [".github/ci.yml", "a/z.py", "a.py", "src/build/in.py"], id="braces"),
        pytest.param({"glob": "!*.py"}, ["-dash.txt", ".github/ci.yml", "keep.log", "sub/deep/f.txt"], id="exclusion"),
        pytest.param({"glob": "sub/**"}, ["sub/deep/f.txt"], id="below a folder"),
        pytest.param({"path": "sub", "glob": "deep/*.txt"}, ["sub/deep/f.txt"], id="glob below the path"),
        pytest.param({"path": "a"}, ["a/z.py"], id="folder"),
        pytest.param({"path": "a/own.txt"}, ["a/own.txt"], id="an ignored file by its path"),
        pytest.param({"path": "node_modules"}, ["node_modules/x.js"], id="an ignored folder by its path"),
        pytest.param({"path": "-dash.txt"}, ["-dash.txt"], id="a name like an option"),
        pytest.param({"path": "src"}, ["src/build/in.py"], id="an anchored rule does not reach further down"),
    ],
)  # fmt: skip
def test_path_and_glob_narrow_the_search(
    search: Tool, tree: Caller, arguments: dict[str, str], files: list[str]
) -> None:
    found = [line.split(":")[0] for line in run(search, pattern="needle", **arguments).text.splitlines()]
    assert list(dict.fromkeys(found)) == files
    listed = [line.rsplit(" (", 1)[0] for line in run(search, **arguments).text.splitlines()]
    assert set(files) <= set(listed)


def test_a_glob_alone_lists_files_with_sizes(search: Tool, tree: Caller) -> None:
    output = run(search, glob="*.py")
    assert output.text.splitlines() == ["a/z.py (29 bytes)", "a.py (22 bytes)", "src/build/in.py (7 bytes)"]
    assert output.digest == "listed files with glob '*.py': 3 files"
    assert run(search, glob="*.nothing").text.startswith("No files with glob '*.nothing'.")


def test_nothing_found_is_no_failure_and_names_what_was_left_out(search: Tool, tree: Caller) -> None:
    output = run(search, pattern="absent", path="a")
    assert output.ok
    assert (
        output.text
        == "No matches for 'absent' in a. Files that .gitignore names are found only if `path` names them."
    )


def test_at_most_two_hundred_matches_are_shown_and_the_rest_is_counted(search: Tool, caller: Caller) -> None:
    caller.put("a.txt", "x\n" * 300)
    caller.put("b.txt", "x\n")
    lines = run(search, pattern="x").text.splitlines()
    assert len(lines) == 201
    assert lines[-1] == "[301 matches in 2 files; the first 200 are shown. Narrow the search.]"


def test_a_long_line_is_shortened_around_the_match(search: Tool, caller: Caller) -> None:
    caller.put("min.js", "€" * 100_000 + "needle" + "y" * 100_000)
    text = run(search, pattern="needle").text
    assert len(text) < 300
    assert text.startswith("min.js:1: …€")
    assert "€needley" in text
    assert text.endswith("y…")


@pytest.mark.parametrize("pattern", ["f(x", "[a", "*x"])
def test_a_pattern_that_is_no_expression_says_how_to_escape(search: Tool, tree: Caller, pattern: str) -> None:
    output = run(search, pattern=pattern)
    assert not output.ok
    assert f"The pattern {pattern!r} is not a regular expression" in output.text
    assert "backslash" in output.text


@pytest.mark.skipif(RIPGREP is None, reason="needs ripgrep")
def test_a_glob_that_cannot_be_understood_is_told(tree: Caller) -> None:
    output = run(search_tool(tree.workspace), pattern="needle", glob="a[\x1b")
    assert not output.ok
    assert "The glob 'a[\\x1b' cannot be understood" in output.text
    assert "\x1b" not in output.text


def test_a_pattern_like_an_option_is_a_pattern(search: Tool, caller: Caller) -> None:
    caller.put("a.txt", "use --pre=sh\n")
    assert run(search, pattern="--pre=sh").text == "a.txt:1: use --pre=sh"


def test_an_end_anchor_works_in_a_file_with_crlf(search: Tool, tree: Caller) -> None:
    assert run(search, pattern="tabs$").text == "a/z.py:1: \tneedle tabs"


def test_links_and_paths_never_lead_out(search: Tool, caller: Caller) -> None:
    secret = caller.root.parent / "outside"
    secret.mkdir()
    (secret / "s.txt").write_text("top secret 5512\n")
    (caller.root / "file").symlink_to(secret / "s.txt")
    (caller.root / "dir").symlink_to(secret)
    (caller.root / "loop").symlink_to(".")
    assert run(search, pattern="5512").text.startswith("No matches")
    assert run(search).text.startswith("No files")
    for path in ("dir", "file", "../outside", str(secret), "missing", "a\0b"):
        output = run(search, pattern="5512", path=path)
        assert not output.ok
        assert "top secret" not in output.text


def test_odd_names_and_bytes_are_shown_as_text(search: Tool, caller: Caller) -> None:
    Path(os.fsdecode(os.fsencode(caller.root) + b"/caf\xe9.txt")).write_bytes(b"needle \xff \x1b[0m\n")
    output = run(search, pattern="needle")
    assert output.text == "caf\ufffd.txt:1: needle \ufffd \\x1b[0m"


def test_the_record_of_the_run_is_searched_by_its_path(search: Tool, caller: Caller) -> None:
    (caller.run_dir / "outputs" / "0001.txt").write_bytes(b"\x1b[31mneedle\x1b[0m\r\n")
    (caller.run_dir / "archive" / "01.md").write_text("needle\n")
    (caller.run_dir / "events.jsonl").write_text("needle\n")
    assert run(search, pattern="needle", path="@run/outputs").text == "@run/outputs/0001.txt:1: needle"
    assert run(search, pattern="needle", path="@run/archive/01.md").text == "@run/archive/01.md:1: needle"
    assert not run(search, pattern="needle", path="@run").ok
    assert run(search, pattern="needle").text.startswith("No matches")


def test_settings_of_ripgrep_have_no_effect(
    tree: Caller, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = tmp_path / "rgrc"
    settings.write_text("--pre=/bin/false\n--ignore-case\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(settings))
    assert "Needle" not in run(search_tool(tree.workspace), pattern="needle").text


def test_a_program_of_the_workspace_is_never_run(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = caller.put("bin/rg", "#!/bin/sh\ntouch PWNED\n")
    fake.chmod(0o755)
    caller.put("a.txt", "needle\n")
    monkeypatch.chdir(caller.root)
    monkeypatch.setenv("PATH", f".:bin:{caller.root}/bin")
    assert run(search_tool(caller.workspace), pattern="needle").text == "a.txt:1: needle"
    assert not (caller.root / "PWNED").exists()
    assert find_program("rg", f".:{caller.root}/bin", outside=caller.root) is None
