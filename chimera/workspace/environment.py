"""The environment of commands that the model runs: what they need to work, and nothing that is worth stealing."""

from __future__ import annotations

import os
from collections.abc import Mapping

from chimera.workspace.programs import DEFAULT_PATH, absolute_entries
from chimera.workspace.secret_variables import is_secret_name, secret_variables

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
