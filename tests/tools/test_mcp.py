"""Tools of MCP servers: a real program on standard input and output, and the official server over HTTP."""

from __future__ import annotations

import json
import math
import os
import re
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from chimera.config import process_environment
from chimera.errors import ConfigError
from chimera.tools.base import Tool, ToolOutput, ToolSet
from chimera.tools.foreign import Imported, tool_name
from chimera.tools.mcp import mcp_tools
from chimera.tools.mcp_file import read_mcp_file
from chimera.workspace import process_table

PROGRAM = Path(__file__).with_name("mcp_program.py")
LEGAL = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,63}")
TOKEN = "trk-4815162342-canary"
pytestmark = pytest.mark.xdist_group("mcp")


def program(*arguments: str, **more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-S", str(PROGRAM), *arguments], **more}


def opened(folder: Path, servers: Mapping[str, Any], **environment: str) -> AbstractContextManager[Imported]:
    path = folder / "servers.json"
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    root = folder / "workspace"
    root.mkdir(exist_ok=True)
    return mcp_tools(path, root=root, environment={**process_environment(), **environment})


class Calls:
    """Calls imported tools as a model would."""

    def __init__(self, imported: Imported) -> None:
        self.imported = imported
        self._tools = ToolSet(imported.tools)

    def __call__(self, name: str, **arguments: Any) -> ToolOutput:
        return self._tools.run(name, json.dumps(arguments))

    def tool(self, name: str) -> Tool:
        return next(tool for tool in self.imported.tools if tool.name == name)


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Calls]:
    folder = tmp_path_factory.mktemp("mcp")
    servers = {
        "tracker": program(env={"TRACKER_TOKEN": "${OF_THE_USER}", "PLAIN": "as given"}),
        "slow one": program(timeout=0.2, tools=["ha*", "die"], exclude_tools=["die"]),
        "off": {"disabled": True, "command": "/nonexistent"},
    }
    with opened(folder, servers, OF_THE_USER=TOKEN, SOME_API_KEY="sk-canary-99", ODD="value") as imported:
        yield Calls(imported)


def test_tools_get_names_that_every_provider_takes_and_the_filter_of_the_file(calls: Calls) -> None:
    names = [tool.name for tool in calls.imported.tools]
    own = ["echo", "environment", "fail", "refuse", "hang", "die", "draw_a_picture"]
    assert names == [*(f"tracker__{name}" for name in own), "slow_one__hang"]
    assert all(map(LEGAL.fullmatch, names))


def test_a_tool_keeps_its_schema_and_says_whether_it_only_reads(calls: Calls) -> None:
    echo, picture = calls.tool("tracker__echo"), calls.tool("tracker__draw_a_picture")
    assert (echo.effect, picture.effect) == ("foreign_read", "foreign")
    assert echo.parameters["properties"]["text"] == {"type": "string", "maxLength": 9}
    assert picture.description == r"Draw\x1b[31m."


def test_a_result_comes_back_as_text_and_what_is_no_text_is_told(calls: Calls) -> None:
    assert calls("tracker__echo", text="hello ", again=2).text == "hello hello "
    assert calls("tracker__draw_a_picture").text == "[image, image/png, 3 bytes; not shown]"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param({}, "'text' is a required property", id="missing"),
        pytest.param({"text": 5}, "Argument text: 5 is not of type 'string'", id="kind"),
        pytest.param({"text": "ten letters"}, "Argument text: 'ten letters' is too long", id="bound"),
        pytest.param({"text": "a", "again": "b"}, "Argument again: 'b' is not of type 'integer'", id="by reference"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_not_sent(calls: Calls, arguments: dict[str, Any], told: str) -> None:
    output = calls("tracker__echo", **arguments)
    assert not output.ok
    assert told in output.text
    assert "Nothing was sent" in output.text


def test_a_null_for_an_optional_argument_means_that_it_is_not_given(calls: Calls) -> None:
    assert calls("tracker__echo", text="a", again=None).text == "a"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        pytest.param("tracker__fail", "no such issue", id="the tool fails"),
        pytest.param("tracker__refuse", "The server tracker refused the call: cannot do tools/call. Correct", id="the server refuses"),
        pytest.param("slow_one__hang", "got no answer within 0.2 s. The server may still be at work", id="no answer"),
    ],
)  # fmt: skip
def test_a_failure_tells_the_model_what_happened_and_its_next_move(
    calls: Calls, name: str, told: str
) -> None:
    output = calls(name)
    assert not output.ok
    assert told in output.text
    assert "\x1b" not in output.text


def test_a_call_ends_with_the_time_of_the_run(calls: Calls) -> None:
    calls.imported.deadline.ends_at = time.monotonic() + 0.2
    try:
        assert "got no answer within" in calls("tracker__hang").text
        assert "time of the run is up" in calls("tracker__echo", text="x").text
    finally:
        calls.imported.deadline.ends_at = math.inf


def test_half_a_character_ends_no_server(calls: Calls) -> None:
    assert "half a character" in calls("tracker__echo", text="\ud800").text
    assert calls("tracker__echo", text="x").text == "x"


def test_a_server_gets_the_variables_that_commands_get_and_those_of_its_file(calls: Calls) -> None:
    told = json.loads(calls("tracker__environment").text.replace("[redacted:TRACKER_TOKEN]", TOKEN))
    assert (told["TRACKER_TOKEN"], told["PLAIN"]) == (TOKEN, "as given")
    assert told["PATH"]
    assert not {"SOME_API_KEY", "ODD", "OF_THE_USER"} & told.keys()
    assert calls.imported.secrets == {"TRACKER_TOKEN": TOKEN}
    assert Path(told["cwd"]).name != "workspace"


def test_a_server_that_dies_takes_only_its_own_tools_with_it_and_says_its_last_words(tmp_path: Path) -> None:
    servers = {"weak": program(env={"TRACKER_TOKEN": TOKEN}), "strong": program()}
    with opened(tmp_path, servers) as imported:
        calls = Calls(imported)
        first = calls("weak__die").text
        assert "'weak' ended during the call" in first
        assert "It said: out of memory, token=[redacted:TRACKER_TOKEN]" in first
        assert "Do without its tools" in first
        assert "'weak' has ended and is not started again in this run" in calls("weak__echo", text="a").text
        assert calls("strong__echo", text="a").text == "a"


def test_a_message_without_end_ends_its_server_long_before_its_time_is_up(tmp_path: Path) -> None:
    servers = {"wordy": program("wordy", timeout=100), "strong": program()}
    with opened(tmp_path, servers) as imported:
        calls = Calls(imported)
        told = calls("wordy__echo", text="a").text
        assert "'wordy' ended during the call" in told
        assert "a message of more than 16,000,000 bytes" in told
        assert calls("strong__echo", text="a").text == "a"


def test_tools_of_one_name_are_all_there_and_what_is_no_schema_of_arguments_is_left_out(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, {"bad": program("hostile")}) as imported:
        assert [tool.description for tool in imported.tools] == ["first", "second", "third", "shell"]
        assert imported.tools[-1].name == "bad__shell"
        assert len(imported.notices) == 1
        calls = ToolSet(imported.tools)
        assert len(calls.names) == 4
        assert not any(calls.run(name, "{no json").ok for name in calls.names)


def test_what_a_server_says_of_its_tools_holds_no_secret(calls: Calls) -> None:
    assert (
        calls.tool("tracker__environment").description == "Tell the variables, [redacted:TRACKER_TOKEN] too."
    )


def test_servers_end_with_the_block_and_also_when_it_is_left_by_an_exception(tmp_path: Path) -> None:
    pids: list[int] = []

    def crash() -> None:
        with opened(tmp_path, {"one": program(), "two": program()}) as imported:
            calls = Calls(imported)
            pids.extend(json.loads(calls(f"{name}__environment").text)["pid"] for name in ("one", "two"))
            raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        crash()
    assert not set(pids) & process_table.living().keys()


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels do not tie a process to its parent")
def test_a_server_that_ignores_the_end_of_its_input_does_not_outlive_a_killed_chimera(tmp_path: Path) -> None:
    parent = f"""\
import json, subprocess, sys
from pathlib import Path
from chimera.tools.mcp_file import Program
from chimera.tools.server_program import ServerProgram
place = Program(command={sys.executable!r}, arguments=({str(PROGRAM)!r}, "stubborn"), environment={{}}, cwd=Path({str(tmp_path)!r}))
with ServerProgram.of(place, {{}}, outside=Path("/nonexistent")) as program:
    server = subprocess.Popen(program.command_line(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    server.stdin.write(b'{{"id": 1, "method": "tools/call", "params": {{"name": "environment"}}}}\\n')
    server.stdin.flush()
    told = json.loads(server.stdout.readline())["result"]["content"][0]["text"]
    print(json.loads(told)["pid"], flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=PROGRAM.parents[2]
    ) as chimera:
        assert chimera.stdout is not None
        server = int(chimera.stdout.readline())
        watched = os.pidfd_open(server)
        chimera.kill()
    try:
        assert select.select([watched], [], [], 60)[0], "the server is still there"
    finally:
        os.close(watched)


@pytest.mark.parametrize(
    ("servers", "told"),
    [
        pytest.param({"a": {"command": "no-such-program-7"}}, "no program 'no-such-program-7'", id="missing"),
        pytest.param({"a": {"command": "./here"}}, "no program '{folder}/here'", id="beside the file"),
        pytest.param({"a": {"command": "x", "cwd": "/nonexistent"}}, "no program 'x'", id="first fault first"),
        pytest.param({"a": {"command": "sh", "cwd": "gone"}}, "'{folder}/gone' to start an MCP server in", id="folder"),
        pytest.param({"a": {"command": "sh", "tool": []}}, "unknown key 'tool'; did you mean 'tools'?", id="typing error"),
        pytest.param({"a": {"command": "sh", "args": "x"}}, "'args' of the server 'a'", id="kind"),
        pytest.param({"a": {"command": "sh", "env": {"A": "${NOT_SET_HERE}"}}}, "NOT_SET_HERE, which is not set", id="variable"),
        pytest.param({"a": {"command": "sh", "timeout": 0}}, "the timeout 0", id="timeout"),
        pytest.param({"a": {"type": "sse", "url": "https://x"}}, "the type 'sse'", id="type"),
        pytest.param({"a": {"url": "file:///etc/passwd"}}, "must begin with http", id="address"),
        pytest.param({"a b": {"command": "sh"}, "a.b": {"command": "sh"}}, "would be called 'a_b'", id="two of a name"),
        pytest.param({"a": {"disabled": True}}, "names no server", id="none"),
        pytest.param({"a": program(tools=["nothing*"])}, "its filter lets through; it has: echo", id="empty filter"),
        pytest.param({"a": program("endless")}, "does not come to the end of its list of tools (100 pages)", id="endless list"),
        pytest.param({"a": {"command": "sh", "args": ["-c", "echo broken >&2"]}}, "cannot be used: ", id="no server"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_told_with_the_place(
    tmp_path: Path, servers: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError) as fault, opened(tmp_path, servers):
        pass
    assert told.replace("{folder}", str(tmp_path)) in str(fault.value)


def test_a_program_found_by_its_name_is_never_one_of_the_workspace(tmp_path: Path) -> None:
    trap = tmp_path / "workspace/bin/helpful-server"
    trap.parent.mkdir(parents=True)
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/trapped\n", encoding="utf-8")
    trap.chmod(0o755)
    with (
        pytest.raises(ConfigError, match="no program 'helpful-server'"),
        opened(tmp_path, {"a": {"command": "helpful-server"}}, PATH=f"{trap.parent}:/usr/bin:/bin"),
    ):
        pass
    assert not (tmp_path / "trapped").exists()


def test_two_tools_never_share_a_name_however_they_are_called() -> None:
    taken: dict[str, None] = {}
    for name in ["get issue", "get.issue", "x" * 80, "x" * 80 + "y", "", "日本", *["again"] * 4]:
        made = tool_name("tracker", name, taken)
        assert LEGAL.fullmatch(made)
        assert made not in taken
        taken[made] = None


@contextmanager
def official_server(shown: list[str]) -> Iterator[str]:
    """The server of the official SDK on the loopback interface, in a thread; `shown` gets what authorises each request."""
    import uvicorn
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("of the tests")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    inner = server.streamable_http_app()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        shown.extend(value.decode() for name, value in scope.get("headers", ()) if name == b"authorization")
        await inner(scope, receive, send)

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    running = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="on", ws="none"))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    finally:
        running.should_exit = True
        thread.join()
        listener.close()


def test_a_server_over_http_is_shown_the_headers_of_its_file_and_its_end_is_told(tmp_path: Path) -> None:
    shown: list[str] = []
    with ExitStack() as run:
        with official_server(shown) as url:
            servers = {"web": {"url": url, "headers": {"Authorization": "Bearer ${OF_THE_USER}"}}}
            calls = Calls(run.enter_context(opened(tmp_path, servers, OF_THE_USER=TOKEN)))
            assert calls("web__add", a=2, b=3).text == "5"
            assert "'b' is a required property" in calls("web__add", a=2).text
            assert set(shown) == {f"Bearer {TOKEN}"}
            assert calls.imported.secrets == {"Authorization": TOKEN}
        gone = calls("web__add", a=2, b=3)
        assert not gone.ok
        assert "Do without its tools" in gone.text


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_an_answer_over_http_without_end_is_bounded(tmp_path: Path, kind: str) -> None:
    with speaking(kind) as url, opened(tmp_path, {"web": {"url": url, "timeout": 100}}) as imported:
        told = Calls(imported)("web__echo", text="a")
        assert not told.ok
        assert "no answer within" not in told.text
        assert len(told.text) < 1000


@contextmanager
def speaking(kind: str) -> Iterator[str]:
    """A server over HTTP that answers calls with a message that does not end."""
    tool = {"name": "echo", "inputSchema": {"type": "object"}}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if "id" not in request:
                self.send_response(202)
                self.end_headers()
                return
            server = {"capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
            results = {
                "initialize": {**server, "protocolVersion": request.get("params", {}).get("protocolVersion")},
                "tools/list": {"tools": [tool]},
            }
            self.send_response(200)
            self.send_header(
                "Content-Type", kind if request["method"] == "tools/call" else "application/json"
            )
            self.end_headers()
            if request["method"] != "tools/call":
                reply = {"jsonrpc": "2.0", "id": request["id"], "result": results.get(request["method"])}
                if reply["result"] is None:
                    reply = {
                        "jsonrpc": "2.0",
                        "id": request["id"],
                        "error": {"code": -32601, "message": "no"},
                    }
                self.wfile.write(json.dumps(reply).encode())
                return
            with suppress(OSError):
                self.wfile.write(b"data: " if kind == "text/event-stream" else b'"')
                while True:
                    self.wfile.write(b"x" * 65_536)

        @override
        def handle(self) -> None:
            with suppress(ConnectionError):
                super().handle()

        @override
        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/mcp"
    server.shutdown()
    server.server_close()
    thread.join()


def entry_secrets(tmp_path: Path, **servers: Any) -> list[tuple[str, str]]:
    path = tmp_path / "servers.json"
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return [secret for entry in read_mcp_file(path, {"OF_THE_USER": TOKEN}) for secret in entry.secrets]


def test_every_key_of_the_file_is_known_whatever_it_is_called(tmp_path: Path) -> None:
    headers = {"Cookie": f"lang=en; session={TOKEN}-1", "Proxy-Authorization": f"Basic {TOKEN}-2"}
    url = "https://x/mcp?api_key=${OF_THE_USER}-3&page=1"
    assert entry_secrets(tmp_path, web={"url": url, "headers": headers}) == [
        ("Cookie", "en"),
        ("Cookie", f"{TOKEN}-1"),
        ("Proxy-Authorization", f"{TOKEN}-2"),
        ("api_key", f"{TOKEN}-3"),
    ]


def test_two_servers_may_call_their_keys_the_same(tmp_path: Path) -> None:
    servers = {n: program(env={"TRACKER_TOKEN": f"{TOKEN}-{n}"}, tools=["environment"]) for n in ("a", "b")}
    with opened(tmp_path, servers) as imported:
        assert set(imported.secrets.values()) == {f"{TOKEN}-a", f"{TOKEN}-b"}
        assert all(TOKEN not in tool.description for tool in imported.tools)


def test_a_password_in_an_address_is_refused_and_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as fault, opened(tmp_path, {"a": {"url": f"https://me:{TOKEN}@x"}}):
        pass
    assert TOKEN not in str(fault.value)


def test_a_proxy_that_cannot_be_used_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    with (
        pytest.raises(ConfigError, match=r"no connection to tracker\.example can be made from here"),
        opened(tmp_path, {"a": {"url": "https://tracker.example/mcp"}}),
    ):
        pass


def test_an_address_without_a_server_stops_before_anything_runs(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/mcp"
        with (
            pytest.raises(ConfigError, match="'web' cannot be used"),
            opened(tmp_path, {"web": {"url": url}}),
        ):
            pass
