"""A wrong option is told with its right form before anything is sent; a right one is passed on."""

from __future__ import annotations

from typing import Any

import pytest

import chimera
from chimera.config import parse_model_options
from chimera.errors import ConfigError
from chimera.models.option_types import check_options


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        ("extra_headers=abc", """'extra_headers={X-Name = "value"}'"""),
        ("extra_headers={X-Count=1}", "printable ASCII"),
        ('extra_headers={X-Name="snow ☃"}', "printable ASCII"),
        ('extra_headers={X-Name="a\\nb"}', "printable ASCII"),
        ('extra_headers={"X Name"="a"}', "header names"),
        ("headers=[1]", "a table"),
        ("extra_body=abc", "a table"),
        ("extra_query=1", "a table"),
        ("thinking=true", "a table"),
        ("response_format=json", "a table"),
        ("temperature=hot", "a number: --model-option 'temperature=0.5'"),
        ("temperature=true", "a number"),
        ("temperature=nan", "a number"),
        ("top_p=inf", "a number"),
        ("max_tokens=many", "a whole number"),
        ("max_tokens=1.5", "a whole number"),
        ("seed=[1]", "a whole number"),
        ("parallel_tool_calls=1", "true or false"),
        ("stop=5", "a list of texts"),
        ("stop=[5]", "a list of texts"),
        ("tool_choice=1", "text or a table"),
        ("user=5", """'user="..."'"""),
        ("api_key=12345678", "text"),
        ("odd=nan", "no request can hold"),
        ("messages=abc", "set by chimera itself; leave it out"),
        ("stream=false", "set by chimera itself"),
        ("model=x", "--model sets it"),
        ("base_url=http://h", "--api-base sets it"),
    ],
)
def test_a_wrong_value_is_refused_with_its_right_form(pair: str, words: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        check_options(parse_model_options([pair]))
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ('extra_headers={X-Name = "a b"}', {"X-Name": "a b"}),
        ('extra_headers={"X-Name": "a b"}', {"X-Name": "a b"}),
        ("temperature=0", 0),
        ("temperature=0.7", 0.7),
        ("stop=END", "END"),
        ('stop=["END"]', ["END"]),
        ("reasoning_effort=high", "high"),
        ("parallel_tool_calls=false", False),
        ('thinking={type="enabled", budget_tokens=1000}', {"type": "enabled", "budget_tokens": 1000}),
        ("of_a_server_of_my_own=[1, 2]", [1, 2]),
    ],
)
def test_a_right_value_and_what_nobody_knows_are_passed_on(pair: str, value: Any) -> None:
    options = parse_model_options([pair])
    check_options(options)
    assert list(options.values()) == [value]


def test_the_example_in_each_message_is_one_that_is_taken() -> None:
    with pytest.raises(ConfigError) as refusal:
        check_options({"extra_headers": 1})
    example = str(refusal.value).partition("--model-option '")[2].removesuffix("'")
    check_options(parse_model_options([example]))


def test_a_wrong_option_ends_with_2_whatever_the_model(tmp_path: Any) -> None:
    for model in ("openai/x", "scripted:nowhere"):
        result = chimera.run("x", workspace=tmp_path, model=model, model_options={"extra_headers": "abc"})
        assert (result.exit_code, result.stop_reason) == (2, "usage_error")
        assert "extra_headers" in result.message
