from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.workspace.environment import child_environment
from chimera.workspace.secret_variables import is_secret_name, secret_variables

CANARY = "canary-5f1c9a72"


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "GITHUB_TOKEN",
        "HF_TOKEN",
        "NPM_TOKEN",
        "MY_INVENTED_SETTING",
        "DATABASE_URL",
        "SSH_AUTH_SOCK",
        "DBUS_SESSION_BUS_ADDRESS",
        "DOCKER_HOST",
        "HTTPS_PROXY",
        "http_proxy",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "PYTHONSTARTUP",
        "PYTHONPATH",
        "BASH_ENV",
        "ENV",
        "PROMPT_COMMAND",
        "GIT_DIR",
        "GIT_INDEX_FILE",
        "GIT_SSH_COMMAND",
        "GIT_CONFIG_PARAMETERS",
        "CHIMERA_MODEL",
        "LC_SERVICE_TOKEN",
        "LC_API_KEY",
    ],
)
def test_a_command_does_not_get_what_it_has_no_need_for(name: str) -> None:
    child = child_environment({"PATH": "/usr/bin", name: CANARY})

    assert CANARY not in child.values()


def test_a_key_does_not_get_through_under_an_allowed_name() -> None:
    child = child_environment({"OPENAI_API_KEY": CANARY, "LC_NOTE": CANARY, "LC_ALL": "C.UTF-8"})

    assert "LC_NOTE" not in child
    assert child["LC_ALL"] == "C.UTF-8"


def test_a_home_that_a_key_variable_also_names_is_kept() -> None:
    child = child_environment({"HOME": "/home/someone", "SIGNING_KEY": "/home/someone"})

    assert child["HOME"] == "/home/someone"


def test_what_toolchains_need_is_passed_on() -> None:
    given_environment = {
        "HOME": "/home/u",
        "LANG": "de_DE.UTF-8",
        "TZ": "UTC",
        "CI": "true",
        "CARGO_HOME": "/c",
        "VIRTUAL_ENV": "/v",
    }

    child = child_environment(given_environment)

    assert given_environment.items() <= child.items()


def test_nothing_a_command_starts_waits_for_a_person() -> None:
    child = child_environment({"PAGER": "less", "EDITOR": "vi", "GIT_EDITOR": "vi", "TERM": "xterm-256color"})

    assert child["GIT_TERMINAL_PROMPT"] == "0"
    assert (child["PAGER"], child["GIT_PAGER"]) == ("cat", "cat")
    assert (child["EDITOR"], child["VISUAL"], child["GIT_EDITOR"]) == ("true", "true", "true")
    assert child["GIT_OPTIONAL_LOCKS"] == "0"
    assert child["TERM"] == "dumb"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".:/usr/bin::bin:/bin:", "/usr/bin:/bin"),
        ("node_modules/.bin:/opt/x", "/opt/x"),
        ("", "/usr/local/bin:/usr/bin:/bin"),
        (".", "/usr/local/bin:/usr/bin:/bin"),
    ],
)
def test_folders_of_path_that_depend_on_where_one_stands_are_dropped(path: str, expected: str) -> None:
    assert child_environment({"PATH": path})["PATH"] == expected


def test_added_variables_win() -> None:
    child = child_environment({"HOME": "/home/u"}, extra={"HOME": "/elsewhere", "DEPLOY_TOKEN": "asked for"})

    assert child["HOME"] == "/elsewhere"
    assert child["DEPLOY_TOKEN"] == "asked for"


@given(st.dictionaries(st.text(max_size=30), st.text(max_size=30), max_size=20))
def test_no_variable_with_a_secret_name_ever_passes(environment: dict[str, str]) -> None:
    assert not any(is_secret_name(name) for name in child_environment(environment))


@pytest.mark.parametrize(
    "name",
    [
        *(
            "PGPASSWORD",
            "MYSQL_PWD",
            "GH_PAT",
            "SENTRY_DSN",
            "NPM_CONFIG__AUTH",
            "GITHUBTOKEN",
            "APIKEY",
            "my_secret",
        ),
        *(
            "OPENAI_API_KEYS",
            "SIGNING_KEY",
            "AWS_CREDS",
            "SESSION_COOKIE",
            "api_key",
            "TOKEN",
            "X_PASSPHRASE",
        ),
    ],
)
def test_a_secret_is_known_by_the_name_of_its_variable(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["PWD", "OLDPWD", "PATH", "KEYBOARD", "MONKEY", "AUTHOR", "HOME", "PATTERN", "TOKENIZERS_PARALLELISM"],
)
def test_names_that_only_look_similar_are_none(name: str) -> None:
    assert not is_secret_name(name)


def test_secret_variables_are_those_with_the_name_or_the_value_of_a_secret() -> None:
    aws = "/" + "aB3+" * 9 + "abc"
    environment = {
        "A_TOKEN": "tok3n-1234",
        "COPY": "tok3n-1234",
        "SSH_AUTH_SOCK": "/tmp/agent",
        "SHORT_KEY": "1234567",
        "AWS_SECRET_ACCESS_KEY": aws,
        "HOME": "/root",
    }
    assert secret_variables(environment) == {
        "A_TOKEN": "tok3n-1234",
        "COPY": "tok3n-1234",
        "AWS_SECRET_ACCESS_KEY": aws,
    }
