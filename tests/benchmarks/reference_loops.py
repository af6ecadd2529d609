"""The least that a coding agent can be, over three ways to reach a model: what no agent on that way can be faster than.

python tests/benchmarks/reference_loops.py http.client|httpx|litellm URL TASK
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

Send = Callable[[dict[str, Any]], dict[str, Any]]
PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
TOOL = {"type": "function", "function": {"name": "bash", "description": "Run it.", "parameters": PARAMETERS}}


def main(way: str, url: str, task: str) -> None:
    """Run commands until a reply asks for none."""
    send = {"http.client": over_http_client, "httpx": over_httpx, "litellm": over_litellm}[way](url)
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You run commands."},
        {"role": "user", "content": task},
    ]
    while calls := (reply := send({"messages": messages, "tools": [TOOL]})).get("tool_calls"):
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        for call in calls:
            command = json.loads(call["function"]["arguments"])["command"]
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
            messages.append(
                {"role": "tool", "tool_call_id": call["id"], "content": done.stdout + done.stderr}
            )
    print(reply["content"])


def over_http_client(url: str) -> Send:
    import http.client

    at = urlsplit(url)
    connection = http.client.HTTPConnection(at.netloc)

    def send(body: dict[str, Any]) -> dict[str, Any]:
        content = json.dumps({"model": "fake", **body}).encode()
        connection.request(
            "POST", f"{at.path}/chat/completions", content, {"content-type": "application/json"}
        )
        reply: dict[str, Any] = json.loads(connection.getresponse().read())["choices"][0]["message"]
        return reply

    return send


def over_httpx(url: str) -> Send:
    import httpx

    client = httpx.Client()

    def send(body: dict[str, Any]) -> dict[str, Any]:
        answer = client.post(f"{url}/chat/completions", json={"model": "fake", **body})
        reply: dict[str, Any] = answer.json()["choices"][0]["message"]
        return reply

    return send


def over_litellm(url: str) -> Send:
    import litellm  # noqa: TID251

    def send(body: dict[str, Any]) -> dict[str, Any]:
        answer: Any = litellm.completion(model="openai/fake", api_base=url, api_key="k", **body)
        reply: dict[str, Any] = answer.choices[0].message.model_dump()
        return reply

    return send


if __name__ == "__main__":
    main(*sys.argv[1:])
