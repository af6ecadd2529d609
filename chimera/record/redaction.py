"""Takes secrets out of text before it is kept, shown or sent: known values in their usual encodings, and known forms.

What is found becomes `[redacted:NAME]`. A text encrypted or rewritten by whoever holds the secret is not recognised:
against that only the closed network of the sandbox helps.
"""

from __future__ import annotations

import base64
import codecs
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

from chimera.record.token_patterns import redact_tokens
from chimera.workspace.secret_values import MIN_SECRET, PLAIN_WORD

_LEAST_ENCODED = 10
_MIN_LINE = 20
_BLANKS = b" \t\r\n"
_MARK = re.compile(r"\[redacted:[A-Za-z0-9_.-]+\]")
_CHUNK = 1 << 20
_HELD = 8192
"""Characters of a stream that are held back at most."""
_ANNOUNCED = re.compile(
    r"(?i:authorization|api-key|bearer|secret_access_key)[\"']?[\s:=\"']*(?i:bearer|basic|token)?\s*\Z"
)
_ANNOUNCEMENT = 64


class Redactor:
    """Redacts the same secrets everywhere. Time is linear in the text, for each secret.

    Args:
        secrets: name -> value; values shorter than 8 characters and plain words are left alone.
        forms: further texts, each with what stands there instead.
    """

    def __init__(
        self, secrets: Mapping[str, str] | None = None, forms: Mapping[str, str] | None = None
    ) -> None:
        forms = dict(forms or {})
        for name, value in (secrets or {}).items():
            if len(value) >= MIN_SECRET and not PLAIN_WORD.fullmatch(value):
                for form in _forms(value):
                    forms.setdefault(form, mark_of(name))
        self._forms = sorted(forms.items(), key=lambda item: -len(item[0]))
        self._packed = [
            (form.encode("utf-8", "surrogatepass").translate(None, _BLANKS), form) for form in forms
        ]
        self._longest = min(max(map(len, forms), default=0), _HELD)

    def text(self, text: str) -> str:
        """`text` with every secret replaced."""
        if len(text) < MIN_SECRET:
            return text
        return redact_tokens(self._without_wrapped(self._without_known(text)), mark_of)

    def value(self, value: Any) -> Any:
        """A JSON value with every secret replaced in its strings, names included; its structure stays."""
        match value:
            case str():
                return self._string(value)
            case Mapping():
                return {self.text(str(name)): self.value(inner) for name, inner in value.items()}
            case list() | tuple():
                return [self.value(inner) for inner in value]
            case int() if not isinstance(value, bool) and abs(value) >= 10 ** (MIN_SECRET - 1):
                clean = self._without_known(str(value))
                return value if clean == str(value) else clean
            case _:
                return value

    def file(self, path: Path) -> None:
        """Rewrite a file without its secrets; one that holds none is not touched.

        Raises:
            OSError: it cannot be read or rewritten. A file that could not be cleaned is removed.
        """
        clean = path.with_name(f"{path.name}.clean")
        try:
            if self._copy_clean(path, clean):
                clean.chmod(path.stat().st_mode)
                clean.replace(path)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        finally:
            clean.unlink(missing_ok=True)

    def stream(self) -> TextStream:
        """Redaction of a text that comes in pieces."""
        return TextStream(self)

    def unfinished(self, text: str) -> int:
        """Where in `text` the part begins that may be the first part of a secret."""
        start = 1 + max(text.rfind(blank) for blank in " \n\t\r")
        if announced := _ANNOUNCED.search(text, max(0, start - _ANNOUNCEMENT), start):
            start = announced.start()
        for length in range(min(self._longest - 1, len(text)), len(text) - start, -1):
            tail = text[-length:]
            if any(form.startswith(tail) for form, _ in self._forms):
                start = len(text) - length
                break
        block = text.rfind("-----BEGIN")
        open_block = block >= 0 and "-----END" not in text[block:]
        return max(min(start, block) if open_block else start, len(text) - _HELD)

    def _string(self, text: str) -> str:
        """A string; if it is itself JSON, as arguments of calls are, it still is afterwards."""
        clean = self.text(text)
        if clean == text or not text.startswith(("{", "[")):
            return clean
        try:
            structure = json.loads(text)
        except (ValueError, RecursionError):
            return clean
        try:
            json.loads(clean)
        except ValueError:
            return json.dumps(self.value(structure), ensure_ascii=False)
        return clean

    def _without_known(self, text: str) -> str:
        for form, mark in self._forms:
            if form in text:
                text = text.replace(form, mark)
        return text

    def _without_wrapped(self, text: str) -> str:
        """Values that something has broken into lines or groups, as base64 and hex dumps do."""
        if not self._packed or not any(blank in text for blank in " \n\t"):
            return text
        packed = text.encode("utf-8", "surrogatepass").translate(None, _BLANKS)
        marks = dict(self._forms)
        for needle, form in self._packed:
            if needle in packed:
                pattern = r"\s{0,8}".join(map(re.escape, "".join(form.split())))
                text = re.sub(pattern, lambda _, mark=marks[form]: mark, text)  # type: ignore[misc]
        return text

    def _copy_clean(self, source: Path, target: Path) -> bool:
        """Copy without secrets; whether there were any."""
        stream = self.stream()
        # Bytes that are no text come back as they were.
        decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        with source.open("rb") as reader, target.open("wb") as writer:
            target.chmod(0o600)
            while raw := reader.read(_CHUNK):
                writer.write(stream.add(decoder.decode(raw)).encode("utf-8", "surrogateescape"))
            rest = stream.add(decoder.decode(b"", final=True)) + stream.end()
            writer.write(rest.encode("utf-8", "surrogateescape"))
        return stream.changed


class TextStream:
    """A text in pieces: what may be the beginning of a secret waits for the next piece."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""
        self.changed = False
        """Something was redacted."""

    def add(self, piece: str) -> str:
        """What can be passed on after one more piece."""
        text = self._held + piece
        cut = self._redactor.unfinished(text)
        self._held = text[cut:]
        return self._clean(text[:cut])

    def end(self) -> str:
        """The rest."""
        rest, self._held = self._held, ""
        return self._clean(rest)

    def _clean(self, text: str) -> str:
        clean = self._redactor.text(text) if text else ""
        self.changed = self.changed or clean != text
        return clean


def marks_in(text: str) -> list[str]:
    """The marks in `text` that look like one of a redactor, each as often as it is there."""
    return _MARK.findall(text) if "[redacted:" in text else []


def keep_secret(found: dict[str, str], name: str, value: str) -> None:
    """Keep a value under its name, or under a free one like it: no secret takes the place of another."""
    if value not in found.values():
        names = itertools.chain((name,), (f"{name}_{number}" for number in itertools.count(2)))
        found[next(free for free in names if free not in found)] = value


def mark_of(name: str) -> str:
    """What stands for a secret of this name."""
    return f"[redacted:{re.sub(r'[^A-Za-z0-9_.-]', '_', name)[:60]}]"


def _forms(value: str) -> Iterator[str]:
    """A value as it is and as it is usually written."""
    raw = value.encode("utf-8", "surrogateescape")
    yield value
    yield from (
        line for line in value.splitlines() if _MIN_LINE <= len(line) < len(value) and "-----" not in line
    )
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield json.dumps(value)[1:-1]
    yield from (quote(raw, safe=""), quote(raw), quote_plus(raw))
    yield from (raw.hex(), raw.hex().upper())
    for offset in range(3):
        # The characters that depend on nothing but the value, whatever stands before and after it.
        first, last = -(-offset * 8 // 6), (offset + len(raw)) * 8 // 6
        for alphabet in (base64.b64encode, base64.urlsafe_b64encode):
            encoded = alphabet(bytes(offset) + raw)[first:last].decode("ascii")
            if len(encoded) >= _LEAST_ENCODED:
                yield encoded
