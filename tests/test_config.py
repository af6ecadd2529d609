"""Where settings come from, and what is said about those that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimera.config import Config, Origin, load_config, load_settings, unknown_variables
from chimera.errors import ConfigError


def write(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_setting_comes_from_argument_environment_file_or_default_in_this_order(tmp_path: Path) -> None:
    path = write(tmp_path, 'model = "a/file"\nwindow = 1000\n\nmax-steps = 3\n')
    environment = {"CHIMERA_WINDOW": "2000", "CHIMERA_MODEL": "a/variable", "CHIMERA_KEEP_TURNS": ""}
    found = load_settings(
        {"model": "an/argument", "verify": None}, environment=environment, settings_file=path
    )
    assert (found.config.model, found.config.window, found.config.max_steps) == ("an/argument", 2000, 3)
    assert dict(found.origins) == {
        "model": Origin("argument"),
        "window": Origin("environment", "CHIMERA_WINDOW"),
        "max_steps": Origin("file", f"{path}:4"),
    }
    assert load_config({}, environment={}, settings_file=tmp_path / "none") == Config()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        pytest.param('mode = "ask"\nwindw = 5\n', 2, "did you mean 'window'?", id="misspelt"),
        pytest.param("# x\n\nmax_steps = 0\n", 3, "max_steps is 0; it must be a whole", id="out of range"),
        pytest.param('mode = "fast"\n', 1, "mode is 'fast'; it must be one of", id="no such choice"),
        pytest.param('allow_net = "no"\n', 1, "allow_net is 'no'; it must be true or false", id="no switch"),
        pytest.param('verify = ["pytest"]\n', 1, "it must be text", id="a list for text"),
        pytest.param("model = 5\n", 1, "model is 5; it must be text", id="a number for text"),
        pytest.param('trigger = "0.8"\n', 1, "it must be a number", id="text for a number"),
        pytest.param("max_cost = true\n", 1, "it must be a number", id="a switch for a number"),
        pytest.param('tools = "shell"\n', 1, "it must be a list of names", id="text for a list"),
        pytest.param("tools = [1]\n", 1, "it must be a list of names", id="numbers for names"),
        pytest.param("mcp = 7\n", 1, "it must be a path", id="a number for a path"),
        pytest.param('\nmodel_options = "x"\n', 2, "it must be a table", id="text for a table"),
        pytest.param('mode = "ask"\n[modell_options]\na = 1\n', 2, "'model_options'", id="a table misspelt"),
    ],
)
def test_a_fault_of_the_file_is_told_with_its_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as fault:
        load_config({}, environment={}, settings_file=path)
    assert words in str(fault.value)
    assert f"{path}:{line}" in str(fault.value)


def test_broken_toml_is_told_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, 'model = "x"\nwindow 5\n')
    with pytest.raises(ConfigError, match=r"config\.toml.*line 2"):
        load_config({}, environment={}, settings_file=path)


@pytest.mark.parametrize(
    ("name", "value"), [("CHIMERA_MAX_STEPS", "0"), ("CHIMERA_MODE", "fast"), ("CHIMERA_LEAN", "maybe")]
)
def test_a_fault_of_a_variable_names_it(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        load_config({}, environment={name: value}, settings_file=tmp_path / "none")


def test_a_switch_that_may_be_unset_is_read_from_the_environment(tmp_path: Path) -> None:
    found = load_config({}, environment={"CHIMERA_LEAN": "false"}, settings_file=tmp_path / "none")
    assert found.lean is False


def test_variables_that_set_nothing_are_found() -> None:
    environment = {"CHIMERA_MODEL": "m", "CHIMERA_STATE_DIR": "s", "CHIMERA_MODLE": "m", "HOME": "/"}
    assert unknown_variables(environment) == ["CHIMERA_MODLE"]
