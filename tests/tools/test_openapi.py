"""Operations of an OpenAPI description as tools, against a real HTTP service on the loopback interface."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typing_extensions import override

from chimera.errors import ConfigError
from chimera.tools.base import Tool, ToolOutput, ToolSet
from chimera.tools.foreign import Imported
from chimera.tools.openapi import Description, openapi_tools
from chimera.tools.openapi_operations import METHODS
from chimera.tools.openapi_schema import MOST_NODES, Schemas

KEY = "svc-4815162342-canary"
TEXT = {"type": "string"}


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A request as the service saw it."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Answers:
    """What the service says to everything."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    body: bytes = b'{"ok":true}'
    seen: list[Seen] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def service() -> Iterator[Answers]:
    answers = Answers()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answers.seen.append(Seen(method=self.command, target=self.path, headers=headers, body=body))
            self.send_response(answers.status)
            for name, value in answers.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answers.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answers.body)

        @override
        def log_message(self, *arguments: object) -> None:
            pass

    for method in ("GET", "PUT", "POST", "DELETE", "HEAD", "PATCH"):
        setattr(Handler, f"do_{method}", Handler.answer)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    answers.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield answers
    server.shutdown()
    server.server_close()
    thread.join()


def described(paths: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "info": {"title": "T", "version": "1"}, "paths": dict(paths), **more}


def opened(
    folder: Path, document: Any, *, root: Path | None = None, name: str = "shop.json", **more: Any
) -> AbstractContextManager[Imported]:
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    description = Description(file=path, **{"methods": tuple(METHODS), **more})
    return openapi_tools(
        description, root=root or folder / "elsewhere", environment={"SHOP": KEY, "ODD": "a\nb"}
    )


def call(imported: Imported, name: str, **arguments: Any) -> ToolOutput:
    return ToolSet(imported.tools).run(name, json.dumps(arguments))


def only(imported: Imported) -> Tool:
    (tool,) = imported.tools
    return tool


LIST = {
    "/shops/{shop id}/items": {
        "parameters": [{"name": "shop id", "in": "path", "required": True, "schema": TEXT, "description": "Which."}],
        "get": {
            "operationId": "items.list",
            "summary": "List items",
            "description": "Newest first.",
            "parameters": [
                {"name": "tags", "in": "query", "schema": {"type": "array", "items": TEXT}},
                {"name": "ids", "in": "query", "explode": False, "schema": {"type": "array", "items": {"type": "integer"}}},
                {"name": "filter", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
                {"name": "where", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}},
                {"name": "X-Trace", "in": "header", "schema": TEXT},
                {"name": "Authorization", "in": "header", "required": True, "schema": TEXT},
                {"name": "limit", "in": "query", "schema": {"type": "integer", "maximum": 50}, "example": 20},
            ],
        },
    }
}  # fmt: skip


def test_an_operation_becomes_a_tool_with_its_parameters_side_by_side(tmp_path: Path) -> None:
    with opened(tmp_path, described(LIST), base_url="http://x") as imported:
        tool = only(imported)
    assert (tool.name, tool.effect) == ("shop__items_list", "foreign_read")
    assert tool.description == "List items. Newest first."
    assert list(tool.parameters["properties"]) == [
        "tags",
        "ids",
        "filter",
        "where",
        "X-Trace",
        "limit",
        "shop_id",
    ]
    assert tool.parameters["properties"]["limit"] == {"type": "integer", "maximum": 50, "example": 20}
    assert tool.parameters["properties"]["shop_id"] == {"type": "string", "description": "Which."}
    assert tool.parameters["required"] == ["shop_id"]


def test_each_argument_is_written_where_and_how_the_description_says(
    tmp_path: Path, service: Answers
) -> None:
    with opened(tmp_path, described(LIST), base_url=service.url) as imported:
        arguments = {
            "tags": ["a b", "c&d"],
            "ids": [1, 2],
            "filter": {"a": "x"},
            "where": {"p": 1},
            "X-Trace": "t",
            "limit": 5,
        }
        output = call(imported, "shop__items_list", **arguments, shop_id="ä/1")
    assert output.ok
    assert output.text == 'HTTP 200 OK application/json\n{"ok":true}'
    (seen,) = service.seen
    path, _, query = seen.target.partition("?")
    assert path == "/v1/shops/%C3%A4%2F1/items"
    assert query == "tags=a%20b&tags=c%26d&ids=1%2C2&filter[a]=x&where=%7B%22p%22%3A%201%7D&limit=5"
    assert seen.headers["x-trace"] == "t"
    assert "authorization" not in seen.headers


@pytest.mark.parametrize(
    ("content_type", "sent"),
    [
        pytest.param("application/json; charset=utf-8", b'{"name": "\xc3\xa4 b", "count": 2}', id="json"),
        pytest.param(
            "application/merge-patch+json", b'{"name": "\xc3\xa4 b", "count": 2}', id="a kind of json"
        ),
        pytest.param("application/x-www-form-urlencoded", b"name=%C3%A4%20b&count=2", id="form"),
    ],
)
def test_the_body_is_one_argument(tmp_path: Path, service: Answers, content_type: str, sent: bytes) -> None:
    schema = {
        "type": "object",
        "properties": {"name": TEXT, "count": {"type": "integer"}},
        "required": ["name"],
    }
    body = {"required": True, "content": {"application/xml": {}, content_type: {"schema": schema}}}
    parameters = [{"name": "body", "in": "query", "schema": TEXT}]
    paths = {"/items": {"post": {"operationId": "add", "requestBody": body, "parameters": parameters}}}
    with opened(tmp_path, described(paths), base_url=service.url) as imported:
        assert only(imported).effect == "foreign"
        assert "'name' is a required property" in call(imported, "shop__add", body={"count": 1}).text
        assert "'body' is a required property" in call(imported, "shop__add").text
        assert call(imported, "shop__add", body={"name": "ä b", "count": 2}, body_query="q").ok
    (seen,) = service.seen
    assert (seen.method, seen.target, seen.body) == ("POST", "/v1/items?body=q", sent)
    assert seen.headers["content-type"] == content_type.partition(";")[0]


@pytest.mark.parametrize(
    ("schemes", "security", "expected"),
    [
        pytest.param({}, None, ("authorization", f"Bearer {KEY}"), id="nothing said"),
        pytest.param({"a": {"type": "http", "scheme": "bearer"}}, [{"a": []}], ("authorization", f"Bearer {KEY}"), id="bearer"),
        pytest.param({"a": {"type": "http", "scheme": "Basic"}}, [{"a": []}], ("authorization", "Basic c3ZjLTQ4MTUxNjIzNDItY2FuYXJ5"), id="basic"),
        pytest.param({"a": {"type": "apiKey", "in": "header", "name": "X-Key"}}, [{"a": []}], ("x-key", KEY), id="header"),
        pytest.param({"a": {"type": "apiKey", "in": "cookie", "name": "k"}, "b": {"type": "oauth2"}}, [{"a": []}, {"b": []}], ("authorization", f"Bearer {KEY}"), id="the first that can be"),
        pytest.param({"a": {"type": "http", "scheme": "bearer"}}, [], None, id="an operation that wants none"),
    ],
)  # fmt: skip
def test_the_key_goes_where_the_description_wants_it(
    tmp_path: Path, service: Answers, schemes: Any, security: Any, expected: tuple[str, str] | None
) -> None:
    operation = {"operationId": "get", **({} if security is None else {"security": security})}
    document = described({"/x": {"get": operation}}, components={"securitySchemes": schemes})
    with opened(tmp_path, document, base_url=service.url, variable="SHOP") as imported:
        call(imported, "shop__get")
        assert imported.secrets == {"SHOP": KEY}
    headers = service.seen[0].headers
    assert KEY not in json.dumps({k: v for k, v in headers.items() if expected is None or k != expected[0]})
    assert expected is None or headers[expected[0]] == expected[1]


def test_a_key_in_the_query_is_sent_there(tmp_path: Path, service: Answers) -> None:
    schemes = {"a": {"type": "apiKey", "in": "query", "name": "api_key"}}
    document = described({"/x": {"get": {"operationId": "get"}}}, security=[{"a": []}], components={"securitySchemes": schemes})  # fmt: skip
    with opened(tmp_path, document, base_url=service.url, variable="SHOP") as imported:
        call(imported, "shop__get")
    assert service.seen[0].target == f"/v1/x?api_key={KEY}"


@pytest.mark.parametrize("value", ["..", ".", ""])
def test_a_path_argument_cannot_climb_out_of_its_place(tmp_path: Path, service: Answers, value: str) -> None:
    paths = {"/items/{id}/delete": {"post": {"operationId": "drop"}}}
    with opened(tmp_path, described(paths), base_url=service.url) as imported:
        output = call(imported, "shop__drop", id=value)
    assert not output.ok
    assert f"Argument id cannot be {value!r}" in output.text
    assert service.seen == []


def test_a_header_argument_is_one_line(tmp_path: Path, service: Answers) -> None:
    with opened(tmp_path, described(LIST), base_url=service.url) as imported:
        output = call(imported, "shop__items_list", **{"shop_id": "1", "X-Trace": "a\r\nHost: evil"})
    assert "must be plain ASCII on one line" in output.text
    assert service.seen == []


@pytest.mark.parametrize("place", ["header", "query", "path"])
@pytest.mark.parametrize("name", ["X-Größe", "x y\u2028", "x:y", "", "\ud800"], ids=ascii)
def test_a_parameter_of_any_name_is_sent_or_told_and_never_crashes(
    tmp_path: Path, service: Answers, place: str, name: str
) -> None:
    path = f"/x/{{{name}}}" if place == "path" else "/x"
    operation = {
        "operationId": "get",
        "parameters": [{"name": name, "in": place, "required": place == "path"}],
    }
    paths = {path: {"get": operation}, "/y": {"get": {"operationId": "other"}}}
    with opened(tmp_path, described(paths), base_url=service.url, methods=("get",)) as imported:
        for tool in imported.tools:
            for value in ("größe", "\u2028", 5, {"k\u00fc": ["ö"]}):
                arguments = dict.fromkeys(tool.parameters["properties"], value)
                output = call(imported, tool.name, **arguments)
                assert output.ok or "Nothing was sent" in output.text, output.text


@pytest.mark.parametrize("name", ["X-Größe", "x y", "x:y", ""])
def test_what_cannot_be_the_name_of_a_header_is_no_argument(tmp_path: Path, name: str) -> None:
    parameter = {"name": name, "in": "header", "schema": TEXT}
    paths = {
        "/free": {"get": {"operationId": "free", "parameters": [parameter]}},
        "/bound": {"get": {"operationId": "bound", "parameters": [{**parameter, "required": True}]}},
    }
    with opened(tmp_path, described(paths), base_url="http://x") as imported:
        assert only(imported).name == "shop__free"
        assert only(imported).parameters["properties"] == {}
        assert f"it needs {name!r} as header" in imported.notices[0]


def test_a_key_that_a_header_of_no_possible_name_asks_for_is_not_sent(
    tmp_path: Path, service: Answers
) -> None:
    schemes = {"k": {"type": "apiKey", "in": "header", "name": "X-Schlüssel"}}
    document = described(
        {"/x": {"get": {"operationId": "get"}}}, security=[{"k": []}], components={"securitySchemes": schemes}
    )
    with opened(tmp_path, document, base_url=service.url, variable="SHOP") as imported:
        assert call(imported, "shop__get").ok
    assert KEY not in str(service.seen)


@pytest.mark.parametrize(
    "path", ["/lit/../../admin", "/lit/%2e%2E/x", "/./x", "/a/..", "/a\\..\\b", "/x?y=1", "/x#y"]
)
def test_a_path_that_is_no_plain_one_is_left_out_and_told(tmp_path: Path, path: str) -> None:
    paths = {path: {"get": {"operationId": "climb"}}, "/a..b/.c": {"get": {"operationId": "fine"}}}
    with opened(tmp_path, described(paths), base_url="http://x/v1") as imported:
        assert only(imported).name == "shop__fine"
        assert f"GET {path} is left out" in imported.notices[0]


def test_arguments_that_make_up_a_climb_together_are_not_sent(tmp_path: Path, service: Answers) -> None:
    paths = {"/items/.{id}/x": {"get": {"operationId": "get"}}}
    with opened(tmp_path, described(paths), base_url=service.url) as imported:
        assert not call(imported, "shop__get", id=".").ok
    assert service.seen == []


def test_a_call_ends_with_the_time_of_the_run(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        paths = {"/x": {"get": {"operationId": "get"}}}
        with opened(tmp_path, described(paths), base_url=url) as imported:
            imported.deadline.ends_at = time.monotonic() + 0.2
            output = call(imported, "shop__get")
            assert "got no answer within" in output.text
            assert "time of the run is up" in call(imported, "shop__get").text


def test_a_redirect_is_followed_on_the_same_host_and_no_key_goes_to_another(
    tmp_path: Path, service: Answers
) -> None:
    document = described({"/old": {"get": {"operationId": "old"}, "post": {"operationId": "make"}}})
    service.status, service.headers = 302, {"Location": "/v1/new"}
    with opened(tmp_path, document, base_url=service.url, variable="SHOP") as imported:
        assert "was redirected 4 times" in call(imported, "shop__old").text
        assert [seen.target for seen in service.seen] == ["/v1/old", *["/v1/new"] * 3]
        assert "redirect (HTTP 302)" in call(imported, "shop__make").text
        service.headers = {
            "Location": f"http://localhost:{service.url.split(':')[2].split('/')[0]}/v1/new?x=1"
        }
        before = len(service.seen)
        told = call(imported, "shop__old").text
    assert "which is not followed" in told
    assert len(service.seen) == before + 1


@pytest.mark.parametrize("status", [404, 422, 500])
def test_a_refusal_of_the_service_is_told_with_its_words(
    tmp_path: Path, service: Answers, status: int
) -> None:
    service.status, service.body = status, b'{"error":"no such \x1b[31mitem"}'
    with opened(
        tmp_path, described({"/x": {"get": {"operationId": "get"}}}), base_url=service.url
    ) as imported:
        output = call(imported, "shop__get")
    assert not output.ok
    assert f"HTTP {status}" in output.text
    assert "no such item" in output.text
    assert "correct the arguments, or go another way" in output.text


def test_an_answer_without_end_and_a_binary_one_are_bounded(tmp_path: Path, service: Answers) -> None:
    service.headers, service.body = {"Content-Type": "image/png"}, bytes(range(256)) * 40_000
    with opened(
        tmp_path, described({"/x": {"get": {"operationId": "get"}}}), base_url=service.url
    ) as imported:
        output = call(imported, "shop__get")
    assert len(output.text) < 20_000_000
    assert "cut after 8.0 MB" in output.text
    assert not output.whole


def test_a_service_that_is_not_there_is_told(tmp_path: Path, service: Answers) -> None:
    with opened(
        tmp_path, described({"/x": {"get": {"operationId": "get"}}}), base_url="http://127.0.0.1:1"
    ) as imported:
        told = call(imported, "shop__get").text
    assert "could not reach 127.0.0.1:1" in told
    assert "Do without it" in told


def test_only_reading_methods_are_offered_unless_others_are_asked_for(tmp_path: Path) -> None:
    paths = {"/x": {method: {"operationId": method} for method in ("get", "post", "delete")}}
    offered = []
    for methods in (("get",), ("post", "delete")):
        with opened(tmp_path, described(paths), base_url="http://x", methods=methods) as imported:
            offered.append([tool.name for tool in imported.tools])
    assert offered == [["shop__get"], ["shop__post", "shop__delete"]]
    assert Description(file=tmp_path).methods == ("get",)


def test_what_cannot_be_sent_from_here_is_left_out_and_told(tmp_path: Path) -> None:
    upload = {"required": True, "content": {"multipart/form-data": {"schema": {}}}}
    session = {"name": "sid", "in": "cookie", "required": True, "schema": TEXT}
    paths = {
        "/a": {"post": {"requestBody": upload}},
        "/b": {"get": {"parameters": [session]}},
        "/c": {"get": {"parameters": [{**session, "required": False}]}},
    }
    with opened(tmp_path, described(paths), base_url="http://x") as imported:
        assert [tool.name for tool in imported.tools] == ["shop__get_c"]
        assert only(imported).description == "GET /c"
        first, second = imported.notices
    assert first == "POST /a is left out: its body is multipart/form-data, which is not sent from here"
    assert second == "GET /b is left out: it needs 'sid' as cookie, which is not sent from here"


def test_the_service_is_where_the_user_or_the_description_says(tmp_path: Path) -> None:
    paths = {"/x": {"get": {"operationId": "get"}}}
    server = {"url": "https://{region}.shop.example/v2/", "variables": {"region": {"default": "eu"}}}
    with opened(tmp_path, described(paths, servers=[server])) as imported:
        assert len(imported.tools) == 1
    nowhere: list[list[dict[str, str]]] = [
        [],
        [{"url": "/v1"}],
        [{}],
        [{"url": "https://{region}.shop.example"}],
    ]
    for servers in nowhere:
        with (
            pytest.raises(ConfigError, match="--openapi-base-url"),
            opened(tmp_path, described(paths, servers=servers)),
        ):
            pass


def test_a_description_in_the_workspace_does_not_say_which_host_is_called(tmp_path: Path) -> None:
    document = described({"/x": {"get": {}}}, servers=[{"url": "https://evil.example"}])
    with pytest.raises(ConfigError, match="lies in the workspace"), opened(tmp_path, document, root=tmp_path):
        pass
    with opened(tmp_path, document, root=tmp_path, base_url="https://shop.example") as imported:
        assert len(imported.tools) == 1


@pytest.mark.parametrize(
    ("document", "more", "told"),
    [
        pytest.param("{", {}, "is not JSON", id="json"),
        pytest.param("a: [", {}, "is not YAML", id="yaml"),
        pytest.param("- a", {}, "it does not say which", id="a list"),
        pytest.param({"swagger": "2.0", "paths": {}}, {}, "must be an OpenAPI description of version 3", id="old"),
        pytest.param({"openapi": "3.0.0"}, {}, 'has no "paths"', id="no paths"),
        pytest.param(described({}), {}, "no operation with the method", id="nothing"),
        pytest.param(described({"/x": {"get": {}}}), {"methods": ("fetch",)}, "openapi_methods has 'fetch'", id="method"),
        pytest.param(described({"/x": {"get": {}}}), {"base_url": "ftp://x"}, "must be http:// or https://", id="address"),
        pytest.param(described({"/x": {"get": {}}}), {"base_url": "https://u:p@x"}, "must be http:// or https://", id="password"),
        pytest.param(described({"/x": {"get": {}}}), {"variable": "NOT_SET"}, "NOT_SET is to hold the service's key", id="no key"),
        pytest.param(described({"/x": {"get": {}}}), {"variable": "ODD"}, "not plain ASCII on one line", id="odd key"),
        pytest.param(described({"/x": {"get": {"parameters": [{"$ref": "other.yaml#/x"}]}}}), {}, "GET /x: the reference 'other.yaml#/x' leads out", id="another file"),
        pytest.param(described({"/x": {"get": {"parameters": [{"$ref": "#/a/b"}]}}}), {}, "'#/a/b' leads nowhere", id="nowhere"),
        pytest.param(described({"/x": {"get": {"parameters": [{"$ref": "#/loop"}]}}}, loop={"$ref": "#/loop"}), {}, "lead in a circle", id="circle"),
        pytest.param(described({"/x": {"post": {"requestBody": {"content": []}}}}), {}, None, id="no content"),
        pytest.param(described({"/x": {"post": {"requestBody": {"content": {"application/json": 7}}}}}), {}, "POST /x is not written as OpenAPI is", id="wrong kind"),
        pytest.param('{"openapi": "3.0.0", "paths": {"/x": ' + '{"a": ' * 500 + "1" + "}" * 502, {}, "nested more than 200 deep", id="deep JSON"),
        pytest.param("openapi: 3.0.0\npaths: " + "[" * 300 + "]" * 300, {}, "nested more than 200 deep", id="deep YAML"),
        pytest.param("openapi: 3.0.0\npaths: {}\n" + "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)), {}, "once its aliases are written out", id="aliases"),
    ],
)  # fmt: skip
def test_a_description_that_cannot_be_used_is_told(
    tmp_path: Path, document: Any, more: dict[str, Any], told: str | None
) -> None:
    context = opened(tmp_path, document, **{"base_url": "https://shop.example", **more})
    if told is None:
        with context as imported:
            assert len(imported.tools) == 1
        return
    with pytest.raises(ConfigError) as fault, context:
        pass
    assert told in str(fault.value)


def test_yaml_says_the_same_as_json_also_about_dates(tmp_path: Path) -> None:
    text = """
openapi: 3.0.3
paths:
  /x:
    get:
      operationId: get
      parameters:
        - {name: day, in: query, schema: {type: string, format: date, example: 2026-01-31}}
"""
    with opened(tmp_path, text, base_url="https://x", name="shop.yaml") as imported:
        assert only(imported).parameters["properties"]["day"]["example"] == "2026-01-31"
        json.dumps(only(imported).schema())


def test_words_of_yaml_are_what_they_are_in_json(tmp_path: Path) -> None:
    """Not what they were in YAML 1.1: `NO` is a country, `on` a name, 12:30 a time, and `=` an operator."""
    text = """
openapi: 3.0.3
paths:
  /x:
    get:
      operationId: get
      parameters:
        - {name: on, in: query, schema: {enum: [NO, yes, 12:30, 1_0, 010, =, 7, -0.5, 1e3, true, null]}}
        - {name: y, in: query, schema: {type: object, properties: {off: {type: string}, 1: {type: string}}}}
"""
    with opened(tmp_path, text, base_url="https://x", name="shop.yaml") as imported:
        parameters = only(imported).parameters["properties"]
    words = ["NO", "yes", "12:30", "1_0", "010", "=", 7, -0.5, 1000.0, True, None]
    assert parameters["on"] == {"enum": words}
    assert list(parameters["y"]["properties"]) == ["off", "1"]


@pytest.mark.parametrize("value", ["!!binary aGVsbG8=", "!!set {a, b}", "!!timestamp 2026-01-31"])
def test_what_json_has_no_form_for_is_refused(tmp_path: Path, value: str) -> None:
    text = f"openapi: 3.0.3\npaths: {{/x: {{get: {{description: {value}}}}}}}\n"
    with (
        pytest.raises(ConfigError, match="JSON has no form for"),
        opened(tmp_path, text, base_url="https://x", name="shop.yaml"),
    ):
        pass


def test_numbers_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="NaN is no number"), opened(tmp_path, '{"openapi": NaN}'):
        pass


def test_operations_of_one_name_are_all_there(tmp_path: Path) -> None:
    paths = {f"/{n}": {"get": {"operationId": "list", "summary": str(n)}} for n in range(4)}
    with opened(tmp_path, described(paths), base_url="https://x") as imported:
        assert [tool.description for tool in imported.tools] == ["0", "1", "2", "3"]


def test_of_user_and_password_the_password_alone_is_a_secret_too(tmp_path: Path) -> None:
    path = tmp_path / "shop.json"
    path.write_text(json.dumps(described({"/x": {"get": {}}})), encoding="utf-8")
    description = Description(file=path, base_url="https://x", variable="SHOP")
    with openapi_tools(
        description, root=tmp_path / "elsewhere", environment={"SHOP": f"ada:{KEY}"}
    ) as imported:
        assert set(imported.secrets.values()) == {f"ada:{KEY}", KEY}


def test_a_key_that_no_operation_asks_for_is_told(tmp_path: Path) -> None:
    schemes = {"a": {"type": "apiKey", "in": "cookie", "name": "k"}}
    document = described({"/x": {"get": {}}}, security=[{"a": []}], components={"securitySchemes": schemes})
    with opened(tmp_path, document, base_url="https://x", variable="SHOP") as imported:
        assert "The key in SHOP is sent with no operation" in imported.notices[0]


def test_an_address_with_a_key_in_it_is_not_shown(tmp_path: Path) -> None:
    for address in (f"https://me:{KEY}@x", f"https://x?token={KEY}"):
        with (
            pytest.raises(ConfigError) as fault,
            opened(tmp_path, described({"/x": {"get": {}}}), base_url=address),
        ):
            pass
        assert KEY not in str(fault.value)


def test_a_redirect_out_of_the_address_of_the_service_is_not_followed(
    tmp_path: Path, service: Answers
) -> None:
    service.status, service.headers = 302, {"Location": "/v1/../admin"}
    with opened(
        tmp_path, described({"/x": {"get": {"operationId": "get"}}}), base_url=service.url
    ) as imported:
        assert "which is not followed" in call(imported, "shop__get").text
    assert len(service.seen) == 1


def test_no_proxy_is_asked_for_this_machine(
    tmp_path: Path, service: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with opened(
        tmp_path, described({"/x": {"get": {"operationId": "get"}}}), base_url=service.url
    ) as imported:
        assert call(imported, "shop__get").ok


def test_a_list_in_a_form_is_written_as_often_as_it_has_items(tmp_path: Path, service: Answers) -> None:
    body = {"content": {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}}}
    paths = {"/x": {"post": {"operationId": "add", "requestBody": body}}}
    with opened(tmp_path, described(paths), base_url=service.url) as imported:
        assert call(imported, "shop__add", body={"tags": ["a", "b c"], "map": {"k": 1}, "on": True}).ok
    assert service.seen[0].body == b"tags=a&tags=b%20c&map=%7B%22k%22%3A%201%7D&on=true"


@pytest.mark.parametrize(
    ("charset", "content"),
    [("iso-8859-1", "grün".encode("latin-1")), ("UTF-16", "grün".encode("utf-16")), ("nonsense", b"gr\xc3\xbcn"),
     ("punycode", b"gr\xc3\xbcn"), ("zip", b"gr\xc3\xbcn")],
)  # fmt: skip
def test_an_answer_is_read_in_the_characters_that_it_names(
    tmp_path: Path, service: Answers, charset: str, content: bytes
) -> None:
    service.headers, service.body = {"Content-Type": f"text/plain; charset={charset}"}, content
    with opened(
        tmp_path, described({"/x": {"get": {"operationId": "get"}}}), base_url=service.url
    ) as imported:
        assert call(imported, "shop__get").text == "HTTP 200 OK text/plain\ngrün"


@pytest.mark.parametrize("begun", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"])  # fmt: skip
def test_an_answer_in_drops_is_not_waited_for_beyond_the_limit(tmp_path: Path, begun: bytes) -> None:
    over = threading.Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, suppress(OSError):
            connection.sendall(begun)
            while not over.wait(0.02):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=(server,))
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with opened(tmp_path, described({"/x": {"get": {"operationId": "get"}}}), base_url=url) as imported:
            imported.deadline.ends_at = time.monotonic() + 0.3
            told = call(imported, "shop__get").text
        over.set()
        thread.join()
    assert "got no answer within 0." in told


def test_a_proxy_that_cannot_be_used_is_told(
    tmp_path: Path, service: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    with opened(
        tmp_path, described({"/x": {"get": {"operationId": "get"}}}), base_url="https://shop.example"
    ) as imported:
        assert "No connection to shop.example can be made from here" in call(imported, "shop__get").text


def standalone(schema: Any, **components: Any) -> dict[str, Any]:
    return Schemas({"components": {"schemas": components}}).standalone(schema)


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def test_references_are_resolved_and_a_schema_that_contains_itself_ends_where_it_does() -> None:
    node = {
        "type": "object",
        "properties": {"value": TEXT, "next": ref("Node"), "all": {"type": "array", "items": ref("Node")}},
    }
    made = standalone({"allOf": [ref("Node"), {"required": ["value"]}]}, Node=node)
    inner = {
        "type": "object",
        "properties": {
            "value": TEXT,
            "next": {"type": "object"},
            "all": {"type": "array", "items": {"type": "object"}},
        },
    }
    assert made == {"allOf": [inner, {"required": ["value"]}]}
    jsonschema.Draft202012Validator.check_schema(made)


def test_what_stands_beside_a_reference_counts_too() -> None:
    assert standalone({**ref("A"), "description": "d"}, A=TEXT) == {"type": "string", "description": "d"}
    assert standalone({**ref("A"), "maxLength": 3}, A=TEXT) == {"allOf": [TEXT, {"maxLength": 3}]}


def test_the_size_of_a_schema_is_bounded_however_it_refers_to_itself() -> None:
    names = [f"S{n}" for n in range(20)]
    schemas = {
        name: {
            "type": "object",
            "properties": {f"p{i}": ref(other) for i, other in enumerate(names) if other != name},
        }
        for name in names
    }
    made = json.dumps(standalone(ref("S0"), **schemas))
    assert made.count('"type"') <= 2 * MOST_NODES


def test_the_dialect_of_3_0_becomes_json_schema() -> None:
    schema = {
        "type": "object",
        "required": ["id", "size", "loose"],
        "properties": {
            "id": {"type": "integer", "readOnly": True},
            "size": {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False},
            "colour": {"type": "string", "nullable": True, "enum": ["red"]},
            "nullable": {"type": "boolean", "xml": {"name": "x"}, "x-internal": 1},
        },
        "discriminator": {"propertyName": "colour"},
    }  # fmt: skip
    assert standalone(schema) == {
        "type": "object",
        "required": ["size", "loose"],
        "properties": {
            "size": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9},
            "colour": {"type": ["string", "null"], "enum": ["red", None]},
            "nullable": {"type": "boolean"},
        },
    }
