"""Which values the usual options of a request take: a wrong one is told before anything is sent, not by a library's crash."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from chimera.errors import ConfigError

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OURS = {
    "model": "--model",
    "api_base": "--api-base",
    "base_url": "--api-base",
    **dict.fromkeys(
        ("messages", "tools", "functions", "stream", "client", "timeout", "max_retries", "num_retries")
    ),
}
"""What chimera sets itself, with the option that sets it, if there is one."""


class _Kind(Struct, frozen=True, kw_only=True):
    """A kind of value."""

    words: str
    example: str
    """As it follows `KEY=` on the command line."""
    fits: Callable[[Any], bool]
    names: str


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_header(name: Any, value: Any) -> bool:
    fits = isinstance(value, str) and value.isascii() and value.isprintable()
    return fits and _HEADER_NAME.fullmatch(str(name)) is not None


_KINDS = (
    _Kind(
        words="a number",
        example="0.5",
        fits=_is_number,
        names="temperature top_p min_p presence_penalty frequency_penalty repetition_penalty repeat_penalty",
    ),
    _Kind(
        words="a whole number",
        example="1000",
        fits=_is_whole,
        names="max_tokens max_completion_tokens max_output_tokens n seed top_k top_logprobs num_ctx num_predict",
    ),
    _Kind(
        words="true or false",
        example="true",
        fits=lambda value: isinstance(value, bool),
        names="parallel_tool_calls logprobs drop_params store",
    ),
    _Kind(
        words="text",
        example='"..."',
        fits=_is_text,
        names="user reasoning_effort service_tier verbosity api_key api_version organization",
    ),
    _Kind(
        words="text or a list of texts",
        example='["END"]',
        fits=lambda value: _is_text(value) or (isinstance(value, list) and all(map(_is_text, value))),
        names="stop",
    ),
    _Kind(
        words="text or a table",
        example='"auto"',
        fits=lambda value: _is_text(value) or isinstance(value, Mapping),
        names="tool_choice",
    ),
    _Kind(
        words="a table of header names and printable ASCII texts",
        example='{X-Name = "value"}',
        fits=lambda value: isinstance(value, Mapping) and all(_is_header(*item) for item in value.items()),
        names="extra_headers headers",
    ),
    _Kind(
        words="a table",
        example='{name = "value"}',
        fits=lambda value: isinstance(value, Mapping),
        names="extra_body extra_query thinking response_format metadata logit_bias stream_options reasoning",
    ),
)
_KIND_OF = {name: kind for kind in _KINDS for name in kind.names.split()}


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse what no server takes. Options that are not known here are passed on as they are.

    Raises:
        ConfigError: a wrong kind of value, or an option that chimera sets itself.
    """
    for name, value in options.items():
        if name in _OURS:
            instead = f"; {_OURS[name]} sets it" if _OURS[name] else "; leave it out"
            raise ConfigError(f"the model option {name!r} is set by chimera itself{instead}")
        kind = _KIND_OF.get(name)
        if kind is not None and not kind.fits(value):
            raise ConfigError(
                f"the model option {name} is {value!r}; it must be {kind.words}: "
                f"--model-option '{name}={kind.example}'"
            )
        try:
            json.dumps(value, allow_nan=False)
        except ValueError as fault:
            raise ConfigError(f"the model option {name} is {value!r}, which no request can hold") from fault
