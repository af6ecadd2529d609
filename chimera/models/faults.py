"""The one place where what a provider says went wrong becomes an error of ours. Texts are matched in lower case.

Order matters: throttling first (its texts speak of tokens too), then size, then what no retry can fix, then the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from msgspec import Struct

from chimera.core.json_text import parsed
from chimera.errors import ContextOverflowError, ModelAuthError, ModelError, ToolsRefusedError

_SHOWN_CHARACTERS = 600

# The patterns below are compiled when something goes wrong: at every start that would take longer than the connection.

# Throttling that talks like an overflow: a limit per time, not per request.
_THROTTLE = (
    r"rate.?limit|too many requests|per[- ](minute|second|hour|day)|please wait|throttl|overloaded"
    r"|\btp[md]\b|service tier capacity exceeded|tokens per min"
)

# Wordings by which providers refuse the size of a request, one entry for each family; examples are in the tests.
_OVERFLOW = "|".join(
    (
        r"context_length_exceeded|exceed_context_size_error|request_too_large|model_context_window_exceeded",
        r"maximum context length|maximum prompt length|exceed\w* (the |this model's )?(available )?context",
        r"context (window|length|limit|size) (is )?(exceed|limit|too)|context window exceeds",
        r"input tokens exceed|exceed\w* the configured limit|input token count",
        r"(prompt|input|inputs|request|messages?) (is|are) too (long|large)(?! a )",
        r"request too large|request entity too large|payload size exceeds",
        r"too many (input )?tokens|expected maxlength",
        r"exceeds the maximum number of tokens|exceeds (the )?maximum allowed (token size|input length)",
        r"too large for model with|prompt contains \d[\d,]* tokens|greater than .{0,40}context",
        r"current length is \d+ while limit is|reduce the length of",
        r"inputs` tokens \+ `max_new_tokens`|exceeded model token limit|more than max tokens",
        r"prompt exceeds max(imum)? length|prompt 超长|exceeds max(imum)? length of prompt",
        r"length limit exceeded|longer than the (model's context|maximum model length)",
        r"length of all messages is too long",
        r"(prompt|input) length (exceeds|\(?\d+\)? exceeds)|token limit exceeded",
    )
)
_NOT_OVERFLOW = r"string_above_max_length|string too long|too many (tools|functions|images|stop)"

# Where the limit is named: the number is group 1.
_LIMITS = (
    r"maximum (?:context|prompt) length (?:is|of) (\d+)",
    r"context (?:length|window|size)(?: \D{0,30}?\b(?:is|of|only))? \(?(\d+) tok",
    r"maximum model length of (\d+)",
    r"cannot exceed (\d+)",
    r"available context size \((\d+)",
    r"maximum number of tokens allowed \(?(\d+)",
    r"configured limit of (\d+)",
    r"context limit:? .{0,60}?> (\d+)",
    r"> (\d+) (?:maximum|tokens)",
    r"too large for model with (\d+)",
    r"while limit is (\d+)",
    r"model token limit:? (\d+)",
    r"max(?:imum)? (?:allowed )?(?:input |prompt )?(?:tokens?|length|token size)\D{0,15}(\d+)",
    r"must be <= (\d+)",
    r"(?:tokens? )?limit(?: exceeded)?(?: is| of|:) (\d+)",
    r"\"?n_ctx\"?: ?(\d+)",
)

_LONGEST_LIMIT = 12
_NOT_TOKENS = r"\d* ?(bytes|char)"

# How servers say that a model has no form for tool calls, or that they were started without one.
_NO_TOOLS = (
    r"does(n't| not) support (tools|tool use|tool call|function call)|no endpoints found that support tool use"
    r"|tool choice requires --enable-auto-tool-choice|tools? param requires --jinja"
    r"|unable to generate parser for this template"
    r"|(tools?|tool.?calling|function.?calling) (is|are) not (supported|enabled|available)"
)

_NO_MONEY = (
    r"insufficient_quota|exceeded your current quota|billing|credit balance|insufficient (balance|credit|funds)"
    r"|payment required|quota.{0,20}exhausted"
)
_NOT_ALLOWED = r"content.?(policy|filter|management)|responsible ai|safety system"
_WAIT = r"(?:try again|retry) in (?:(\d{1,9})m(?!s))?(?:(\d{1,9}(?:\.\d+)?)(ms|s))?"
_NO_MODEL = (
    r"model_not_found|(model|deployment)\b.{0,120}\b(does not exist|not exist|not found|no access)"
    r"|no such model|unknown model|invalid model|not a valid model|try pulling it first|llm provider not provided"
)
_REFUSED_KEY = (
    r"(invalid|incorrect|missing|expired|revoked|no|wrong|unauthorized|must be set).{0,40}api.?key"
    r"|api.?key.{0,60}(invalid|incorrect|missing|expired|not (found|valid|set|provided|configured)|must be set)"
    r"|invalid_api_key|authentication_error|permission_denied|unauthenticated"
)
# An adapter that could not read a body of status 200 says so with a status of its own.
_GARBLED = r"got unexpected response from"
_TRANSPORT_STATUS = {408, 409, 425, 429, 499}


class ProviderFault(Struct, frozen=True, kw_only=True):
    """What is known about a failed request."""

    text: str
    """The provider's own words."""
    status: int | None = None
    """HTTP status; None where the connection failed or broke."""
    code: str = ""
    """The provider's own codes and types, separated by spaces."""
    retry_after_s: float | None = None


def model_error(fault: ProviderFault, *, model: str) -> ModelError:
    """The error of ours that says what the caller can do about a fault."""
    words = f"{fault.code} {fault.text}".lower()
    shown = fault.text.strip()[:_SHOWN_CHARACTERS] or "no text"
    where = f"{model} (HTTP {fault.status})" if fault.status else model
    wait = fault.retry_after_s if fault.retry_after_s is not None else _named_wait(words)
    if (
        fault.status == 402
        or re.search(_NOT_ALLOWED, words)
        or (wait is None and re.search(_NO_MONEY, words))
    ):
        return ModelError(f"{where} will not answer: {shown}. Check the account or the request, then resume.")
    if is_overflow(words, status=fault.status):
        return ContextOverflowError(
            f"{where} refused the request for its size: {shown}", limit=overflow_limit(words)
        )
    if fault.status in {None, 400, 404, 422, 500, 501} and re.search(_NO_TOOLS, words):
        return ToolsRefusedError(f"{where}: {shown}")
    if fault.status in {401, 403} or (fault.status in {None, 400} and re.search(_REFUSED_KEY, words)):
        return ModelAuthError(f"{where} refused the key: {shown}. Check the key of this provider.")
    if fault.status == 404 or (fault.status in {None, 400, 422} and re.search(_NO_MODEL, words)):
        return ModelAuthError(f"{where} is not there: {shown}. Check the model name and the address.")
    broken = fault.status is None or fault.status in _TRANSPORT_STATUS or fault.status >= 500
    # A single request above a limit per minute stays above it, however long one waits.
    hopeless = "request too large" in words or fault.status == 413 or "certificate verify failed" in words
    return ModelError(
        f"{where} failed: {shown}",
        retryable=not hopeless and (broken or bool(re.search(_THROTTLE, words))),
        retry_after_s=wait,
    )


def _named_wait(words: str) -> float | None:
    """Seconds to wait as a text asks: "try again in 6m0.5s", "retry in 20ms"."""
    found = re.search(_WAIT, words)
    if not found or not (found[1] or found[2]):
        return None
    seconds = float(found[2] or 0) / (1000 if found[3] == "ms" else 1)
    return int(found[1] or 0) * 60 + seconds


def is_overflow(text: str, *, status: int | None = None) -> bool:
    """Whether a provider's words refuse the size of a request. Throttling is none, whatever it says of tokens."""
    words = text.lower()
    if re.search(_THROTTLE, words) or re.search(_NOT_OVERFLOW, words):
        return False
    return status == 413 or bool(re.search(_OVERFLOW, words))


def overflow_limit(text: str) -> int | None:
    """The window in tokens that a refusal names, if it names one."""
    words = re.sub(r"(?<=\d)[,_](?=\d{3})", "", text.lower())
    for pattern in _LIMITS:
        found = re.search(pattern, words)
        # Anything smaller is a number of something else: a status, a count of messages; anything longer is none of tokens.
        if (
            found
            and len(found[1]) <= _LONGEST_LIMIT
            and int(found[1]) >= 256
            and not re.match(_NOT_TOKENS, words[found.end(1) :])
        ):
            return int(found[1])
    return None


def retry_after_s(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Seconds to wait as `retry-after` or `retry-after-ms` asks, from seconds or an HTTP date; None without one."""
    lowered = {str(name).lower(): str(value).strip() for name, value in headers.items()}
    milliseconds, value = lowered.get("retry-after-ms", ""), lowered.get("retry-after", "")
    if re.fullmatch(r"\d+(\.\d+)?", milliseconds):
        return float(milliseconds) / 1000
    if re.fullmatch(r"\d+(\.\d+)?", value):
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, IndexError, OverflowError):
        return None
    return max((moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds(), 0.0)


def fault_of(error: BaseException, *, now: datetime) -> ProviderFault:
    """What a foreign exception, and those it was raised from, tell about the failed request.

    Adapters wrap exceptions and change their status on the way (a 413 becomes a 429), so the innermost one counts.
    """
    status, wait = None, None
    said, codes = [], []
    for link in _chain(error):
        body = getattr(link, "body", None)
        codes += _codes(body)
        said.append(_message(body))
        response = getattr(link, "response", None)
        # An exception without headers was never an answer: adapters give those a made-up status.
        if headers := dict(getattr(response, "headers", None) or {}):
            status = getattr(response, "status_code", None) or status
            found = retry_after_s(headers, now=now)
            wait = wait if found is None else found
    own = getattr(error, "status_code", None)
    if status is None and own in {400, 401, 403, 404, 422} and not re.search(_GARBLED, str(error).lower()):
        status = own
    text = next(filter(None, said), "") or _bare(str(getattr(error, "message", None) or error))
    cause = str(list(_chain(error))[-1]).strip()
    if status is None and not any(said) and cause and len(cause) < 200 and cause not in text:
        text = f"{text} ({_bare(cause)})"
    return ProviderFault(text=text, status=status, code=" ".join(dict.fromkeys(codes)), retry_after_s=wait)


def http_fault(status: int, headers: Mapping[str, str], content: bytes, *, now: datetime) -> ProviderFault:
    """What an answer with an error status, or an error in a stream, tells about the failed request."""
    text = content.decode("utf-8", "replace")
    try:
        body = parsed(text)
    except ValueError:
        body = None
    return ProviderFault(
        text=_message(body) or " ".join(text.split())[:_SHOWN_CHARACTERS],
        status=status,
        code=" ".join(dict.fromkeys(_codes(body))),
        retry_after_s=retry_after_s(headers, now=now),
    )


def error_status(body: Any) -> int | None:
    """The HTTP status that an error object in a reply of status 200 stands for; None where `body` holds no error."""
    if not isinstance(body, Mapping) or not body.get("error"):
        return None
    inner = body["error"]
    code = inner.get("code") or inner.get("status") if isinstance(inner, Mapping) else None
    return int(code) if isinstance(code, int | str) and re.fullmatch(r"[45]\d\d", str(code)) else 502


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        original = getattr(link, "original_exception", None)
        link = original if isinstance(original, BaseException) else link.__cause__ or link.__context__


def _codes(body: Any) -> list[str]:
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        if isinstance(inner, Mapping):
            return [str(inner[key]) for key in ("code", "type") if inner.get(key) not in {None, ""}]
    return []


def _message(body: Any) -> str:
    """What an error body says; behind a router, what the provider said comes with it."""
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    if not isinstance(inner, Mapping):
        return inner.strip() if isinstance(inner, str) else ""
    said = inner.get("message")
    metadata = inner.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    return " ".join(text.strip() for text in (said, raw) if isinstance(text, str) and text.strip())


def _bare(text: str) -> str:
    """A text without the names of the exception classes that adapters put in front."""
    original = text.partition(" Original exception:")[0]
    return (
        re.sub(r"^(\s*(litellm\.)?\w*(Error|Exception|Timeout)\b\s*[:-]?\s*)+", "", original).strip() or text
    )
