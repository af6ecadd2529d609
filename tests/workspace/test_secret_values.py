from __future__ import annotations

import base64
import random
import string
import uuid

import pytest

from chimera.workspace.secret_values import credentials, looks_random, looks_secret


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AUTH_URL", "http://localhost"),
        ("AUTH_URL", "http://localhost:3000/api/v1/auth"),
        ("AUTH_URL", "https://login.example.com/oauth2/token?audience=api"),
        ("SENTRY_DSN", "http://admin@localhost:9000/1"),
        ("DB_DSN", "postgres://postgres:postgres@localhost:5432/postgres"),
        ("TOKEN_TABLE", "auth_tokens_v2"),
        ("TOKEN_TABLE", "user-sessions-2024"),
        ("TOKEN_TYPE", "urn:ietf:params:oauth:token-type:jwt"),
        ("KEY_FILE", "config/keys/service-account.json"),
        ("SECRET_NAME", "prod/app/database-1"),
        ("AUTH_PROVIDER", "django.contrib.auth.backends.ModelBackend"),
        ("CACHE_KEY", "user_profile_v2"),
        ("SORT_KEY", "createdAt"),
        ("PRIMARY_KEY", "tenantId,createdAt"),
        ("ENCRYPTION_KEY", "AES-256-GCM"),
        ("MAX_TOKENS", "12000000"),
        ("TOKEN_TTL", "86400000"),
        ("AUTH_HEADER", "X-Forwarded-User"),
        ("NPM_TOKEN", "${GITHUB_PACKAGES_TOKEN}"),
        ("API_KEY", "<your-api-key-here>"),
        ("API_KEY", "your-api-key-here"),
        ("API_KEY", "xxxxxxxxxxxxxxxx"),
        ("A_KEY", "import os.path"),
        ("DB_PASSWORD", "postgres"),
        ("DB_PASSWORD", "12345678"),
        ("DB_PASSWORD", "short1"),
    ],
)
def test_ordinary_text_is_no_secret_whatever_its_name(name: str, value: str) -> None:
    assert not looks_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("A_TOKEN", "t0ken-1234"),
        ("DEPLOY_TOKEN", "canary-1c9e77d04b"),
        ("DB_PASSWORD", "pa55-word-of-db"),
        ("DB_PASSWORD", "correct-horse-battery"),
        ("APP_PASSWORD", "abcd efgh ijkl mnop"),
        ("APP_SECRET", "hunter2-of-me"),
        ("SENTRY_DSN", "https://0a1b2c3d4e5f60718293a4b5c6d7e8f9@o1.ingest.example.io/2"),
        ("AUTH_URL", "http://app:s3cr3t@db/x"),
        ("HOOK_TOKEN_URL", "https://hooks.example.com/T0001/9f3b7c1e5d0a4b6c8e2f"),
        ("KEY_ID", "AKIA" + "IOSFODNN7EXAMPLE"),
        ("API_KEY_NAME", "0f1e2d3c4b5a69788796a5b4c3d2e1f0"),
        ("SECRET_ID", "6a1f7c1e-22b0-4d3e-9c54-0b7d1b2f9e11"),
        ("DOCKER_AUTH_CONFIG", '{"auths":{"r.example.com":{"auth":"dXNlcjpwYXNz"}}}'),
        ("SIGNING_KEY", "qWmZkXjVbNrTpLsD"),
    ],
)
def test_a_key_token_or_password_is_one(name: str, value: str) -> None:
    assert looks_secret(name, value)


@pytest.mark.parametrize("name", ["API_KEY", "TOKEN_URL"])
def test_random_keys_of_every_usual_alphabet_are_known_under_any_name(name: str) -> None:
    dice = random.Random(7)
    letters = string.ascii_letters + string.digits
    for _ in range(200):
        raw = dice.randbytes(24)
        forms = [raw.hex(), base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()]
        forms += ["sk-" + "".join(dice.choices(letters, k=40)), str(uuid.UUID(bytes=raw[:16]))]
        assert [form for form in forms if not looks_secret(name, form)] == []


def test_the_words_of_a_text_are_not_random() -> None:
    text = (
        "def test_the_words_of_a_text_are_not_random() -> None: docs/security.md v1.2.3 HTTPServerError2024"
    )
    assert [word for word in text.split() if looks_random(word)] == []


def test_credentials_are_told_as_they_are_written() -> None:
    assert credentials("http://u:p%40w@host:8080/v1") == ("u", "p%40w")
    assert credentials("http://key@host") == ("key", "")
    assert credentials("http://host/a@b") == ("", "")
    assert credentials("http://[broken") == ("", "")
