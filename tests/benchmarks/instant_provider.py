"""A model server on the loopback interface that thinks no time at all, and knows when each request came and each answer went.

It speaks as much of the chat-completions and of the Responses format as coding agents need. It reads nothing of a request
before it is answered but what it asks for; all else is kept, to be looked at afterwards.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

_LENGTH = re.compile(rb"^content-length: *(\d+)", re.IGNORECASE | re.MULTILINE)
_CHUNKED = re.compile(rb"^transfer-encoding: *chunked", re.IGNORECASE | re.MULTILINE)
_PIECE_BYTES = 1 << 20
_SHELLS = ("bash", "shell", "exec_command", "shell_command", "local_shell")
_CREATED = {"created": 1, "model": "fake"}

Format = Literal["chat", "responses"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request of the agent's loop and the answer to it. Times by `time.perf_counter`, in seconds."""

    body: bytes
    arrived: float
    """The whole request was there."""
    answered: float
    """The whole answer had been handed to the kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What the model says next: a command, or, where there is none, that it is done."""

    command: str | None


class InstantProvider:
    """Asks for one command after the other and then ends the run.

    Args:
        commands: one a step.
        last: a command that ends the run, for an agent that knows the end by one; else a last reply of text does.
        on_request: called with the number of a request (from 1) when it has arrived, before the answer is made.
    """

    def __init__(
        self,
        commands: Iterable[str],
        *,
        last: str | None,
        on_request: Callable[[int], None] = lambda number: None,
    ) -> None:
        self.exchanges: list[Exchange] = []
        self._commands = [*commands, *([last] if last else [])]
        self._on_request = on_request
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            rest = bytearray()
            try:
                while request := _request(connection, rest):
                    self._answer(connection, *request)
            except OSError:
                return

    def _answer(self, connection: socket.socket, head: bytes, body: bytes) -> None:
        arrived = time.perf_counter()
        path = head.split(b" ", 2)[1].partition(b"?")[0]
        format_: Format | None = (
            "chat"
            if path.endswith(b"/chat/completions")
            else "responses"
            if path.endswith(b"/responses")
            else None
        )
        if format_ is None or not head.startswith(b"POST"):
            connection.sendall(_http(b'{"data": [{"id": "fake"}]}', "application/json"))
            return
        if b'"tools"' not in body:  # a title or the like, which agents ask for beside their work
            connection.sendall(_reply(format_, body, Step(command=None), 0))
            return
        with self._lock:
            number = len(self.exchanges) + 1
            self._on_request(number)
            command = self._commands[number - 1] if number <= len(self._commands) else None
            connection.sendall(_reply(format_, body, Step(command=command), number))
            self.exchanges.append(Exchange(body=body, arrived=arrived, answered=time.perf_counter()))


def _request(connection: socket.socket, rest: bytearray) -> tuple[bytes, bytes] | None:
    """Head and body of the next request; None at the end of the connection."""
    while (end := rest.find(b"\r\n\r\n")) < 0:
        if not _more(connection, rest):
            return None
    head = bytes(rest[: end + 2])
    del rest[: end + 4]
    if re.search(rb"^expect: *100-continue", head, re.IGNORECASE | re.MULTILINE):
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    if _CHUNKED.search(head):
        return head, _chunks(connection, rest)
    found = _LENGTH.search(head)
    return head, _taken(connection, rest, int(found[1]) if found else 0)


def _chunks(connection: socket.socket, rest: bytearray) -> bytes:
    body = bytearray()
    while True:
        while (end := rest.find(b"\r\n")) < 0:
            _more(connection, rest)
        size = int(bytes(rest[:end]).partition(b";")[0], 16)
        del rest[: end + 2]
        body += _taken(connection, rest, size)
        _taken(connection, rest, 2)
        if size == 0:
            return bytes(body)


def _taken(connection: socket.socket, rest: bytearray, size: int) -> bytes:
    while len(rest) < size and _more(connection, rest):
        pass
    taken = bytes(rest[:size])
    del rest[:size]
    return taken


def _more(connection: socket.socket, rest: bytearray) -> bool:
    piece = connection.recv(_PIECE_BYTES)
    rest += piece
    return bool(piece)


def _http(body: bytes, content_type: str) -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _reply(format_: Format, body: bytes, step: Step, number: int) -> bytes:
    call = None if step.command is None else _call(body, step.command)
    usage = {"input": len(body) // 4, "output": 7, "total": len(body) // 4 + 7}
    if format_ == "responses":
        return _http(_responses_events(call, usage, number), "text/event-stream")
    whole = _chat(call, usage, number)
    if b'"stream":true' in body or b'"stream": true' in body:
        return _http(_chat_events(whole), "text/event-stream")
    return _http(json.dumps(whole).encode(), "application/json")


def _call(body: bytes, command: str) -> tuple[str, str]:
    """Name and arguments of a call of whatever tool of the request runs commands."""
    for name in _SHELLS:
        at = body.find(b'"name":"%b"' % name.encode())
        at = body.find(b'"name": "%b"' % name.encode()) if at < 0 else at
        if at >= 0:
            schema = body[at : body.find(b'"required"', at)]
            key = "cmd" if b'"cmd"' in schema else "command"
            value: Any = (
                ["bash", "-c", command]
                if name in {"shell", "local_shell"} and b'"array"' in schema
                else command
            )
            return name, json.dumps({key: value})
    raise ValueError("the request offers no tool that runs commands")


def _chat(call: tuple[str, str] | None, usage: Mapping[str, int], number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "done" if call is None else None}
    if call is not None:
        function = {"name": call[0], "arguments": call[1]}
        message["tool_calls"] = [
            {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
        ]
    tokens = {
        f"{name}_tokens": usage[key]
        for name, key in (("prompt", "input"), ("completion", "output"), ("total", "total"))
    }
    choice = {"index": 0, "message": message, "finish_reason": "stop" if call is None else "tool_calls"}
    return {"id": f"r{number}", "object": "chat.completion", **_CREATED, "choices": [choice], "usage": tokens}


def _chat_events(whole: Mapping[str, Any]) -> bytes:
    (choice,) = whole["choices"]
    head = {**whole, "object": "chat.completion.chunk"}
    del head["usage"]
    deltas = [(choice["message"], None), ({}, choice["finish_reason"])]
    chunks: list[Any] = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        for delta, reason in deltas
    ]
    chunks.append({**head, "choices": [], "usage": whole["usage"]})
    return b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"


def _responses_events(call: tuple[str, str] | None, usage: Mapping[str, int], number: int) -> bytes:
    if call is None:
        part = {"type": "output_text", "text": "done", "annotations": []}
        item = {
            "id": f"m{number}",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
    else:
        named = {"call_id": f"call_{number}", "name": call[0], "arguments": call[1]}
        item = {"id": f"f{number}", "type": "function_call", "status": "completed", **named}
    tokens = {f"{name}_tokens": size for name, size in usage.items()}
    response = {
        "id": f"r{number}",
        "object": "response",
        "status": "completed",
        "output": [item],
        "usage": tokens,
    }
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode()) for event in events
    )
