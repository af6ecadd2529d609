"""Files that by their names hold secrets. What is in them is not for a model, unless a person says so."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

# Compiled when the first name is looked at.
_NAMES = (
    r"(?i)\.env(?:\..+)?|.+\.env|\.envrc|.+\.(?:pem|key|p12|pfx|jks|keystore|kdbx)|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?"
    r"|[._]netrc|\.git-credentials|\.pgpass|\.my\.cnf|\.htpasswd|\.pypirc|\.dockercfg"
    r"|credentials(?:\.(?:json|toml|ya?ml|ini))?|service[-_]account.*\.json|secrets?\.(?:json|toml|ya?ml|ini)"
)
_HARMLESS = r"(?i).+[._-](?:example|sample|template|dist|defaults?|tmpl|tpl|schema)(?:\..+)?"
_FOLDERS = frozenset({".ssh", ".aws", ".gnupg", ".kube"})


def is_secret_file(path: str) -> bool:
    """Whether the file at this path, `/` between its parts, is one that usually holds secrets."""
    parts = PurePosixPath(path).parts
    if not parts:
        return False
    name = parts[-1]
    named = re.fullmatch(_NAMES, name) is not None and re.fullmatch(_HARMLESS, name) is None
    return named or any(folder.casefold() in _FOLDERS for folder in parts[:-1])
