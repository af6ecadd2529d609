"""Whole runs against a provider that refuses: what is asked, what it costs, what is left behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import chimera
from chimera.config import process_environment
from chimera.core.state import RunResult, StopReason
from tests.provider import Answer, LoopbackProvider, Said, Seen, ask, refuse, say


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(process_environment()):
        if name.startswith("CHIMERA_") or name.endswith(("_API_KEY", "_BASE_URL", "_API_BASE")):
            monkeypatch.delenv(name)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    (root / "a.py").write_text("x = 1\n")
    return root


def run(workspace: Path, **options: Any) -> RunResult:
    safety = {"mode": "yolo", "sandbox": "danger-full-access"}
    return chimera.run("count", workspace=workspace, state=workspace.parent / "state", **(safety | options))


def untouched(workspace: Path) -> bool:
    return [(path.name, path.read_text()) for path in workspace.iterdir()] == [("a.py", "x = 1\n")]


@pytest.mark.case("E5")
@pytest.mark.parametrize("key", [None, "", "  "])
def test_a_missing_key_is_found_before_any_step(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    if key is not None:
        monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    result = run(workspace, model="anthropic/claude-sonnet-4-5")
    assert (result.stop_reason, result.exit_code, result.steps) == (StopReason.AUTH_ERROR, 11, 0)
    assert "export ANTHROPIC_API_KEY=" in result.message
    assert untouched(workspace)


@pytest.mark.case("E5")
@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refused_key_or_model_ends_the_run_after_one_request(workspace: Path, status: int) -> None:
    with LoopbackProvider([refuse(status, "no such luck")]) as provider:
        result = run(workspace, model="openai/fake", api_base=provider.url)
        assert len(provider.seen) == 1
    assert (result.stop_reason, result.exit_code, result.answer) == (StopReason.AUTH_ERROR, 11, None)
    assert "no such luck" in result.message
    assert untouched(workspace)


@pytest.mark.case("E7")
def test_an_unknown_price_is_null_in_the_result_and_the_run_goes_on(workspace: Path) -> None:
    with LoopbackProvider([ask("shell", {"command": "true"}), say("done")]) as provider:
        result = run(workspace, model="openai/fake", api_base=provider.url)
    assert result.answer == "done"
    assert json.loads(json.dumps(result.fields()))["usage"]["cost_usd"] is None


@pytest.mark.case("E7")
def test_a_cost_limit_that_cannot_be_kept_is_said_before_the_first_request(workspace: Path) -> None:
    with LoopbackProvider([say("never")]) as provider:
        result = run(workspace, model="openai/fake", api_base=provider.url, max_cost=1.0)
        assert provider.seen == []
    assert (result.stop_reason, result.exit_code) == (StopReason.COST_LIMIT, 5)
    assert "price of 'openai/fake' is unknown" in result.message


@pytest.mark.case("E7")
def test_the_cost_of_a_run_is_the_sum_with_cached_tokens_at_their_rate(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    usage = {
        "prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020,
        "prompt_tokens_details": {"cached_tokens": 700},
    }  # fmt: skip
    with LoopbackProvider(
        [ask("shell", {"command": "true"}, usage=usage), say("done", usage=usage)]
    ) as provider:
        result = run(workspace, model="openai/gpt-4.1", api_base=provider.url, max_cost=1.0)
    assert result.usage is not None
    # gpt-4.1: 2, 8 and 0.50 dollars per million tokens.
    assert result.usage.cost_usd == pytest.approx(2 * (300 * 2 + 700 * 0.5 + 20 * 8) / 1e6)


@pytest.mark.case("E1")
@pytest.mark.parametrize(
    ("refusal", "window"),
    [
        (refuse(400, "This model's maximum context length is 8192 tokens. However, you requested 9000", code="context_length_exceeded"), 8192),
        (refuse(400, "This endpoint's maximum context length is 8192 tokens. However, you requested about 9000 tokens. Please reduce the length of either one"), 8192),
        (refuse(400, "prompt is too long: 9000 tokens > 8192 maximum"), 8192),
        (refuse(400, "The input token count (9000) exceeds the maximum number of tokens allowed (8192)."), 8192),
        (refuse(400, "Prompt contains 9000 tokens and 0 draft tokens, too large for model with 8192 maximum context length"), 8192),
        (refuse(400, "The length of all messages is too long"), None),
        (refuse(400, "This model's maximum context length is 8192 tokens. However, your prompt contains at least 8193 input tokens"), 8192),
        (refuse(413, ""), None),
    ],
    ids=["openai", "openrouter", "anthropic", "gemini", "mistral", "perplexity", "vllm", "bare 413"],
)  # fmt: skip
def test_a_refusal_for_size_is_one_compaction_and_one_more_request(
    workspace: Path, refusal: Answer, window: int | None
) -> None:
    refused: list[int] = []

    def script(seen: Seen, n: int) -> Answer:
        if n == 8:
            refused.append(len(seen.body["messages"]))
            return refusal
        if n < 10:
            return Said(
                calls=(("shell", json.dumps({"command": f"seq {n} 1 {n + 400}"})),),
                finish="tool_calls",
                usage=None,
            )
        return say("done", usage=None)

    with LoopbackProvider(script) as provider:
        result = run(workspace, model="openai/fake", api_base=provider.url, window=64_000)
        assert result.answer == "done"
        assert provider.faults == []
        assert len(provider.seen) == 11
        assert len(provider.seen[9].prompt) < len(provider.seen[8].prompt)
    assert refused
    assert result.context is not None
    assert result.context.window_source == "refusal"
    assert window is None or result.context.window == window


@pytest.mark.case("E1")
@pytest.mark.parametrize(
    "text", ["Invalid schema for function 'edit_file'", "too many tools, at most 4 are allowed"]
)
def test_another_refusal_is_a_plain_error_after_one_request(workspace: Path, text: str) -> None:
    with LoopbackProvider([refuse(400, text)]) as provider:
        result = run(workspace, model="openai/fake", api_base=provider.url)
        assert len(provider.seen) == 1
    assert (result.stop_reason, result.exit_code) == (StopReason.MODEL_ERROR, 10)
    assert text in result.message


@pytest.mark.case("E8")
def test_a_refused_parameter_costs_a_request_once_in_a_run_and_is_told_once(workspace: Path) -> None:
    def strict(seen: Seen, n: int) -> Answer:
        for name in ("max_tokens", "temperature", "parallel_tool_calls", "tool_choice"):
            if name in seen.body:
                return refuse(400, f"Unsupported parameter: '{name}' is not supported with this model.")
        return ask("shell", {"command": "true"}) if len(seen.messages) < 4 else say("done")

    told: list[str] = []
    with LoopbackProvider(strict) as provider:
        result = run(
            workspace,
            model="openai/fake",
            api_base=provider.url,
            model_options={"temperature": 0.2, "parallel_tool_calls": True, "tool_choice": "auto"},
            emit=lambda event: told.append(event.fields["text"]) if event.type == "warning" else None,
        )
        assert len(provider.seen) == 6
    assert result.answer == "done"
    for name in ("max_tokens", "temperature", "parallel_tool_calls", "tool_choice"):
        assert sum(f"take {name};" in text for text in told) == 1
