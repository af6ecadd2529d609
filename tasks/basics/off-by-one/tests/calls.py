"""Calls functions of a module and prints what came of it. Runs in a process of its own, apart from the tests.

Arguments: the folder of the module and its name. Standard input: a JSON list of `[function, arguments]`, where
`{"page": arguments}` in place of an argument stands for the page with these arguments.
"""

import json
import os
import sys
from typing import Any

out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
sys.path.insert(0, sys.argv[1])
module = __import__(sys.argv[2])


def argument(value: Any) -> Any:
    return module.page_at(*value["page"]) if isinstance(value, dict) else value


def plain(value: Any) -> Any:
    if type(value).__name__ == "Page":
        return [value.first, value.last, value.previous, value.next]
    return value


def outcome(name: str, arguments: list[Any]) -> Any:
    try:
        return plain(getattr(module, name)(*map(argument, arguments)))
    except ValueError:
        return "ValueError"


results = [outcome(name, arguments) for name, arguments in json.load(sys.stdin)]
out.write(json.dumps(results))
out.close()
