from __future__ import annotations

from pathlib import Path

import pytest

from chimera.config import FIELD_NAMES
from chimera.core.context_budget import (
    DEFAULT_BUDGET_FRACTION,
    DEFAULT_KEEP_TURNS,
    DEFAULT_TRIGGER_FRACTION,
)
from tests.cli.command import Chimera


@pytest.fixture
def settings_file(tmp_path: Path) -> Path:
    path = tmp_path / "config/config.toml"
    path.parent.mkdir()
    path.write_text('window = 9000\n[model_options]\napi_key = "sk-in-the-file-1234"\n', encoding="utf-8")
    return path


def test_config_shows_every_setting_with_its_value_and_source(
    chimera: Chimera, settings_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHIMERA_MAX_STEPS", "7")
    monkeypatch.setenv("CHIMERA_MODLE", "x")
    run = chimera("config", "-m", "a/b", "--no-net", "--output-format", "json")
    assert run.code == 0
    rows = {row["name"]: (row["value"], row["source"], row["where"]) for row in run.result["settings"]}
    assert tuple(rows) == FIELD_NAMES
    assert rows["model"] == ("a/b", "argument", "")
    assert rows["allow_net"] == (False, "argument", "")
    assert rows["max_steps"] == (7, "environment", "CHIMERA_MAX_STEPS")
    assert rows["window"] == (9000, "file", f"{settings_file}:1")
    assert rows["compaction"] == ("note", "default", "")
    assert (run.result["file"], run.result["file_exists"]) == (str(settings_file), True)
    assert run.result["state_dir"] == str(tmp_path / "state")
    assert run.result["unknown_variables"] == ["CHIMERA_MODLE"]

    text = chimera("config", "-m", "a/b")
    assert f"file {settings_file}:1" in text.out
    assert "max_steps           7  (environment CHIMERA_MAX_STEPS)" in text.out
    assert "CHIMERA_MODLE is set, but there is no such setting" in text.out


def test_config_shows_no_secret(
    chimera: Chimera, settings_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, password = "gsk_" + "9fQ2xLr7Zt0bVw3KpYd8", "hidden12345"
    monkeypatch.setenv("GROQ_API_KEY", key)
    given = ("--api-base", f"http://me:{password}@host/v1", "--verify", f"check {key}")
    for arguments in ((), ("--output-format", "json")):
        run = chimera("config", *given, *arguments)
        assert run.code == 0
        for secret in ("sk-in-the-file", password, "9fQ2xLr7"):
            assert secret not in run.out + run.err
        assert "host/v1" in run.out


def test_config_says_where_the_file_would_be(chimera: Chimera, tmp_path: Path) -> None:
    assert f"{tmp_path / 'config/config.toml'} (not there)" in chimera("config").out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--windw", "5"], "No such option: --windw"),
        (["extra"], "'extra' is no option"),
        (["--window", "0"], "window is 0; it must be a whole number"),
    ],
)
def test_config_refuses_what_run_refuses(chimera: Chimera, arguments: list[str], words: str) -> None:
    run = chimera("config", *arguments)
    assert (run.code, run.out) == (2, "")
    assert words in run.err


def test_a_fault_of_the_file_is_told_by_config_and_run_alike(chimera: Chimera, settings_file: Path) -> None:
    settings_file.write_text('mode = "ask"\nwindow = "much"\n', encoding="utf-8")
    for arguments in (("config",), ("run", "go")):
        run = chimera(*arguments)
        assert run.code == 2
        assert (
            f"window is 'much'; it must be a whole number, 1 or more and at most 1,000,000,000 ({settings_file}:2)"
            in run.err
        )


def test_the_defaults_that_config_tells_are_those_of_a_run(chimera: Chimera) -> None:
    told = chimera("config").out
    for name, value in (
        ("budget_fraction", DEFAULT_BUDGET_FRACTION),
        ("trigger", DEFAULT_TRIGGER_FRACTION),
        ("keep_turns", DEFAULT_KEEP_TURNS),
    ):
        assert f"{name:<20}{value}  (default)" in told
