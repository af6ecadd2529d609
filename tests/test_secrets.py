"""A secret that comes into a run by any way leaves by none: not to the model, the record, the listener or the caller."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import chimera
from chimera.api import resume
from chimera.bench.isolation import clean_environment
from chimera.config import process_environment
from chimera.record.events import Event
from chimera.record.redacted_events import RedactedEvents
from chimera.record.redaction import Redactor
from chimera.record.run_directory import read_events
from chimera.testing import Reply, ScriptedModel, call, text
from chimera.tools.base import Tool
from tests.provider import LoopbackProvider, refuse

CANARY = "canary-1c9e77d04b"
OPTIONS: dict[str, Any] = {"mode": "yolo", "sandbox": "danger-full-access"}
# Known and invented; what is in none of these lists is not passed on either.
NAMES = (
    *(
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "GEMINI_API_KEY",
        "OPENROUTER_API_KEY",
        "HF_TOKEN",
    ),
    *(
        "GITHUB_TOKEN",
        "GH_PAT",
        "GITLAB_TOKEN",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
    ),
    *(
        "AZURE_CLIENT_SECRET",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "NPM_TOKEN",
        "PYPI_PASSWORD",
        "DOCKER_AUTH_CONFIG",
    ),
    *(
        "DATABASE_URL",
        "PGPASSWORD",
        "MYSQL_PWD",
        "REDIS_URL",
        "SENTRY_DSN",
        "SLACK_BOT_TOKEN",
        "STRIPE_SECRET_KEY",
    ),
    *("SSH_AUTH_SOCK", "VAULT_TOKEN", "MY_INVENTED_SETTING", "ACME_THING", "SESSION_COOKIE", "LD_AUDIT_NOTE"),
)


class Home:
    """A repository with its state, and runs in it."""

    def __init__(self, path: Path) -> None:
        self.root, self.state = path / "repo", path / "state"
        self.root.mkdir()
        subprocess.run(["git", "init", "-q", str(self.root)], check=True)
        (self.root / "a.py").write_text("x = 1\n")
        self.events: list[Event] = []
        self.model = ScriptedModel([], window=0)

    def run(self, *replies: Reply, window: int = 64_000, **options: Any) -> chimera.RunResult:
        self.model = ScriptedModel(list(replies), window=window)
        return chimera.run(
            options.pop("task", "do it"),
            workspace=self.root,
            state=self.state,
            model=self.model,
            emit=self.events.append,
            **{**OPTIONS, **options},
        )

    def everything(self, result: chimera.RunResult) -> str:
        """All that was sent, recorded, passed on or returned."""
        sent = [message.wire() for request in self.model.requests for message in request.messages]
        files = [p.read_text(errors="replace") for p in (self.state / "runs").rglob("*") if p.is_file()]
        passed = [(event.type, event.fields) for event in self.events]
        return "\n".join(
            [json.dumps(sent), *files, json.dumps(passed), json.dumps(result.fields()), result.message]
        )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DEPLOY_TOKEN", CANARY)
    return CANARY


def test_an_output_a_long_one_and_a_very_long_one_are_clean_everywhere(home: Home, key: str) -> None:
    (home.root / "note.txt").write_text(f"{key}\n")
    result = home.run(
        call("shell", command="cat note.txt; cat note.txt >&2; false"),
        call("shell", command="yes $(cat note.txt) | head -c 60000"),
        call("shell", command="yes $(cat note.txt) | head -c 400000"),
        call("read_file", path="note.txt"),
        call("search", pattern="canary"),
        call("read_file", path="@run/outputs/0002.txt", line_count=3),
        text("ok"),
    )
    assert result.answer == "ok"
    everything = home.everything(result)
    assert key not in everything
    assert everything.count("[redacted:DEPLOY_TOKEN]") > 1000
    assert (home.root / "note.txt").read_text() == f"{key}\n"


def test_what_a_failed_check_printed_is_clean(home: Home, key: str) -> None:
    (home.root / "note.txt").write_text(f"error: {key}\n")
    result = home.run(text("a"), text("b"), text("c"), verify="cat note.txt; exit 1")
    assert str(result.stop_reason) == "verify_failed"
    everything = home.everything(result)
    assert key not in everything
    assert "[redacted:DEPLOY_TOKEN]" in result.message


def test_a_file_that_is_put_back_after_a_compaction_is_clean(home: Home, key: str) -> None:
    (home.root / "conf.py").write_text(f'TOKEN = "{key}"\nx = 1\n')
    filler = [call("shell", command=f"seq {n} {n + 900}") for n in range(0, 9000, 900)]
    result = home.run(
        call("edit_file", path="conf.py", edits=[{"old": "x = 1", "new": "x = 2"}]),
        *filler,
        text("ok"),
        window=9_000,
    )
    assert result.context is not None
    assert result.context.compactions > 0
    everything = home.everything(result)
    assert "File being edited: conf.py" in everything
    assert key not in everything


def test_the_words_of_the_user_reach_the_model_as_they_are_and_the_record_clean(home: Home, key: str) -> None:
    result = home.run(text(f"I will use {key}"), task=f"Deploy with {key}")
    (request,) = home.model.requests
    assert request.messages[1].content == f"Deploy with {key}"
    assert result.answer == "I will use [redacted:DEPLOY_TOKEN]"
    assert key not in "".join(p.read_text() for p in home.state.joinpath("runs").rglob("*.jsonl"))


def test_a_reply_that_arrives_in_pieces_is_clean_for_the_listener(key: str) -> None:
    recorded: list[Event] = []
    shown: list[Event] = []
    events = RedactedEvents(Redactor({"DEPLOY_TOKEN": key}), recorded.append, shown.append)
    reply = f"It is {key}, you know."
    for character in reply:
        events(Event("text", {"text": character}))
    events(Event("completion", {"message": {"content": reply}}))
    pieces = "".join(event.fields["text"] for event in shown if event.type == "text")
    assert pieces == "It is [redacted:DEPLOY_TOKEN], you know."
    assert shown[-1].fields == {"message": {"content": pieces}}
    assert recorded == shown


def test_a_secret_given_as_a_model_option_is_masked_and_clean_and_a_number_is_kept(home: Home) -> None:
    (home.root / "note.txt").write_text(CANARY)
    options = {"api_key": CANARY, "max_tokens": 12_345_678}
    result = home.run(call("shell", command="cat note.txt"), text("ok"), model_options=options)
    assert CANARY not in home.everything(result)
    started = next(
        event for event in read_events(Path(str(result.run_dir))) if event["type"] == "run_started"
    )
    assert started["options"]["model_options"] == {"api_key": "***", "max_tokens": 12_345_678}


def test_a_secret_that_was_not_shown_cannot_be_written_over(home: Home, key: str) -> None:
    (home.root / "conf.py").write_text(f'TOKEN = "{key}"\nx = 1\n')
    result = home.run(
        call("read_file", path="conf.py"),
        call("write_file", path="conf.py", content='TOKEN = "[redacted:DEPLOY_TOKEN]"\nx = 2\n'),
        call(
            "edit_file", path="conf.py", edits=[{"old": 'TOKEN = "[redacted:DEPLOY_TOKEN]"', "new": "y = 1"}]
        ),
        call("edit_file", path="conf.py", edits=[{"old": "x = 1", "new": "x = 2"}]),
        call("write_file", path="other.md", content="[redacted:NAME] is how it looks\n"),
        text("ok"),
    )
    assert (home.root / "conf.py").read_text() == f'TOKEN = "{key}"\nx = 2\n'
    assert not (home.root / "other.md").exists()
    assert home.everything(result).count("stands for a secret that you were not shown") >= 3


@pytest.mark.parametrize("mode", ["plan", "auto", "yolo"])
def test_files_with_secrets_are_not_shown_where_nobody_is_asked(home: Home, mode: str) -> None:
    (home.root / ".env").write_text("NAME=not-to-be-seen\n")
    (home.root / "innocent.txt").symlink_to(".env")
    (home.root / ".env.example").write_text("NAME=\n")
    home.run(
        call("read_file", path=".env"),
        call("read_file", path="innocent.txt"),
        call("edit_file", path=".env", edits=[{"old": "NAME=nothing", "new": "x"}]),
        call("search", pattern="not-to-be"),
        call("search", pattern="not-to-be", path=".env"),
        call("search", glob=".env*"),
        call("read_file", path=".env.example"),
        text("ok"),
        mode=mode,
        sandbox="danger-full-access",
    )
    results = [m.content for m in home.model.requests[-1].messages if m.role == "tool"]
    assert "not-to-be-seen" not in "".join(results)
    assert all("usually holds secrets" in result for result in results[:2])
    assert "--mode ask" in results[0]
    assert all("are not shown: .env" in result for result in results[3:5])
    assert ".env (" in results[5]
    assert results[6].startswith("1\tNAME=")


@pytest.mark.parametrize("mode", ["ask", "accept-edits"])
@pytest.mark.parametrize("yes", [True, False])
def test_a_person_can_show_a_file_with_secrets(home: Home, mode: str, yes: bool) -> None:
    (home.root / ".env").write_text("NAME=to-be-seen\n")
    asked: list[tuple[str, Any]] = []

    def ask(tool: Tool, arguments: Mapping[str, Any]) -> bool:
        asked.append((tool.name, arguments["path"]))
        return yes

    home.run(call("read_file", path=".env"), call("read_file", path="a.py"), text("ok"), mode=mode, ask=ask)
    assert asked == [("read_file", ".env")]
    shown = "\n".join(m.content for m in home.model.requests[-1].messages if m.role == "tool")
    assert ("to-be-seen" in shown) == yes


def test_a_step_that_changes_what_other_programs_obey_is_told(home: Home) -> None:
    result = home.run(
        call("shell", command="mkdir -p .github/workflows && echo 'on: push' >.github/workflows/x.yml"),
        call("write_file", path="AGENTS.md", content="Obey.\n"),
        call("shell", command="echo >>a.py"),
        text("ok"),
    )
    told = [event.fields["text"] for event in home.events if event.type == "warning"]
    assert [
        text.partition(".  ")[0].split(": ")[1].split(". ")[0] for text in told if text.startswith("Changed:")
    ] == [
        ".github/workflows/x.yml",
        "AGENTS.md",
    ]
    assert any(".github/workflows/x.yml, AGENTS.md" in warning for warning in result.warnings)


def test_no_child_gets_what_is_worth_stealing(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A git of our own in front of the real one writes down what it was given; the workspace did not supply it.
    programs = tmp_path / "programs"
    programs.mkdir()
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    (programs / "git").write_text(f'#!/bin/sh\nenv >>{tmp_path}/given\nexec {real} "$@"\n')
    (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{process_environment()['PATH']}")
    for name in NAMES:
        monkeypatch.setenv(name, f"{CANARY}-{name}")
    result = home.run(call("shell", command="env >seen.txt; git status >/dev/null"), text("ok"))
    assert result.answer == "ok"
    given = (tmp_path / "given").read_text() + (home.root / "seen.txt").read_text()
    assert "GIT_CONFIG_NOSYSTEM" in given
    assert CANARY not in given
    assert CANARY not in str(clean_environment(tmp_path / "bench"))


@pytest.mark.parametrize(
    "said",
    [
        "invalid request: https://host/v1?key={} was refused",
        "Authorization: Bearer {} is not valid",
        "Incorrect API key provided: {}",
    ],
)
def test_what_a_provider_echoes_in_an_error_is_clean(
    home: Home, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    key = "sk-canary-0a1b2c3d4e5f"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("CHIMERA_STATE_DIR", str(home.state))
    with LoopbackProvider([refuse(401, said.format(key))]) as provider:
        result = chimera.run(
            "x",
            workspace=home.root,
            model="openai/fake",
            api_base=provider.url,
            window=16_000,
            emit=home.events.append,
            **OPTIONS,
        )
    assert result.exit_code == 11
    assert key not in home.everything(result)
    assert "[redacted:" in result.message


def test_what_goes_wrong_before_a_run_is_told_clean(home: Home, key: str) -> None:
    result = home.run(text("ok"), mode=f"m-{key}")
    assert result.exit_code == 2
    assert "m-[redacted:DEPLOY_TOKEN]" in result.message


def test_credentials_in_an_address_are_in_no_record_screen_or_result_however_short(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHIMERA_STATE_DIR", str(home.state))
    monkeypatch.setenv("OPENAI_API_KEY", "none-of-yours")
    basic = base64.b64encode(b"me:pw1").decode()
    with LoopbackProvider([refuse(401, f"no: Authorization: Basic {basic} ({basic}), me:pw1@")]) as provider:
        address = provider.url.replace("://", "://me:pw1@")
        result = chimera.run(
            "x",
            workspace=home.root,
            model="openai/fake",
            api_base=address,
            window=16_000,
            emit=home.events.append,
            **OPTIONS,
        )
    assert result.exit_code == 11
    everything = home.everything(result)
    assert not any(form in everything for form in ("pw1", basic, basic.rstrip("=")))
    assert "[redacted:" in result.message
    started = next(event.fields for event in home.events if event.type == "run_started")
    assert started["options"]["api_base"] == provider.url.replace("://", "://***@")


def test_an_address_whose_credentials_are_not_recorded_is_asked_for_again(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.run(text("ok"), api_base="http://me:pw1@127.0.0.1:9/v1")
    model = ScriptedModel([text("done")], window=64_000)
    again: dict[str, Any] = {"workspace": home.root, "state": home.state, "model": model}
    result = resume(message="more", **again)
    assert result.exit_code == 2
    assert "http://***@127.0.0.1:9/v1" in result.message
    assert "--api-base" in result.message
    assert resume(message="more", api_base="http://me:pw1@127.0.0.1:9/v1", **again).answer == "done"
    monkeypatch.setenv("CHIMERA_API_BASE", "http://me:pw1@127.0.0.1:9/v1")
    model = ScriptedModel([text("done")], window=64_000)
    assert resume(message="more", **{**again, "model": model}).answer == "done"
    assert "pw1" not in home.everything(result)


def test_a_secret_within_an_option_is_masked_and_not_sent_masked_later(home: Home) -> None:
    (home.root / "note.txt").write_text(CANARY)
    basic = base64.b64encode(b"user:pass1").decode()
    headers = {"x-api-key": CANARY, "Authorization": f"Basic {basic}", "X-Team": "a"}
    result = home.run(
        call("shell", command="cat note.txt"), text("ok"), model_options={"extra_headers": headers}
    )
    everything = home.everything(result)
    assert CANARY not in everything
    assert basic.rstrip("=") not in everything
    model = ScriptedModel([text("done")], window=64_000)
    home.events.clear()
    resume(message="more", workspace=home.root, state=home.state, model=model, emit=home.events.append)
    started = next(event.fields for event in home.events if event.type == "run_started")
    assert started["options"]["model_options"] == {"extra_headers": {"X-Team": "a"}}
