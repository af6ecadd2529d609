"""The environment of commands that the model runs: what they need to work, and nothing that is worth stealing."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from chimera.workspace.programs import DEFAULT_PATH, absolute_entries

TOOLCHAIN_HOMES = (
    "ASDF_DATA_DIR",
    "ASDF_DIR",
    "BUN_INSTALL",
    "CARGO_HOME",
    "CONDA_PREFIX",
    "DENO_INSTALL",
    "DOTNET_ROOT",
    "FNM_DIR",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "M2_HOME",
    "MAVEN_HOME",
    "MISE_DATA_DIR",
    "NVM_DIR",
    "PIPX_HOME",
    "PNPM_HOME",
    "POETRY_HOME",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "RUSTUP_HOME",
    "SDKMAN_DIR",
    "UV_PYTHON_INSTALL_DIR",
    "UV_TOOL_DIR",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
)
"""Variables that name the folder of a language toolchain."""
_ALLOWED = frozenset(
    {
        *TOOLCHAIN_HOMES,
        *("HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"),
        *("CI", "CONDA_DEFAULT_ENV", "GEM_HOME", "GEM_PATH", "NODE_PATH", "NVM_BIN", "RUSTUP_TOOLCHAIN"),
    }
)
_ALLOWED_PREFIX = "LC_"
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:API_?KEYS?|ACCESS_?KEY|KEYS?|SECRETS?|TOKENS?|PASSPHRASE|CREDENTIALS?|CREDS|AUTH|PAT|DSN|COOKIE)(?:_|$)"
    r"|(?:PASSWORD|PASSWD|APIKEY|SECRET|TOKEN)(?:_|$)|_PWD$",
    re.IGNORECASE,
)
_SECRET_LENGTH = 8
# One in 64 of these begins with the slash that otherwise tells a path.
_AWS_SECRET = re.compile(r"/[A-Za-z0-9/+]{39}")
# A program that waits for a person would hang: nobody watches. Nobody reads colours either.
_FIXED = {
    "DEBIAN_FRONTEND": "noninteractive",
    "EDITOR": "true",
    "GIT_EDITOR": "true",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "MANPAGER": "cat",
    "PAGER": "cat",
    "TERM": "dumb",
    "VISUAL": "true",
}


def child_environment(
    environment: Mapping[str, str], *, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment for a command, out of `environment`, the one chimera was started with.

    `extra` holds variables that chimera or the user adds by name; they win over everything and are not filtered.
    """
    secrets = set(secret_variables(environment).values())
    child = {
        name: value
        for name, value in environment.items()
        if (name in _ALLOWED or name.startswith(_ALLOWED_PREFIX))
        and not is_secret_name(name)
        and value not in secrets
    }
    child["PATH"] = os.pathsep.join(absolute_entries(child.get("PATH", ""))) or DEFAULT_PATH
    return child | _FIXED | dict(extra or {})


def secret_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that hold a key, token or password: by their names, or because one of those has the same value."""
    named = {name: value for name, value in environment.items() if is_secret_name(name) and _is_secret(value)}
    values = set(named.values())
    return named | {name: value for name, value in environment.items() if value in values}


def _is_secret(value: str) -> bool:
    # A variable named like a key may hold the path of a key file or socket, which may be the path of something else too.
    is_path = value.startswith("/") and not (_AWS_SECRET.fullmatch(value) and not os.path.lexists(value))
    return len(value) >= _SECRET_LENGTH and not is_path


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a key, token or password, to judge by the name alone."""
    return _SECRET_NAME.search(name) is not None
