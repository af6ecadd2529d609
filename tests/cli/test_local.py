"""`chimera local` in the terminal."""

from __future__ import annotations

from pathlib import Path

from tests.cli.command import Chimera


def test_a_model_file_gets_a_name_is_listed_and_forgotten(chimera: Chimera, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF")
    assert "chimera run --model local:tiny TASK" in chimera("local", "add", str(path)).out
    assert f"tiny  {path}" in chimera("local", "list").out
    named = chimera("local", "add", str(path), "--name", "two words").out
    assert "--model 'local:two words' TASK" in named
    assert chimera("local", "rm", "two words").code == 0
    path.unlink()
    listed = chimera("local", "list", "--output-format", "json").result
    assert listed["models"] == [{"name": "tiny", "path": str(path), "exists": False}]
    assert {known["licence"] for known in listed["known"]} == {"Apache-2.0"}
    assert chimera("local", "rm", "tiny").code == 0
    assert "No model was added yet" in chimera("local", "list").out


def test_wrong_calls_are_told_what_to_type(chimera: Chimera, tmp_path: Path) -> None:
    (tmp_path / "not.gguf").write_bytes(b"PK")
    for arguments, said in (
        (["add", str(tmp_path / "not.gguf")], "is no GGUF file"),
        (["rm", "nothing"], "chimera local add PATH.gguf"),
        (["pull", "nothing"], "is not one of: qwen2.5-coder-1.5b"),
    ):
        ended = chimera("local", *arguments)
        assert (ended.code, said in ended.err) == (2, True), ended.err
