"""An MCP server on standard input and output, in the standard library alone so that it starts at once.

Its tools do what the tests need: echo, tell the environment, fail, hang, die. With `stubborn` as argument it survives the
end of its input.
"""

import json
import os
import sys
import time

EMPTY = {"type": "object", "properties": {}}
TOOLS = [
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
    {"name": "environment", "description": "Tell the variables.", "inputSchema": EMPTY},
    {"name": "fail", "description": "Fail.", "inputSchema": EMPTY},
    {"name": "refuse", "description": "Refuse.", "inputSchema": EMPTY},
    {"name": "hang", "description": "Never answer.", "inputSchema": EMPTY},
    {"name": "die", "description": "End.", "inputSchema": EMPTY},
    {"name": "draw a.picture", "description": "Draw\x1b[31m.", "inputSchema": EMPTY},
]


def called(name, arguments):
    if name == "echo":
        return {"content": [{"type": "text", "text": arguments["text"] * arguments.get("again", 1)}]}
    if name == "environment":
        return {"content": [{"type": "text", "text": json.dumps(dict(os.environ))}]}
    if name == "fail":
        return {"content": [{"type": "text", "text": "no such issue\x1b[2J"}], "isError": True}
    if name == "draw a.picture":
        return {"content": [{"type": "image", "mimeType": "image/png", "data": "AAAA"}]}
    if name == "die":
        print("out of memory, token=" + os.environ.get("TRACKER_TOKEN", ""), file=sys.stderr, flush=True)
        os._exit(3)
    return None


def main():
    print("ready", os.getpid(), os.getcwd(), file=sys.stderr, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        method, params = request["method"], request.get("params", {})
        reply = {"jsonrpc": "2.0", "id": request["id"]}
        if method == "initialize":
            reply["result"] = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "of the tests", "version": "1"},
            }
        elif method == "tools/list":
            half = int(params.get("cursor", "0"))
            reply["result"] = {"tools": TOOLS[half : half + 4], **({} if half else {"nextCursor": "4"})}
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
