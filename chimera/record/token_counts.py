"""Token counts of texts that are the same in every run, such as the schemas of the tools, remembered between runs."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from chimera.core.tokens import ENCODING

_MOST = 400
"""Texts. A run with the default tools has seven; those of two hundred imported tools fit as well."""
_HASH_BYTES = 16


class TokenCounts:
    """What one state directory remembers. Best effort: what cannot be remembered is counted again."""

    def __init__(self, state_dir: Path) -> None:
        self._file = state_dir / "token_counts.json"
        self._counts = _read(self._file)
        self._used: dict[str, int] = {}
        self._new = False

    def get(self, text: str) -> int | None:
        """The tokens of a text; None where they are not known."""
        key = _key(text)
        tokens = self._counts.get(key)
        if tokens is not None:
            self._used[key] = tokens
        return tokens

    def put(self, text: str, tokens: int) -> None:
        """Remember the tokens of a text, as the vocabulary counts them."""
        self._used[_key(text)] = tokens
        self._new = True

    def save(self) -> None:
        """Write what is new, and of the rest what was used last."""
        if not self._new:
            return
        counts = {**{key: n for key, n in self._counts.items() if key not in self._used}, **self._used}
        kept = dict(list(counts.items())[-_MOST:])
        temporary = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        try:
            temporary.write_text(json.dumps({ENCODING: kept}), encoding="utf-8")
            temporary.replace(self._file)
        except OSError:
            temporary.unlink(missing_ok=True)
        self._counts, self._new = kept, False


def _key(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES).hexdigest()


def _read(file: Path) -> dict[str, int]:
    try:
        counts = json.loads(file.read_text(encoding="utf-8"))[ENCODING]
        return {str(key): tokens for key, tokens in counts.items() if type(tokens) is int and tokens >= 0}
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return {}
