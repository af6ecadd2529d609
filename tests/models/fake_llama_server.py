#!/usr/bin/env python3
"""Stands in for llama-server: the same options, /health that loads first, /props and /v1/models as it reports them."""

from __future__ import annotations

import http.server
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from typing_extensions import override

OPTIONS = dict(zip(sys.argv[1::1], sys.argv[2::1], strict=False))
ENVIRONMENT = os.environ  # noqa: TID251
MOST = 100_000
SAMPLING = ("temperature", "dry_multiplier", "dry_allowed_length", "dry_penalty_last_n")
TEMPLATE = Path(OPTIONS["--model"]).read_text(errors="replace")


class Handler(http.server.BaseHTTPRequestHandler):
    asked = 0
    replied = 0

    def do_GET(self) -> None:
        Handler.asked += 1
        window = min(MOST, int(OPTIONS["--ctx-size"]))
        name = OPTIONS["--alias"]
        if self.path == "/health" and Handler.asked <= int(ENVIRONMENT.get("FAKE_LOADING", "1")):
            error = {"message": "Loading model", "type": "unavailable_error", "code": 503}
            return self.answer(503, {"error": error})
        answers: dict[str, Any] = {
            "/health": {"status": "ok"},
            "/props": {"default_generation_settings": {"n_ctx": window}, "chat_template": TEMPLATE},
            "/v1/models": {"data": [{"id": name, "meta": {"n_ctx": window}}]},
        }
        return self.answer(200, answers[self.path])

    def do_POST(self) -> None:
        """One reply; then its memory is at an end."""
        Handler.replied += 1
        if Handler.replied > 1:
            print("CUDA error: out of memory", flush=True)
            os._exit(1)
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        print("asked", json.dumps({name: asked.get(name) for name in SAMPLING}), flush=True)
        choice = {"message": {"role": "assistant", "content": "hm"}, "finish_reason": "stop"}
        self.answer(200, {"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 1}})

    def answer(self, status: int, body: Any) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    @override
    def log_message(self, *_: Any) -> None:
        pass


if "FAKE_FAULT" in ENVIRONMENT:
    print("loading model\nerror: " + ENVIRONMENT["FAKE_FAULT"])
    sys.exit(1)
if "FAKE_STUBBORN" in ENVIRONMENT:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("listening", flush=True)
http.server.HTTPServer(("127.0.0.1", int(OPTIONS["--port"])), Handler).serve_forever()
