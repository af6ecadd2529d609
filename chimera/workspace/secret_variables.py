"""Which variables of an environment hold secrets. Imported before anything that takes long to import."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:API_?KEYS?|ACCESS_?KEY|KEYS?|SECRETS?|TOKENS?|PASSPHRASE|CREDENTIALS?|CREDS|AUTH|PAT|DSN|COOKIE)(?:_|$)"
    r"|(?:PASSWORD|PASSWD|APIKEY|SECRET|TOKEN)(?:_|$)|_PWD$",
    re.IGNORECASE,
)
_SECRET_LENGTH = 8
# One in 64 of these begins with the slash that otherwise tells a path.
_AWS_SECRET = re.compile(r"/[A-Za-z0-9/+]{39}")


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
