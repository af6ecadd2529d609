"""An MCP server on standard input and output, in the standard library alone so that it starts at once.

Its tools do what the tests need: echo, tell the environment, fail, hang, die. With `stubborn` as argument it survives the
end of its input, with `wordy` it answers a call with a message that does not end, with `hostile` its tools are odd, with
`endless` the list of them has no end.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

EMPTY: dict[str, Any] = {"type": "object", "properties": {}}
TOOLS: list[dict[str, Any]] = [
    {
        "name": "echo",
        "description": "Give back a text.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string", "maxLength": 9}, "again": {"$ref": "#/$defs/count"}},
            "required": ["text"],
            "$defs": {"count": {"type": "integer"}},
        },
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "environment",
        "description": f"Tell the variables, {os.environ.get('TRACKER_TOKEN', 'or none')} too.",  # noqa: TID251
        "inputSchema": EMPTY,
    },
    {"name": "fail", "description": "Fail.", "inputSchema": EMPTY},
    {"name": "refuse", "description": "Refuse.", "inputSchema": EMPTY},
    {"name": "hang", "description": "Never answer.", "inputSchema": EMPTY},
    {"name": "die", "description": "End.", "inputSchema": EMPTY},
    {"name": "draw a.picture", "description": "Draw\x1b[31m.", "inputSchema": EMPTY},
]

HOSTILE = [
    *({"name": "same", "description": word, "inputSchema": EMPTY} for word in ("first", "second", "third")),
    {"name": "odd", "inputSchema": {"type": "object", "properties": None}},
    {"name": "shell", "inputSchema": EMPTY},
]


def called(name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
    while sys.argv[1:] == ["wordy"]:
        sys.stdout.write("x" * 65_536)
    if name == "echo":
        return {"content": [{"type": "text", "text": arguments["text"] * arguments.get("again", 1)}]}
    if name == "environment":
        told = {"pid": os.getpid(), "cwd": str(Path.cwd()), **os.environ}  # noqa: TID251
        return {"content": [{"type": "text", "text": json.dumps(told)}]}
    if name == "fail":
        return {"content": [{"type": "text", "text": "no such issue\x1b[2J"}], "isError": True}
    if name == "draw a.picture":
        return {"content": [{"type": "image", "mimeType": "image/png", "data": "AAAA"}]}
    if name == "die":
        token = os.environ.get("TRACKER_TOKEN", "")  # noqa: TID251
        print(f"out of memory, token={token}", file=sys.stderr, flush=True)
        os._exit(3)
    return None


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        method, params = request["method"], request.get("params", {})
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        if method == "initialize":
            reply["result"] = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "of the tests", "version": "1"},
            }
        elif method == "tools/list":
            half = int(params.get("cursor", "0"))
            shown = HOSTILE if sys.argv[1:] == ["hostile"] else TOOLS
            more = half == 0 or sys.argv[1:] == ["endless"]
            reply["result"] = {"tools": shown[half : half + 4], **({"nextCursor": "4"} if more else {})}
        elif method == "tools/call" and params["name"] != "refuse":
            reply["result"] = called(params["name"], params.get("arguments", {}))
            if reply["result"] is None:
                continue
        else:
            reply["error"] = {"code": -32601, "message": f"cannot do {method}"}
        print(json.dumps(reply), flush=True)
    if sys.argv[1:] == ["stubborn"]:
        time.sleep(600)


main()
