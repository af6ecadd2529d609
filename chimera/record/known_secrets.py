"""The secret values that can be known at the start of a run, and the redactor that knows them."""

from __future__ import annotations

import base64
import os
import re
import stat
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from chimera.record.redaction import Redactor, keep_secret, mark_of
from chimera.workspace.secret_values import MIN_SECRET, PLAIN_WORD, credentials, looks_secret
from chimera.workspace.secret_variables import is_secret_name, secret_variables

MASKED = "***"
"""Stands in the record for a setting that may be a secret."""
_HEADERS = {"authorization", "proxy-authorization", "cookie"}
_ADDRESS_NAME = re.compile(r"(?:API_BASE|BASE_URL|PROXY|_HOST|ENDPOINT)$", re.IGNORECASE)
_ENV_FILES = (".env", ".env.local", ".env.development", ".env.production", ".env.test")
_ENV_FILE_BYTES = 64 * 1024
_ENV_FOLDERS = 1_000
_LIBRARIES = frozenset({"node_modules", "site-packages", "vendor", "venv", "target", "__pycache__"})
_MOST_SECRETS = 500
"""Every output is searched for each."""
_ASSIGNMENT = re.compile(r"\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*\Z")
# A repository must not be able to hide ordinary text from the model by calling it a secret.
_RANDOM_LOOKING = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_./+=~:@%-]{12,512}")
_LEAST_ENCODED_PAIR = 6


def make_redactor(
    environment: Mapping[str, str],
    *,
    options: Mapping[str, Any] | None = None,
    api_base: str | None = None,
    workspace: Path | None = None,
    further: Mapping[str, str] | None = None,
) -> Redactor:
    """A redactor for `known_secrets` and for user and password in addresses.

    Args:
        environment: variables with secret names count, and credentials in those that name a server or proxy.
        options: settings passed to the provider.
        api_base: address of the model's server.
        workspace: its `.env` files count, too.
        further: secrets that somebody else knows, by name.
    """
    addresses = {name: value for name, value in environment.items() if _ADDRESS_NAME.search(name)}
    if api_base is not None:
        addresses["api_base"] = api_base
    secrets = known_secrets(environment, options, workspace)
    for name, value in (further or {}).items():
        keep_secret(secrets, name, value)
    forms: dict[str, str] = {}
    for name, address in addresses.items():
        user, password = credentials(address)
        if user or password:
            secrets |= _long_credentials(name, unquote(user), unquote(password))
            forms |= _credential_forms(name, user, password)
    return Redactor(secrets, forms)


def known_secrets(
    environment: Mapping[str, str], options: Mapping[str, Any] | None = None, workspace: Path | None = None
) -> dict[str, str]:
    """The values that are secrets by name and look, by name.

    Args:
        environment: variables with secret names count, and others with the same value.
        options: settings passed to the provider; those with secret names count, also within others.
        workspace: the values with secret names in its `.env` files count, too, libraries excepted.
    """
    named = {name: value for name, value in secret_variables(environment).items() if is_secret_name(name)}
    values = {value for name, value in named.items() if looks_secret(name, value)}
    found = {name: value for name, value in environment.items() if value in values}
    found |= dict(_option_secrets(options or {}))
    for name, value in () if workspace is None else _env_file_values(workspace):
        if len(found) < _MOST_SECRETS:
            keep_secret(found, name, value)
    return found


def without_secrets(name: str, value: Any) -> Any:
    """A setting as it is recorded: what may be a secret is masked, user and password of an address, too."""
    if isinstance(value, Mapping):
        return {inner: without_secrets(inner, held) for inner, held in value.items()}
    if isinstance(value, str) and _names_secret(name):
        return MASKED
    return without_credentials(value) if isinstance(value, str) else value


def without_credentials(address: str) -> str:
    """A URL with a mask in place of user and password; anything else as it is."""
    if not any(credentials(address)):
        return address
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=f"{MASKED}@{parts.netloc.rpartition('@')[2]}"))


def _names_secret(name: str) -> bool:
    return name.lower() in _HEADERS or is_secret_name(name.replace("-", "_"))


def _option_secrets(options: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _option_secrets(value, f"{path}{name}.")
        elif isinstance(value, str) and _names_secret(str(name)) and value.strip():
            # Without the scheme of an `Authorization` header.
            yield f"{path}{name}", value.split()[-1] if str(name).lower() in _HEADERS else value


def _long_credentials(name: str, user: str, password: str) -> dict[str, str]:
    """Credentials that are found by themselves without being found in everything."""
    alone = password or user
    found = {}
    if password and len(pair := f"{user}:{password}") >= MIN_SECRET:
        found[f"{name}:"] = pair
    if len(alone) >= MIN_SECRET and not PLAIN_WORD.fullmatch(alone):
        found[name] = alone
    return found


def _credential_forms(name: str, user: str, password: str) -> dict[str, str]:
    """How even the shortest user and password are recognised, and what stands there instead.

    Args:
        name: for the mark.
        user: as it is written in the address.
        password: the same; empty where there is none.
    """
    mark = mark_of(name)
    written = f"{user}:{password}" if password else user
    plain = f"{unquote(user)}:{unquote(password)}"
    forms = {f"//{written}@": f"//{mark}@"}
    if password:
        forms |= {f"{form}@": f"{mark}@" for form in (written, plain)}
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        encoded = encode(plain.encode("utf-8", "surrogateescape")).decode("ascii")
        for form in (encoded, encoded.rstrip("=")):
            forms |= {f"{scheme} {form}": f"{scheme} {mark}" for scheme in ("Basic", "basic")}
            if len(form) >= _LEAST_ENCODED_PAIR:
                forms[form] = mark
    return forms


def _env_file_values(workspace: Path) -> Iterator[tuple[str, str]]:
    for file in _env_files(workspace):
        for line in _head(file).splitlines():
            if (match := _ASSIGNMENT.match(line)) and is_secret_name(match[1]):
                value = match[2].strip("\"'")
                if _RANDOM_LOOKING.fullmatch(value) and looks_secret(match[1], value):
                    yield match[1], value


def _env_files(workspace: Path) -> Iterator[Path]:
    """Those at its top and in the first folders below, nearest first."""
    waiting = deque([workspace])
    for _ in range(_ENV_FOLDERS):
        if not waiting:
            return
        folder = waiting.popleft()
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name in _ENV_FILES:
                    yield folder / entry.name
                elif entry.name[0] != "." and entry.name not in _LIBRARIES:
                    with suppress(OSError):
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(folder / entry.name)


def _head(path: Path) -> str:
    """The beginning of a regular file; nothing of anything else, which could block."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return ""
            return file.read(_ENV_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
