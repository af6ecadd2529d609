from pathlib import Path

import pytest

from chimera.core.messages import user
from chimera.core.model import Completion, Request
from chimera.errors import ConfigError, ContextOverflowError
from chimera.models import script_file
from chimera.models.script_file import load_script
from chimera.models.scripted import ScriptedModel


def play(model: ScriptedModel, prompt: str = "x") -> Completion:
    return model.complete(Request(messages=(user(prompt),), max_tokens=9), lambda _: None)


def written(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def test_the_documented_example_plays_as_documented(tmp_path: Path) -> None:
    documented = script_file.__doc__ or ""
    lines = [line[4:] for line in documented.splitlines() if line.startswith("    ")]
    model = load_script(written(tmp_path, "demo.yaml", "\n".join(lines)))
    assert model.name == f"scripted:{tmp_path / 'demo.yaml'}"
    assert model.window is not None
    assert model.window.tokens == 8000
    first = play(model)
    assert first.message.tool_calls[0].arguments == '{"path": "calc.py"}'
    second = play(model)
    assert [made.arguments for made in second.message.tool_calls] == [
        '{"command": "pytest -q"}',
        '{"command": ',
    ]
    assert second.message.tool_calls[1].id == "call_broken"
    assert second.usage is not None
    assert second.usage.input_tokens == 900
    assert play(model, "PORT=8123").message.content == "I remember the port."
    assert play(model).message.content == "I forgot the port."
    with pytest.raises(ContextOverflowError, match="too large") as caught:
        play(model)
    assert caught.value.limit == 4096
    assert [play(model).finish_reason for _ in range(3)] == ["length"] * 3


def test_lines_of_json_are_replies_behind_an_optional_head(tmp_path: Path) -> None:
    lines = '{"window": 4096}\n{"call": "shell", "arguments": {"command": "ls"}}\n\n{"text": "done"}\n'
    model = load_script(written(tmp_path, "script.jsonl", lines))
    assert model.window is not None
    assert model.window.tokens == 4096
    assert play(model).message.tool_calls[0].name == "shell"
    assert play(model).message.content == "done"


def test_a_script_without_window_leaves_it_unknown(tmp_path: Path) -> None:
    assert load_script(written(tmp_path, "s.jsonl", '{"text": "a"}')).window is None


def test_the_name_is_the_path_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, "s.jsonl", '{"text": "a"}')
    monkeypatch.chdir(tmp_path)
    assert load_script("./s.jsonl").name == "scripted:./s.jsonl"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        pytest.param("s.jsonl", '{"text": "a"}\n{oops\n', "line 2: not JSON", id="broken line"),
        pytest.param("s.jsonl", '{"text": "a"}\n{"txt": "b"}', "line 2: unknown key 'txt'; did you mean 'text'", id="unknown key"),
        pytest.param("s.jsonl", '["text"]', "line 1: .* is not a reply", id="not a mapping"),
        pytest.param("s.jsonl", "", "has no replies", id="empty"),
        pytest.param("s.jsonl", '{"window": 0}\n{"text": "a"}', "line 1: window is 0", id="window of zero"),
        pytest.param("s.jsonl", '{"window": 9, "text": "a"}', "line 1: unknown key 'text'", id="head with a reply"),
        pytest.param("s.jsonl", '{"when": "a"}', "neither text, call, calls nor error", id="only a condition"),
        pytest.param("s.jsonl", '{"text": 5}', "text is 5; it must be text", id="number as text"),
        pytest.param("s.jsonl", '{"error": "boom"}', "must be one of: overflow, tools, auth, throttle, server", id="unknown error"),
        pytest.param("s.jsonl", '{"text": "a", "limit": 5}', "limit belongs to `error`", id="limit without error"),
        pytest.param("s.jsonl", '{"text": "a", "arguments": {}}', "belong to `call`", id="arguments without call"),
        pytest.param("s.jsonl", '{"call": "a", "arguments": [1]}', "must be a mapping", id="arguments as list"),
        pytest.param("s.jsonl", '{"calls": [{"nam": "a"}]}', "unknown key 'nam'; did you mean 'name'", id="unknown key of a call"),
        pytest.param("s.jsonl", '{"calls": [{"arguments": {}}]}', "name of a call is None", id="call without name"),
        pytest.param("s.jsonl", '{"text": "a", "delay_s": -1}', "delay_s is -1", id="negative delay"),
        pytest.param("s.jsonl", '{"text": "a", "repeat": 0}', "repeat is 0", id="repeat of zero"),
        pytest.param("s.jsonl", '{"text": "a", "usage": {"input_token": 1}}', "unknown key 'input_token'; did you mean", id="unknown usage"),
        pytest.param("s.jsonl", '{"text": "a", "usage": {"input_tokens": "1"}}', "usage.input_tokens is '1'", id="usage as text"),
        pytest.param("s.jsonl", '{"text": "a", "finish_reason": "end"}', "finish_reason is 'end'", id="unknown finish reason"),
        pytest.param("s.yaml", "replies: [", "is not YAML", id="broken YAML"),
        pytest.param("s.yaml", "- text: a", "needs a list `replies`", id="YAML without replies"),
        pytest.param("s.yaml", "replies: [{text: a}]\nwindwo: 5", "did you mean 'window'", id="unknown key at the top"),
        pytest.param("s.yaml", "replies: [{text: a}, {call: b, arguments: {d: 2026-01-01}}]", "reply 2: .*not JSON", id="a date in YAML"),
    ],
)  # fmt: skip
def test_a_malformed_script_is_told_with_its_place(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load_script(written(tmp_path, name, content))


def test_a_missing_or_unreadable_script_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load_script(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_script(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"replies: [\xff]")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_script(tmp_path / "latin.yaml")
