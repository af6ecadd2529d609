"""Whether a value under a secret name is a secret, to judge by its look.

A name alone says too little: `AUTH_URL`, `TOKEN_TABLE` or `CACHE_KEY` may hold what stands in every second file, and
hiding that hides the files from the model.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from urllib.parse import urlsplit

MIN_SECRET = 8
"""Characters. A shorter value would be found in everything."""
PLAIN_WORD = re.compile(r"[A-Za-z]?[a-z]{7,14}")
"""A single word is a default password of some development server far more often than a secret."""
_LEAST_RANDOM = 16
_LEAST_ENTROPY_BITS = 3.0
"""A character. Words of English have some 2.5 to 3, sixteen random hexadecimal digits 3.3, random letters more."""
_LEAST_ENTROPY_OF_LETTERS = 4.0
_LEAST_VARIETY = 4
# The last word of a name that tells what the value is instead of a secret.
_DESCRIBING = re.compile(
    r"(?:^|[^A-Za-z0-9])(?:"
    r"ADDR|ADDRESS|AGE|ALG|ALGO|ALGORITHM|AUDIENCE|BACKEND|BUCKET|CIPHER|CLASS|CMD|COLLECTION|COLUMN"
    r"|COMMAND|COST|COUNT|CURVE|DATABASE|DB|DEBUG|DIR|DIRECTORY|DISABLED|DOMAIN|DURATION|EMAIL|ENABLED"
    r"|ENDPOINT|ENV|EXPIRATION|EXPIRES|EXPIRY|FIELD|FILE|FOLDER|FORMAT|HEADER|HOST|HOSTNAME|ID"
    r"|INTERVAL|ISSUER|KIND|LABEL|LENGTH|LIFETIME|LIMIT|LOCATION|LOGIN|METHOD|MODE|MODULE|NAME|ORIGIN"
    r"|PARAM|PATH|PLUGIN|PORT|PREFIX|PROVIDER|QUEUE|REALM|REGION|REQUIRED|ROLE|ROLES|ROUNDS|SCHEME"
    r"|SCOPE|SCOPES|SERVER|SERVICE|SIZE|SOCK|SOCKET|SOURCE|STORAGE|STORE|STRATEGY|SUFFIX|TABLE|TIMEOUT"
    r"|TITLE|TOPIC|TTL|TYPE|URI|URL|USER|USERNAME|VERSION"
    r")$",
    re.IGNORECASE,
)
_PASSWORD_NAME = re.compile(r"PASS(?:WORD|WD|PHRASE)|PWD|SECRET", re.IGNORECASE)
_REFERENCE = re.compile(r"\$[{(A-Za-z_].*|<.*>|\{\{.*\}\}|%[A-Za-z_]+%")
_NUMBER = re.compile(r"[+-]?[0-9][0-9_.,]{0,14}")
_SEPARATORS = re.compile(r"[\s_./:,;@+-]+")
_NAME_PART = re.compile(r"(?:(?:[A-Z]?[a-z]{2,14}|[A-Z]{1,14}|[a-z]){1,5}[0-9]{0,4}|[0-9]{1,8})?")
_LONGEST_NAME_PART = 24
_MOST_LONE_LETTERS = 2
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")


def looks_secret(name: str, value: str) -> bool:
    """Whether `value` is worth hiding, given that `name` is one of a secret.

    Not: a short value, a reference to another one, a number, an address without credentials, words; for a name that ends
    in what the value is (`_URL`, `_TABLE`, `_TTL`, ...) anything that does not look random.
    """
    if len(value) < MIN_SECRET or len(set(value)) < _LEAST_VARIETY or _REFERENCE.fullmatch(value):
        return False
    if _URL.fullmatch(value):
        return _address_holds_secret(value)
    if _NUMBER.fullmatch(value) or PLAIN_WORD.fullmatch(value):
        return False
    if _DESCRIBING.search(name):
        return looks_random(value)
    return not _is_words(value) or _PASSWORD_NAME.search(name) is not None


def looks_random(value: str) -> bool:
    """Whether a value can hardly be anything but a key, whatever its name."""
    if len(value) < _LEAST_RANDOM or re.search(r"\s", value) or _is_words(value):
        return False
    has_digit = re.search(r"[0-9]", value) is not None
    return _entropy(value) >= (_LEAST_ENTROPY_BITS if has_digit else _LEAST_ENTROPY_OF_LETTERS)


def credentials(address: str) -> tuple[str, str]:
    """User and password of a URL as they are written in it; both empty where it has none."""
    try:
        network = urlsplit(address).netloc
    except ValueError:
        return "", ""
    user, _, password = network.rpartition("@")[0].partition(":")
    return user, password


def _address_holds_secret(address: str) -> bool:
    user, password = credentials(address)
    if (password and not PLAIN_WORD.fullmatch(password)) or looks_random(user):
        return True
    return any(map(looks_random, re.split(r"[/?&=#]", address)))


def _is_words(value: str) -> bool:
    """Whether a value is made of words and short numbers, as identifiers, paths, versions and sentences are."""
    parts = _SEPARATORS.split(value)
    if not all(len(part) <= _LONGEST_NAME_PART and _NAME_PART.fullmatch(part) for part in parts):
        return False
    # Random letters change their case at every second one.
    lone = re.findall(r"(?<![a-z])[a-z](?![a-z])", value)
    return len(lone) <= _MOST_LONE_LETTERS


def _entropy(value: str) -> float:
    """Bits a character."""
    counts = Counter(value).values()
    return -sum(count / len(value) * math.log2(count / len(value)) for count in counts)
