"""Secrets are found as they are, encoded, wrapped and in pieces; everything else stays as it was."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import textwrap
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.models.providers import PROVIDERS
from chimera.record.known_secrets import known_secrets, make_redactor
from chimera.record.redaction import Redactor
from chimera.workspace.secret_variables import is_secret_name

KEY = "sk-canary-9f3b7c1e5d/+=&q"
REDACTOR = Redactor({"OPENAI_API_KEY": KEY})
MARK = "[redacted:OPENAI_API_KEY]"
REPOSITORY = Path(__file__).parents[2]


def joined(*parts: str) -> str:
    """A token put together here, so that no file of this repository holds one."""
    return "".join(parts)


TOKENS = [
    pytest.param("provider-key", joined("sk-", "ant-api03-", "a1B2" * 10), id="anthropic"),
    pytest.param("provider-key", joined("sk-", "proj-", "a1B2_-" * 8), id="openai project"),
    pytest.param("provider-key", joined("sk-", "a1B2" * 12), id="openai"),
    pytest.param("provider-key", joined("gsk", "_", "a1B2" * 13), id="groq"),
    pytest.param("google-key", joined("AI", "za", "a1B2_" * 7), id="google"),
    pytest.param("huggingface-token", joined("hf", "_", "a1B2" * 9), id="hugging face"),
    pytest.param("github-token", joined("gh", "p_", "a1B2" * 9), id="github"),
    pytest.param("github-token", joined("github", "_pat_", "a1B2_" * 16), id="github fine-grained"),
    pytest.param("gitlab-token", joined("gl", "pat-", "a1B2_" * 5), id="gitlab"),
    pytest.param("aws-key-id", joined("AK", "IA", "A1B2" * 4), id="aws id"),
    pytest.param("slack-token", joined("xo", "xb-", "12345-67890-abc"), id="slack"),
    pytest.param("stripe-key", joined("sk", "_live_", "a1B2" * 6), id="stripe"),
    pytest.param("package-token", joined("np", "m_", "a1B2" * 9), id="npm"),
    pytest.param("package-token", joined("py", "pi-", "a1B2_" * 12), id="pypi"),
    pytest.param("sendgrid-key", joined("S", "G.", "a1B2" * 5, ".", "a1B2" * 10), id="sendgrid"),
    pytest.param("azure-key", joined("Account", "Key=", "a1B2" * 20, "=="), id="azure"),
    pytest.param("jwt", joined("ey", "J", "a1B2" * 5, ".ey", "J", "a1B2" * 9, ".", "a1B2_" * 8), id="jwt"),
]


@pytest.mark.parametrize(("name", "token"), TOKENS)
@pytest.mark.parametrize("frame", ["{}", "x = '{}'\n", "before {} after", '{{"a":"\\n{}"}}', "12\t{}\n13\tz"])
def test_a_token_is_known_by_its_form(name: str, token: str, frame: str) -> None:
    assert REDACTOR.text(frame.format(token)) == frame.format(f"[redacted:{name}]")


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Authorization: Bearer abc123def456ghi", "Authorization: Bearer [redacted:authorization]"),
        ("-H 'x-api-key: abc123def456'", "-H 'x-api-key: [redacted:authorization]'"),
        (
            '{"authorization": "Basic dXNlcjpwYXNzMQ=="}',
            '{"authorization": "Basic [redacted:authorization]"}',
        ),
        ("GET /v1?key=CANARYCANARY&x=1", "GET /v1?key=[redacted:url-parameter]&x=1"),
        ("https://h/p?a=1&api_key=abcdefgh1", "https://h/p?a=1&api_key=[redacted:url-parameter]"),
        ("postgres://app:s3cr3t-pass@db/x", "postgres://app:[redacted:url-password]@db/x"),
        (
            joined("aws_", "secret_access_key = ", "a1B2/" * 8),
            "aws_secret_access_key = [redacted:aws-secret]",
        ),
    ],
)
def test_a_token_is_known_by_what_announces_it(text: str, clean: str) -> None:
    assert REDACTOR.text(text) == clean


def block(lines: int = 12) -> list[str]:
    return [
        joined("-----BEGIN RSA ", "PRIVATE KEY-----"),
        *["MIIEpAIBAAKCAQEA7bq2" * 3] * lines,
        joined("-----END RSA ", "PRIVATE KEY-----"),
    ]


@pytest.mark.parametrize("prefix", ["", "+", "7\t", "  "])
@pytest.mark.parametrize("whole", [True, False])
def test_a_private_key_goes_whole_even_if_it_is_cut_or_part_of_a_patch(prefix: str, whole: bool) -> None:
    lines = block() if whole else block()[:-1]
    text = "\n".join(["before", *(prefix + line for line in lines), "(after)"])
    clean = REDACTOR.text(text)
    assert "MIIEpAI" not in clean
    assert "PRIVATE" not in clean
    assert clean.startswith("before")
    assert clean.endswith("(after)")


@pytest.mark.parametrize(
    "form",
    [
        KEY,
        quote(KEY, safe=""),
        quote(KEY),
        KEY.encode().hex(),
        KEY.encode().hex().upper(),
        json.dumps(KEY)[1:-1],
        *(base64.b64encode(b"x" * n + KEY.encode() + b"yz").decode() for n in range(3)),
        *(base64.urlsafe_b64encode(b"x" * n + KEY.encode()).decode() for n in range(3)),
    ],
)
def test_a_known_value_is_found_in_every_usual_encoding(form: str) -> None:
    assert MARK in REDACTOR.text(f"<<{form}>>")


@pytest.mark.parametrize("width", [7, 16, 60])
def test_a_dump_that_is_wrapped_into_lines_hides_nothing(width: int) -> None:
    for form in (KEY, KEY.encode().hex(), base64.b64encode(b"key=" + KEY.encode()).decode()):
        text = "\n".join(["before", *textwrap.wrap(form, width), "after"])
        assert MARK in REDACTOR.text(text)


def test_hex_dumps_in_groups_hide_nothing() -> None:
    grouped = " ".join(textwrap.wrap(KEY.encode().hex(), 4))
    assert REDACTOR.text(f"0: {grouped} .") == f"0: {MARK} ."


def test_each_line_of_a_long_secret_is_one() -> None:
    lines = ["a1B2c3D4" * 5 + str(n) for n in range(3)]
    assert Redactor({"NOTES_TOKEN": "\n".join(lines)}).text(f"1\t{lines[1]}") == "1\t[redacted:NOTES_TOKEN]"


@pytest.mark.parametrize("value", ["short", "", "postgres", "Password", "development"])
def test_a_value_that_is_short_or_a_plain_word_is_left_alone(value: str) -> None:
    assert Redactor({"DB_PASSWORD": value}).text(f"use {value} here") == f"use {value} here"


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text()
        | st.just(f"a{KEY}b"),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
        max_leaves=12,
    )
)
def test_the_structure_of_a_value_stays(value: Any) -> None:
    clean = REDACTOR.value(value)
    assert KEY not in json.dumps(clean, ensure_ascii=False)
    assert shape(clean) == shape(value)
    assert REDACTOR.value(clean) == clean


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    return list(map(shape, value)) if isinstance(value, list) else type(value)


@pytest.mark.parametrize("secret", ['quote"inside1', "ends-with-1\\", "12345678901", "line\nbreak12"])
def test_arguments_that_are_json_stay_json(secret: str) -> None:
    redactor = Redactor({"A_TOKEN": secret})
    for held in ({"content": f"x{secret}"}, {"content": f'{secret}"'}, {"n": [12345678901, secret]}):
        clean = redactor.value(json.dumps(held))
        assert "[redacted:A_TOKEN]" in clean
        json.loads(clean)


@given(
    st.lists(
        st.sampled_from([KEY, KEY[:9], "a", "\n", "Bearer", "tok3n-of-somebody", "é漢", "sk-"]),
        max_size=12,
    ),
    st.integers(1, 9),
)
def test_in_pieces_comes_out_what_comes_out_in_one(parts: list[str], size: int) -> None:
    text = " ".join(parts)
    stream = REDACTOR.stream()
    out = "".join(stream.add(text[n : n + size]) for n in range(0, len(text), size)) + stream.end()
    assert KEY not in out
    assert out == REDACTOR.text(text)


def test_a_stream_holds_back_no_more_than_the_last_word() -> None:
    stream = REDACTOR.stream()
    assert stream.add("Some words that sk") == "Some words that "
    assert stream.add("ip nothing.\n") == "skip nothing.\n"


def test_a_file_is_cleaned_and_keeps_every_other_byte(tmp_path: Path) -> None:
    file = tmp_path / "spool.txt"
    rest = bytes(range(256)) * 9000
    file.write_bytes(rest + KEY.encode() + b"\n" + rest)
    file.chmod(0o600)
    REDACTOR.file(file)
    assert file.read_bytes() == rest + MARK.encode() + b"\n" + rest
    assert file.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["spool.txt"]  # noqa: PTH208


def test_a_file_without_secrets_is_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "spool.txt"
    file.write_bytes(b"nothing here\n" * 1000)
    before = file.stat()
    REDACTOR.file(file)
    assert file.stat().st_ino == before.st_ino


def test_secrets_are_collected_by_name_from_environment_options_and_env_files(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        "export DB_PASSWORD='pa55-word-of-db'\nNAME=somebody-1234\nAPI_KEY=plain\n"
    )
    found = known_secrets(
        {"X_TOKEN": "t0ken-1234", "HOME": "/root", "COPY": "t0ken-1234"},
        {"api_key": "opt10n-key", "temperature": 1, "max_tokens": 12345678},
        tmp_path,
    )
    assert found == {
        "X_TOKEN": "t0ken-1234",
        "COPY": "t0ken-1234",
        "api_key": "opt10n-key",
        "DB_PASSWORD": "pa55-word-of-db",
    }


def test_no_value_of_an_env_file_is_lost_to_another_of_its_name(tmp_path: Path) -> None:
    places = (".env", ".env.local", "services/api/.env", "a/b/c/.env.production")
    for number, place in enumerate(places):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(f"API_KEY=8d41b7e2-f09cab{number}\n")
    for library in ("node_modules/x", ".git", "a/.venv"):
        (tmp_path / library).mkdir(parents=True)
        (tmp_path / library / ".env").write_text("API_KEY=9e77aa01-example\n")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = known_secrets({"API_KEY": "t0ken-of-shell-1234"}, workspace=tmp_path)
    assert sorted(found.values()) == [
        *(f"8d41b7e2-f09cab{number}" for number in range(4)),
        "t0ken-of-shell-1234",
    ]
    assert found["API_KEY"] == "t0ken-of-shell-1234"


def test_a_repository_cannot_hide_text_by_calling_it_a_secret(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A_KEY=import os\nB_KEY=subprocess\nC_KEY=\nD_KEY=os.system\n")
    os.mkfifo(tmp_path / ".env.local")
    assert known_secrets({}, workspace=tmp_path) == {}


def test_every_variable_of_a_provider_counts_as_a_secret() -> None:
    names = [name for provider in PROVIDERS for name in (*provider.keys, *provider.logins)]
    assert [name for name in names if not is_secret_name(name)] == []


def test_nothing_in_this_repository_is_taken_for_a_secret() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "*.py", "*.md", "*.toml", "*.yml", "*.yaml", "*.txt"],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a checkout")
    planted = {"tests/record/test_redaction.py"}
    hits = []
    for name in filter(None, listed.stdout.decode().split("\0")):
        path = REPOSITORY / name
        if name in planted or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        hits += [
            f"{name}: {line.strip()}"
            for line, clean in zip(text.split("\n"), Redactor().text(text).split("\n"), strict=False)
            if line != clean
        ]
    assert hits == []


@pytest.mark.parametrize(
    "unit", ["sk-", "eyJ", "-----BEGIN ", "://a:", "Bearer ", "?key=", "ghp_", KEY[:10], "Aa1 "]
)
def test_the_time_grows_with_the_text_and_not_faster(unit: str) -> None:
    # No clock: a text for which quadratic work would take hours ends within the limit of the suite.
    REDACTOR.text(unit * (2_000_000 // len(unit)))


def test_ordinary_settings_with_secret_names_hide_nothing(tmp_path: Path) -> None:
    ordinary = {
        "AUTH_URL": "http://localhost:8000/auth/v2",
        "TOKEN_TABLE": "auth_users_v2",
        "AUTHOR": "somebody-1234",
        "CACHE_KEY": "user_profile_v2",
        "MAX_TOKENS": "12000000",
        "AUTH_HEADER": "X-Forwarded-User",
    }
    (tmp_path / ".env").write_text("".join(f"{name}={value}\n" for name, value in ordinary.items()))
    assert known_secrets({}, workspace=tmp_path) == {}
    assert known_secrets(ordinary) == {}
    assert known_secrets({"A_TOKEN": "t0ken-1234", **ordinary, "COPY": "t0ken-1234"}) == {
        "A_TOKEN": "t0ken-1234",
        "COPY": "t0ken-1234",
    }


HEADERS = {
    "extra_headers": {
        "x-api-key": "k3y-of-gateway",
        "Authorization": "Basic dXNlcjpwYXNz",
        "X-Team": "my-team",
    }
}


def test_secrets_within_an_option_are_known_too() -> None:
    assert known_secrets({}, HEADERS) == {
        "extra_headers.x-api-key": "k3y-of-gateway",
        "extra_headers.Authorization": "dXNlcjpwYXNz",
    }


@pytest.mark.parametrize(
    "form", ["http://u:p%40w@host/v1", "Basic dTpwQHc=", "basic dTpwQHc", "//u:p%40w@host", "u:p@w@host"]
)
def test_credentials_of_an_address_are_taken_out_in_every_form_however_short(form: str) -> None:
    redactor = make_redactor({}, api_base="http://u:p%40w@host/v1")
    clean = redactor.text(f"<{form}>")
    assert "[redacted:api_base]" in clean
    assert not any(part in clean for part in ("p%40w", "p@w", "dTpwQHc"))
    assert redactor.text("http://host/v1 and u:p and upw") == "http://host/v1 and u:p and upw"


def test_a_long_password_of_an_address_is_known_by_itself() -> None:
    for environment, api_base in (
        ({}, "https://me:l0ng-password@h"),
        ({"HTTPS_PROXY": "http://me:l0ng-password@h"}, None),
    ):
        clean = make_redactor(environment, api_base=api_base).text(
            "it is l0ng-password, at https://me:l0ng-password@h"
        )
        assert "l0ng-password" not in clean
        assert clean.endswith("@h")


def test_a_key_in_place_of_a_user_is_known_by_itself() -> None:
    redactor = make_redactor({}, api_base="https://a-k3y-of-mine@h/v1")
    assert redactor.text("a-k3y-of-mine") == "[redacted:api_base]"


def test_a_secret_of_somebody_else_takes_no_name_away() -> None:
    mine, theirs = "tok-mine-4815162342", "tok-theirs-1618033988"
    clean = make_redactor({"API_TOKEN": mine}, further={"API_TOKEN": theirs}).text(f"{mine} and {theirs}")
    assert clean == "[redacted:API_TOKEN] and [redacted:API_TOKEN_2]"
