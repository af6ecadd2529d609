"""What keys and tokens look like that are known by their form alone.

Each pattern is tried only where one of its fixed parts occurs, and begins at the edge of a word, so that one pass over
a text takes linear time whatever the text is. Forms as the providers document them, November 2026.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Callable, Iterator
from functools import cache

from msgspec import Struct

# The edge of a word, also behind an escape of JSON, whose letter belongs to no word.
_EDGE = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))"
_NUMBER_WITHIN = r"(?=[A-Za-z._~+/=%!*-]{0,300}[0-9=])"


class TokenPattern(Struct, frozen=True, kw_only=True):
    """One kind of secret."""

    name: str
    hints: tuple[str, ...]
    """Lower case; a text that holds none of these has no such secret."""
    pattern: str
    """A regular expression. With a group named `secret` only that part is the secret."""
    lines: bool = True
    """It never reaches over a line end."""

    def replace(self, text: str, mark: Callable[[str], str]) -> str:
        """`text` with every secret of this kind replaced by `mark(name)`."""
        return _compiled(self.pattern).sub(lambda match: _without(match, mark(self.name)), text)


def _token(name: str, body: str, *hints: str) -> TokenPattern:
    return TokenPattern(name=name, hints=hints, pattern=f"{_EDGE}(?:{body})")


TOKEN_PATTERNS = (
    TokenPattern(
        name="private-key",
        hints=("private key-----",),
        lines=False,
        # A block may be cut, numbered, part of a patch or a JSON string. It ends at the latest where no key goes on.
        pattern=r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY-----(?:[A-Za-z0-9+/=,:.|\s]|\\[nrt]|-(?!----)){64,}"
        r"(?:-----END [A-Z0-9 ]{0,30}PRIVATE KEY-----)?",
    ),
    _token(
        "provider-key",
        r"sk-(?:ant|proj|svcacct|admin|or-v1|lf)-[A-Za-z0-9_-]{20,}|sk-[A-Za-z0-9]{32,}|gsk_[A-Za-z0-9]{32,}"
        r"|xai-[A-Za-z0-9]{32,}|pplx-[A-Za-z0-9]{32,}|csk-[a-z0-9]{32,}|nvapi-[A-Za-z0-9_-]{32,}|fw_[A-Za-z0-9]{22,}"
        r"|r8_[A-Za-z0-9]{32,}",
        *("sk-", "gsk_", "xai-", "pplx-", "nvapi-", "fw_", "r8_"),
    ),
    _token(
        "google-key",
        r"AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}",
        "aiza",
        "ya29.",
        "gocspx-",
    ),
    _token("huggingface-token", r"hf_[A-Za-z0-9]{30,}", "hf_"),
    _token(
        "github-token",
        r"gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,}",
        "gho_",
        "ghp_",
        "ghr_",
        "ghs_",
        "ghu_",
        "github_pat_",
    ),
    _token(
        "gitlab-token",
        r"gl(?:pat|dt|rt|cbt|ptt)-[A-Za-z0-9_-]{20,}",
        "glpat-",
        "gldt-",
        "glrt-",
        "glcbt-",
        "glptt-",
    ),
    _token("aws-key-id", r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])", "akia", "asia"),
    TokenPattern(
        name="aws-secret",
        hints=("secret_access_key", "secretaccesskey", "aws_secret"),
        pattern=r"(?i:secret_?access_?key|aws_secret)\W{1,8}(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
    ),
    _token(
        "slack-token",
        r"xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}|hooks\.slack\.com/services/[A-Za-z0-9/]{20,}",
        *("xox", "xapp-", "hooks.slack.com/services/"),
    ),
    _token(
        "stripe-key",
        r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{20,}|whsec_[A-Za-z0-9]{24,}",
        "_live_",
        "_test_",
        "whsec_",
    ),
    _token("package-token", r"npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,}", "npm_", "pypi-"),
    _token("sendgrid-key", r"SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,64}", "sg."),
    _token("azure-key", r"AccountKey=[A-Za-z0-9+/]{60,}={0,2}", "accountkey="),
    _token("jwt", r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}", "eyj"),
    TokenPattern(
        name="authorization",
        hints=("authorization", "api-key", "bearer"),
        pattern=r"(?i:\b(?:authorization|x-api-key|api-key|x-goog-api-key)[\"']?\s{0,4}(?::\s{0,4}[\"']?|=\s{0,4}[\"'])"
        r"(?:(?:bearer|basic|token)\s{1,4})?|\bbearer\s{1,4})"
        rf"{_NUMBER_WITHIN}(?P<secret>[A-Za-z0-9._~+/=-]{{12,}})",
    ),
    TokenPattern(
        name="url-parameter",
        hints=("key=", "token=", "sig=", "signature=", "secret="),
        pattern=r"[?&](?i:key|api_?key|access_token|auth_token|token|sig|signature|client_secret|secret)="
        r"(?P<secret>[A-Za-z0-9._~+/%-]{8,})",
    ),
    TokenPattern(
        name="url-password",
        hints=("://",),
        pattern=rf"://[^\s/@:\"'<>]{{0,64}}:{_NUMBER_WITHIN}(?P<secret>[A-Za-z0-9._~+%!*-]{{8,128}})@",
    ),
)


def redact_tokens(text: str, mark: Callable[[str], str]) -> str:
    """`text` with everything that looks like a secret replaced by `mark(name of its pattern)`."""
    lower = text.lower()
    found = [pattern for pattern in TOKEN_PATTERNS if any(hint in lower for hint in pattern.hints)]
    for pattern in found:
        if not pattern.lines:
            text = pattern.replace(text, mark)
    # Expressions are slow beside a plain search: only lines with a hint are worth it.
    if single := [pattern for pattern in found if pattern.lines]:
        lines = text.split("\n")
        lowered = [line.lower() for line in lines]
        starts = list(itertools.accumulate((len(line) + 1 for line in lowered), initial=0))
        whole = "\n".join(lowered)
        for pattern in single:
            for number in sorted({n for hint in pattern.hints for n in _lines_with(hint, whole, starts)}):
                lines[number] = pattern.replace(lines[number], mark)
        text = "\n".join(lines)
    return text


def _lines_with(hint: str, text: str, starts: list[int]) -> Iterator[int]:
    """Numbers of the lines that hold a hint. `starts` holds where each line begins, and the end."""
    position = text.find(hint)
    while position >= 0:
        number = bisect.bisect_right(starts, position) - 1
        yield number
        position = text.find(hint, starts[number + 1])


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _without(match: re.Match[str], mark: str) -> str:
    if "secret" not in match.re.groupindex:
        return mark
    start, end = match.span("secret")
    whole, offset = match.group(), match.start()
    return whole[: start - offset] + mark + whole[end - offset :]
