from datetime import UTC, datetime, timedelta

import pytest

from chimera.errors import ContextOverflowError, ModelAuthError, ModelError, ToolsRefusedError
from chimera.models.faults import (
    ProviderFault,
    error_status,
    fault_of,
    is_overflow,
    model_error,
    overflow_limit,
    retry_after_s,
)

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)

OVERFLOWS = [
    ("openai", "This model's maximum context length is 8,192 tokens. However, your messages resulted in 9000 tokens.", 8192),
    ("openai responses", "Your input exceeds the context window of this model. Please adjust your input.", None),
    ("openai code", "context_length_exceeded Bad request", None),
    ("azure", "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.", 272000),
    ("openrouter", "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens", 131072),
    ("anthropic", "prompt is too long: 210000 tokens > 200000 maximum", 200000),
    ("anthropic sum", "input length and `max_tokens` exceed context limit: 199211 + 20000 > 200000, decrease input", 200000),
    ("anthropic size", "request_too_large Request exceeds the maximum allowed number of bytes", None),
    ("bedrock", "Input is too long for requested model.", None),
    ("bedrock count", "Too many input tokens. Max input tokens: 128000, request input token count: 130000", 128000),
    ("bedrock schema", "Malformed input request: expected maxLength: 50000, actual: 60000", None),
    ("gemini", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1048576),
    ("vertex", "Request payload size exceeds the limit: 20971520 bytes.", None),
    ("mistral", "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length", 32768),
    ("xai", "This model's maximum prompt length is 131072 but the request contains 140000 tokens.", 131072),
    ("cerebras", "Current length is 9000 while limit is 8192", 8192),
    ("groq", "Please reduce the length of the messages or completion.", None),
    ("vllm", "This model's maximum context length is 4096 tokens. However, you requested 4200 tokens (4000 in the messages)", 4096),
    ("vllm engine", "The decoder prompt (length 9000) is longer than the maximum model length of 8192.", 8192),
    ("sglang", "The input (9000 tokens) is longer than the model's context length (8192 tokens).", 8192),
    ("tgi", "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 200 `max_new_tokens`", 4096),
    ("llama.cpp", "request (4127 tokens) exceeds the available context size (4096 tokens), try increasing it", 4096),
    ("llama.cpp old", "the request exceeds the available context size. try increasing the context size", None),
    ("moonshot", "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)", 262144),
    ("minimax", "invalid params, context window exceeds limit (2013)", None),
    ("glm", "tokens in request more than max tokens allowed 202750", 202750),
    ("glm length", "Prompt exceeds max length", None),
    ("glm chinese", "Prompt 超长", None),
    ("poolside", "The prompt exceeds the maximum allowed input length of 131072 tokens", 131072),
    ("together", "Input length 40000 exceeds maximum allowed token size 32768", 32768),
    ("cohere", "too many tokens: total number of tokens in the prompt cannot exceed 4081", 4081),
    ("length limit", "length limit exceeded", None),
    ("perplexity", "The length of all messages is too long", None),
    ("openai request", "Request too large", None),
    ("prompt", "the prompt is too large", None),
]  # fmt: skip

LOOK_ALIKES = [
    ("bedrock throttling", "Too many tokens, please wait before trying again."),
    ("groq per minute", "Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 9000"),
    ("openai per minute", "Rate limit reached for x on tokens per min (TPM): Limit 30000, Used 29000"),
    ("long string", "string_above_max_length Invalid 'messages[0].content': string too long. Expected maximum length 1000"),
    ("tools", "Invalid 'tools': array too long. too many tools, at most 128"),
    ("output", "max_tokens is too large: 100000. This model supports at most 16384 completion tokens"),
    ("schema", "Invalid schema for function 'edit': 'old' is not of type 'object'"),
    ("name", "Invalid 'tools[0].function.name': name is too long"),
    ("history", "tool_use ids were found without tool_result blocks immediately after"),
]  # fmt: skip


def error_of(text: str, status: int | None = 400, *, code: str = "", wait: float | None = None) -> ModelError:
    return model_error(ProviderFault(text=text, status=status, code=code, retry_after_s=wait), model="p/m")


@pytest.mark.case("E1")
@pytest.mark.parametrize(("text", "limit"), [pytest.param(t, n, id=i) for i, t, n in OVERFLOWS])
def test_a_refusal_for_size_is_known_in_every_wording_with_its_limit(text: str, limit: int | None) -> None:
    error = error_of(text)
    assert isinstance(error, ContextOverflowError)
    assert error.limit == limit
    assert not error.retryable
    assert text in str(error)


@pytest.mark.case("E1")
@pytest.mark.parametrize("text", [pytest.param(t, id=i) for i, t in LOOK_ALIKES])
def test_what_only_sounds_like_a_refusal_for_size_is_none(text: str) -> None:
    assert not is_overflow(text)
    assert not isinstance(error_of(text), ContextOverflowError)


@pytest.mark.case("E1")
def test_a_bare_413_is_an_overflow_and_throttling_of_that_status_is_not() -> None:
    assert isinstance(error_of("", 413), ContextOverflowError)
    error = error_of("Request too large on tokens per minute (TPM): Limit 6000, Requested 9000", 413)
    assert not isinstance(error, ContextOverflowError)
    assert not error.retryable


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("registry.ollama.ai/library/gemma:2b does not support tools", 400),
        ("No endpoints found that support tool use. Try disabling tools.", 404),
        ('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', 400),
        ("tools param requires --jinja flag", 500),
        ("Unable to generate parser for this template. Automatic parser generation failed: none", 400),
        ("Function calling is not enabled for this model", 400),
    ],
)
def test_a_refusal_of_tools_is_known_in_every_wording(text: str, status: int) -> None:
    error = error_of(text, status)
    assert isinstance(error, ToolsRefusedError)
    assert not error.retryable


@pytest.mark.parametrize(
    "text", ["Invalid tools: function name missing", "tool call id not found in history"]
)
def test_a_fault_in_a_call_is_no_refusal_of_tools(text: str) -> None:
    assert not isinstance(error_of(text, 400), ToolsRefusedError)


def test_small_numbers_are_no_window() -> None:
    assert overflow_limit("maximum context length is 12 messages") is None


@pytest.mark.case("E5")
@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("bad key", 401),
        ("not for you", 403),
        ("The model `x` does not exist", 404),
        ("model 'x' not found, try pulling it first", 404),
        ("API key not valid. Please pass a valid API key.", 400),
        ("The api_key client option must be set", None),
        ("LLM Provider NOT provided. You passed model=x", 400),
        ("invalid model ID", 400),
    ],
)
def test_keys_and_names_that_are_refused_are_auth_errors(text: str, status: int | None) -> None:
    error = error_of(text, status)
    assert isinstance(error, ModelAuthError)
    assert not error.retryable


@pytest.mark.case("E4")
@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        ("Payment required", 402, ""),
        ("You exceeded your current quota, please check your plan and billing details.", 429, ""),
        ("slow down", 429, "insufficient_quota"),
        ("Your credit balance is too low", 400, ""),
        ("blocked by our content policy", 400, ""),
        ("Invalid schema for function", 400, ""),
    ],
)
def test_what_waiting_cannot_mend_is_not_retried(text: str, status: int, code: str) -> None:
    error = error_of(text, status, code=code)
    assert type(error) is ModelError
    assert not error.retryable


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("slow down", 429), ("overloaded_error", 529), ("overloaded", None), ("ThrottlingException", 400),
        ("service tier capacity exceeded", 400), ("Too many tokens, please wait", 400), ("boom", 500),
        ("bad gateway", 502), ("Loading model", 503), ("gateway timeout", 504), ("timed out", 408),
        ("Connection reset by peer", None),
    ],
)  # fmt: skip
def test_what_may_pass_is_retried(text: str, status: int | None) -> None:
    error = error_of(text, status)
    assert type(error) is ModelError
    assert error.retryable


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("Please try again in 7.5s.", 7.5), ("try again in 6m0s", 360), ("try again in 20ms", 0.02),
        ("You exceeded your current quota. Please retry in 13s", 13),
    ],
)  # fmt: skip
def test_a_wait_that_only_the_text_names_is_taken(text: str, wait: float) -> None:
    error = error_of(text, 429)
    assert error.retryable
    assert error.retry_after_s == pytest.approx(wait)


def test_the_header_counts_before_the_text() -> None:
    assert error_of("try again in 7s", 429, wait=2).retry_after_s == 2


@pytest.mark.case("E4")
@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry-After": "7"}, 7), ({"retry-after": "0.5"}, 0.5), ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Fri, 01 May 2026 12:01:30 GMT"}, 90), ({"retry-after": "Fri, 01 May 2026 11:00:00 GMT"}, 0),
        ({"retry-after": "soon"}, None), ({"retry-after": ""}, None), ({}, None), ({"retry-after": "-3"}, None),
    ],
)  # fmt: skip
def test_retry_after_is_read_as_seconds_or_date(headers: dict[str, str], wait: float | None) -> None:
    assert retry_after_s(headers, now=NOW) == wait


class Response:
    def __init__(self, status: int, **headers: str) -> None:
        self.status_code = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class WrappedError(Exception):
    """An adapter's exception, with a status of its own making."""

    def __init__(
        self, message: str, *, status: int, response: Response | None = None, body: object = None
    ) -> None:
        super().__init__(message)
        self.message, self.status_code, self.response, self.body = message, status, response, body


def raised(outer: Exception, inner: Exception) -> Exception:
    try:
        raise outer from inner
    except type(outer) as error:
        return error


def test_the_innermost_answer_tells_status_text_codes_and_wait() -> None:
    body = {"error": {"message": "Entity too large", "type": "request_too_large", "code": 413}}
    inner = WrappedError("Error code: 413", status=413, response=Response(413, retry_after="5"), body=body)
    outer = WrappedError("lib.RateLimitError: X", status=429, response=Response(429, server="s"))
    fault = fault_of(raised(outer, inner), now=NOW)
    assert fault == ProviderFault(
        text="Entity too large", status=413, code="413 request_too_large", retry_after_s=5
    )


def test_a_made_up_status_without_an_answer_is_no_status() -> None:
    outer = WrappedError("litellm.APIConnectionError: OpenAIException - Connection error.", status=500)
    fault = fault_of(raised(outer, ConnectionRefusedError("refused by 127.0.0.1")), now=NOW)
    assert (fault.status, fault.text) == (None, "Connection error. (refused by 127.0.0.1)")


def test_a_wait_given_as_date_counts_from_now() -> None:
    when = (NOW + timedelta(seconds=30)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    error = WrappedError("slow", status=429, response=Response(429, retry_after=when))
    assert fault_of(error, now=NOW).retry_after_s == 30


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"error": {"message": "m", "code": 502}}, 502), ({"error": {"code": "429"}}, 429),
        ({"error": {"code": "server_error"}}, 502), ({"error": "text"}, 502), ({"choices": []}, None),
        ({"error": None}, None), ([], None),
    ],
)  # fmt: skip
def test_an_error_in_a_reply_of_status_200_has_a_status(body: object, status: int | None) -> None:
    assert error_status(body) == status


@pytest.mark.parametrize(
    "words", ["retry in {}m", "retry in {}s", "maximum context length is {} tokens", "n_ctx: {}"]
)
def test_numbers_without_end_are_neither_waits_nor_windows(words: str) -> None:
    error = model_error(ProviderFault(text=words.format("9" * 5000), status=429), model="m")
    assert error.retry_after_s is None
    assert overflow_limit(words.format("9" * 5000)) is None


def test_a_date_of_no_zone_on_earth_is_no_wait() -> None:
    headers = {"retry-after": "Fri, 01 May 2026 12:00:20 +99999999999999999"}
    assert retry_after_s(headers, now=datetime(2026, 5, 1, tzinfo=UTC)) is None


def test_a_server_that_cannot_prove_itself_is_asked_once() -> None:
    text = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate (_ssl.c:1006)"
    assert not model_error(ProviderFault(text=text), model="m").retryable
