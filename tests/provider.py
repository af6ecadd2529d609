"""An OpenAI-compatible server on the loopback interface that answers from a script, for tests that need a real wire.

    with LoopbackProvider([say("hello"), refuse(500, "down")]) as provider:
        ... talk to provider.url ...
        assert provider.faults == []

It records every request, the connection it came on and what a strict provider would have refused about its history.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self, TypeAlias

from typing_extensions import override

JSON_TYPE = "application/json"
ABOUT_A_MODEL = "/api/show"
"""Ollama's page about a model. litellm asks for it once in a process, from a thread, at a time of its choosing."""
COUNTED: Mapping[str, Any] = {"counted": True}
"""Stands for a usage computed from the size of the request."""


@dataclass(frozen=True, kw_only=True)
class Said:
    """A chat completion, streamed or not as the request asks."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    """Names and argument texts. Their ids are unique over all replies."""
    finish: str = "stop"
    usage: Mapping[str, Any] | None = field(default_factory=lambda: COUNTED)
    cut: Literal["reset", "quiet"] | None = None
    """Streams only: break the connection, or end the stream in order, before the finish reason."""
    error_event: Mapping[str, Any] | None = None
    """Streams only: sent as a data event in place of the finish reason."""


@dataclass(frozen=True, kw_only=True)
class Raw:
    """Bytes sent as they are."""

    body: bytes
    status: int = 200
    content_type: str = JSON_TYPE
    headers: Mapping[str, str] = field(default_factory=dict)
    piece: int = 0
    """Sent in chunks of so many bytes."""
    cut: bool = False
    """The connection breaks where the body ends, which then ends too early."""


Answer: TypeAlias = Said | Raw


def say(text: str, **more: Any) -> Said:
    """A reply of text."""
    return Said(text=text, **more)


def ask(name: str, arguments: Mapping[str, Any] | str = "{}", **more: Any) -> Said:
    """A reply with one tool call; a str is sent as it is."""
    return ask_all((name, arguments), **more)


def ask_all(*calls: tuple[str, Mapping[str, Any] | str], **more: Any) -> Said:
    """A reply with several tool calls."""
    pairs = tuple((name, a if isinstance(a, str) else json.dumps(dict(a))) for name, a in calls)
    return Said(calls=pairs, **({"finish": "tool_calls"} | more))


def refuse(
    status: int, message: str, *, code: Any = None, kind: str = "invalid_request_error", **headers: str
) -> Raw:
    """An error in the OpenAI shape. Underscores in header names become dashes."""
    return answer_json({"error": {"message": message, "type": kind, "code": code}}, status=status, **headers)


def answer_json(value: Any, *, status: int = 200, **headers: str) -> Raw:
    """Any JSON body."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Raw(body=json.dumps(value).encode(), status=status, headers=named)


@dataclass(kw_only=True)
class Seen:
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    connection: int
    faults: list[str]

    @property
    def messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.body.get("messages", [])
        return messages

    @property
    def prompt(self) -> str:
        """All text of the prompt, arguments of calls included."""
        return "\n".join(_text_of(message) for message in self.messages)


Script: TypeAlias = Callable[[Seen, int], Answer]


class LoopbackProvider:
    """The server. Past the end of a list of answers its last one repeats; `pages` answers other paths with JSON.

    What is asked about a model never takes an answer of the script: it is a page, missing unless `pages` has it.
    """

    def __init__(
        self,
        answers: Sequence[Answer] | Script,
        *,
        pages: Mapping[str, Any] | None = None,
        model: str = "fake",
    ) -> None:
        self.model = model
        self.pages = {"/v1/models": {"data": [{"id": model}]}} if pages is None else dict(pages)
        self.seen: list[Seen] = []
        self.asked: list[str] = []
        """Paths of all requests that were not chat completions."""
        self.connections = 0
        self._script = answers if callable(answers) else lambda _, i: answers[min(i, len(answers) - 1)]
        self._lock = threading.Lock()
        self._calls = 0
        self._server = _Server(("127.0.0.1", 0), _Exchange)
        self._server.provider = self
        self.port = self._server.server_port
        self.root = f"http://127.0.0.1:{self.port}"
        self.url = f"{self.root}/v1"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def faults(self) -> list[str]:
        """What a strict provider would have refused, with the number of its request."""
        return [f"{n}: {fault}" for n, seen in enumerate(self.seen) for fault in seen.faults]

    def connected(self) -> int:
        with self._lock:
            self.connections += 1
            return self.connections

    def call_id(self) -> str:
        with self._lock:
            self._calls += 1
            return f"call_loop{self._calls}"

    def answer(self, seen: Seen) -> Answer:
        with self._lock:
            index = len(self.seen)
            self.seen.append(seen)
        return self._script(seen, index)


def history_faults(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is illegal about a history: pairing of calls and results, ids, arguments, roles, emptiness."""
    faults: list[str] = []
    open_ids: list[str] = []
    before = None
    for n, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            if not open_ids or message.get("tool_call_id") != open_ids.pop(0):
                faults.append(f"message {n} answers no open call")
        else:
            faults += [f"call {i} is unanswered before message {n}" for i in open_ids]
            open_ids = []
        if role == "assistant":
            calls = message.get("tool_calls") or []
            open_ids = [call.get("id") or "" for call in calls]
            faults += _call_faults(calls, n)
            if not calls and not message.get("content"):
                faults.append(f"assistant message {n} is empty")
        if role == before and role in {"user", "system"}:
            faults.append(f"message {n} repeats the role {role}")
        if role == "system" and n:
            faults.append(f"message {n} is a late system message")
        before = role
    faults += [f"call {i} is never answered" for i in open_ids]
    if before not in {"user", "tool"}:
        faults.append(f"the history ends with {before}")
    return faults


def _call_faults(calls: Iterable[Mapping[str, Any]], n: int) -> list[str]:
    calls = list(calls)
    ids = [call.get("id") for call in calls]
    faults = (
        [] if all(ids) and len(set(ids)) == len(ids) else [f"message {n} has an empty or repeated call id"]
    )
    for call in calls:
        try:
            whole = isinstance(json.loads(call["function"]["arguments"]), dict)
        except ValueError:
            whole = False
        if not whole:
            faults.append(f"message {n} has arguments that are no JSON object")
    return faults


def _text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    parts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
    return "".join([*parts, *(call["function"]["arguments"] for call in message.get("tool_calls") or [])])


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    provider: LoopbackProvider

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is part of the tests."""


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    connection_number = 0

    @override
    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection_number = self.server.provider.connected()

    @override
    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._page()

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path in {*self.server.provider.pages, ABOUT_A_MODEL}:
            return self._page()
        body = json.loads(raw)
        seen = Seen(
            path=self.path,
            headers={name.lower(): value for name, value in self.headers.items()},
            body=body,
            connection=self.connection_number,
            faults=history_faults(body["messages"]) if self.path.endswith("/chat/completions") else [],
        )
        answer = self.server.provider.answer(seen)
        if isinstance(answer, Raw):
            return self._send(answer)
        if body.get("stream"):
            return self._stream(answer, body)
        return self._send(self._whole(answer, body))

    def _page(self) -> None:
        provider = self.server.provider
        provider.asked.append(self.path)
        page = provider.pages.get(self.path)
        found = page if isinstance(page, Raw) else answer_json(page, status=404 if page is None else 200)
        self._send(found)

    def _send(self, raw: Raw) -> None:
        self.send_response(raw.status)
        for name, value in {"content-type": raw.content_type, **raw.headers}.items():
            self.send_header(name, value)
        if raw.piece:
            self.send_header("transfer-encoding", "chunked")
        else:
            self.send_header("content-length", str(len(raw.body) + raw.cut))
        self.end_headers()
        if raw.piece:
            for start in range(0, len(raw.body), raw.piece):
                self._chunk(raw.body[start : start + raw.piece])
        else:
            self.wfile.write(raw.body)
        if raw.cut:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        elif raw.piece:
            self.wfile.write(b"0\r\n\r\n")

    def _usage(self, said: Said, body: Mapping[str, Any]) -> dict[str, Any] | None:
        if said.usage != COUNTED:
            return None if said.usage is None else dict(said.usage)
        size = len(json.dumps(body["messages"])) // 4
        return {"prompt_tokens": size, "completion_tokens": 7, "total_tokens": size + 7}

    def _calls(self, said: Said) -> list[dict[str, Any]]:
        return [
            {
                "id": self.server.provider.call_id(),
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for name, arguments in said.calls
        ]

    def _whole(self, said: Said, body: Mapping[str, Any]) -> Raw:
        message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
        if said.calls:
            message["tool_calls"] = self._calls(said)
        choice = {"index": 0, "message": message, "finish_reason": said.finish}
        return answer_json(self._head("chat.completion", [choice], self._usage(said, body)))

    def _head(self, kind: str, choices: list[Any], usage: Any = None) -> dict[str, Any]:
        head = {
            "id": "loop-1",
            "created": 1,
            "model": self.server.provider.model,
            "object": kind,
            "choices": choices,
        }
        return head if usage is None else head | {"usage": usage}

    def _deltas(self, said: Said) -> list[dict[str, Any]]:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
        deltas += [{"reasoning_content": part} for part in _halves(said.reasoning)]
        deltas += [{"content": part} for part in _halves(said.text)]
        calls = self._calls(said)
        for n, call in enumerate(calls):
            opened = call | {"index": n, "function": {"name": call["function"]["name"], "arguments": ""}}
            deltas.append({"tool_calls": [opened]})
        # The second halves follow after all the first ones, as an interleaving server may send them.
        for half in (0, 1):
            for n, call in enumerate(calls):
                part = _halves(call["function"]["arguments"], always=True)[half]
                deltas.append({"tool_calls": [{"index": n, "function": {"arguments": part}}]})
        return deltas

    def _stream(self, said: Said, body: Mapping[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for delta in self._deltas(said):
            self._event([{"index": 0, "delta": delta, "finish_reason": None}])
        if said.cut == "reset":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if said.error_event is not None:
            self._chunk(b"data: " + json.dumps(said.error_event).encode() + b"\n\n")
        elif said.cut is None:
            self._event([{"index": 0, "delta": {}, "finish_reason": said.finish}])
        usage = self._usage(said, body)
        if usage is not None and body.get("stream_options", {}).get("include_usage") and said.cut is None:
            self._event([], usage)
        self._chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, choices: list[Any], usage: Any = None) -> None:
        chunk = self._head("chat.completion.chunk", choices, usage)
        self._chunk(b"data: " + json.dumps(chunk).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def _halves(text: str, *, always: bool = False) -> list[str]:
    middle = len(text) // 2
    return [text[:middle], text[middle:]] if text or always else []
