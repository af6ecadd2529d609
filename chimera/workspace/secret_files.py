"""Files that by their names hold secrets. What is in them is not for a model, unless a person says so."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

_NAMES = re.compile(
    r"\.env(?:\..+)?|.+\.env|\.envrc|.+\.(?:pem|key|p12|pfx|jks|keystore|kdbx)|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?"
    r"|[._]netrc|\.git-credentials|\.pgpass|\.my\.cnf|\.htpasswd|\.pypirc|\.dockercfg"
    r"|credentials(?:\.(?:json|toml|ya?ml|ini))?|service[-_]account.*\.json|secrets?\.(?:json|toml|ya?ml|ini)",
    re.IGNORECASE,
)
_HARMLESS = re.compile(
    r".+[._-](?:example|sample|template|dist|defaults?|tmpl|tpl|schema)(?:\..+)?", re.IGNORECASE
)
_FOLDERS = frozenset({".ssh", ".aws", ".gnupg", ".kube"})


def is_secret_file(path: str) -> bool:
    """Whether the file at this path, `/` between its parts, is one that usually holds secrets."""
    parts = PurePosixPath(path).parts
    if not parts:
        return False
    name = parts[-1]
    named = _NAMES.fullmatch(name) is not None and _HARMLESS.fullmatch(name) is None
    return named or any(folder.casefold() in _FOLDERS for folder in parts[:-1])
