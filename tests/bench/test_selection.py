from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chimera.bench.agents import Chimera, NoOp, Oracle
from chimera.bench.cheat import Cheat
from chimera.bench.selection import Scripted, Selection, agent_of, checked_settings, settings_of
from chimera.bench.task import BenchTask
from chimera.config import Config
from chimera.errors import ConfigError

MakeTask = Callable[..., BenchTask]


@pytest.fixture
def tasks(make_task: MakeTask) -> list[BenchTask]:
    return [
        make_task(name=name, toml=f"[metadata.chimera]\ntags = ['{name[0]}']\n")
        for name in ("aa", "ab", "ba", "bb")
    ]


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        pytest.param(Selection(), ["aa", "ab", "ba", "bb"], id="all"),
        pytest.param(Selection(suites=["s*"]), ["aa", "ab", "ba", "bb"], id="suite"),
        pytest.param(Selection(tags=["a"]), ["aa", "ab"], id="tag"),
        pytest.param(Selection(exclude=["*b", "test/aa"]), ["ba"], id="exclude"),
        pytest.param(Selection(tags=["a", "b"], limit=3), ["aa", "ab", "ba"], id="limit"),
    ],
)
def test_tasks_are_chosen_in_order(tasks: list[BenchTask], selection: Selection, names: list[str]) -> None:
    assert [task.short_name for task in selection.of(tasks)] == names


def test_a_seed_shuffles_the_same_way_every_time(tasks: list[BenchTask]) -> None:
    orders = {seed: tuple(t.short_name for t in Selection(shuffle_seed=seed).of(tasks)) for seed in range(20)}
    assert orders == {
        seed: tuple(t.short_name for t in Selection(shuffle_seed=seed).of(tasks)) for seed in range(20)
    }
    assert len(set(orders.values())) > 5
    assert {tuple(sorted(order)) for order in orders.values()} == {("aa", "ab", "ba", "bb")}


def test_no_task_is_no_selection(tasks: list[BenchTask]) -> None:
    with pytest.raises(ConfigError, match="none of the 4 tasks is chosen; suites: suite; tags: a, b"):
        Selection(tags=["c"]).of(tasks)


def test_agents_are_known_by_name() -> None:
    config = Config(model="acme/large", window=8000)
    assert isinstance(agent_of("oracle", config, {}), Oracle)
    assert isinstance(agent_of("noop", config, {"window": None}), NoOp)
    assert isinstance(agent_of("cheat", config, {}), Cheat)
    ours = agent_of("chimera", config, {"model": "acme/large", "window": 8000})
    assert ours == Chimera(model_choice="acme/large", options={"window": 8000})
    scripted = agent_of("scripted:recall", config, {"window": 8000})
    assert scripted == Scripted(policy="recall", options={"window": 8000})
    assert (scripted.name, scripted.model) == ("scripted-recall", "scripted:recall")


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        pytest.param("nobody", {}, "there is no agent 'nobody'; known: chimera, oracle", id="unknown"),
        pytest.param("oracle", {"window": 8000}, "--window says nothing to --agent oracle", id="option"),
        pytest.param("scripted:gifted", {}, "no scripted agent 'gifted'; known: recall", id="policy"),
        pytest.param("scripted:recall", {"model": "x"}, "--model says nothing", id="model"),
        pytest.param("no_such_module:Agent", {}, "cannot be made: No module named", id="module"),
        pytest.param("json:Agent", {}, "cannot be made: module 'json' has no attribute", id="class"),
        pytest.param("pathlib:Path", {}, "'pathlib:Path' has no 'model'", id="no agent"),
    ],
)
def test_an_agent_that_cannot_be_is_told(name: str, options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as fault:
        agent_of(name, Config(), options)
    assert said in str(fault.value)


def test_an_agent_of_ones_own_is_found_by_its_import_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "our_agents_4711.py").write_text(
        "class Ours:\n    name, model = 'ours', None\n    def check(self, task): pass\n    def work(self, task, desk): pass\n"
    )
    monkeypatch.chdir(tmp_path)
    assert agent_of("our_agents_4711:Ours", Config(), {}).name == "ours"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("workspace", "/tmp", "every trial has a folder of its own"),
        ("sandbox", "danger-full-access", "use --isolation"),
        ("sandbox", "read-only", "use --isolation"),
        ("mode", "yolo", "it follows from --isolation"),
        ("max_seconds", 60, "use --timeout-multiplier"),
        ("allow_net", True, "use --network"),
        ("allow_net", False, "use --network"),
    ],
)
def test_what_a_row_says_of_its_trial_is_no_setting(name: str, value: object, said: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} cannot be set: .*{said}"):
        checked_settings({name: value})


def test_a_setting_that_is_none_is_told() -> None:
    with pytest.raises(ConfigError, match="unknown option 'compactoin'; did you mean 'compaction'"):
        checked_settings({"compactoin": "mask"})


def test_settings_count_wherever_they_come_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("keep_turns = 3\nmode = 'auto'\n")
    monkeypatch.setenv("CHIMERA_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("CHIMERA_COMPACTION", "mask")
    monkeypatch.setenv("CHIMERA_MODEL", "acme/large")
    settings = {"window": 8000, "max_steps": None, "model_options": {"api_key": "hush-hush-hush"}}
    found = settings_of(checked_settings(settings))
    assert found.pop("model_options") != settings["model_options"]
    assert found == {"keep_turns": 3, "compaction": "mask", "window": 8000}
