"""What there is to do next in the generated tasks about results that fit no window."""

from __future__ import annotations

import re

from chimera.bench.policies.mind import Mind
from chimera.bench.policies.programs import DONE, Move, Program, edit, read, search, shell, write
from chimera.bench.policies.view import View

_BUILD = shell("python3 build.py")


def needle(view: View, mind: Mind) -> Move:
    """Try to read the log, look for the stop in it, then for its trace."""
    log = "service.log"
    if view.has_changed("trace.txt"):
        return DONE
    if not view.exchanges:
        return [read(log)]
    stop = _said(view, r"service stopped after trace=(\w+)")
    if stop is None:
        return [search("service stopped after", log)]
    fault = _said(view, rf"trace={stop[1]} limit exceeded: ([a-z ]+), (\d+) allowed, (\d+) wanted")
    if fault is None:
        return [search(f"trace={stop[1]}", log)]
    name, allowed, wanted = fault.groups()
    raised = edit("limits.conf", f"{name} = {allowed}", f"{name} = {wanted}")
    return [raised, write("trace.txt", f"{stop[1]}\n")]


def noisy(view: View, mind: Mind) -> Move:
    """Build, look for the error in what was printed, repair it, build again."""
    built = view.last("shell", **_BUILD.arguments)
    if built is None or any(one.depth < built.depth for one in view.edits):
        return [_BUILD]
    if "build complete" in built.result:
        return DONE
    fault = _said(view, r"error: (src/\d+\.part) needs (\d+), which was renamed to (\d+)")
    if fault is not None:
        return [edit(*fault.groups())]
    output = re.search(r"@run/outputs/\d+\.txt", built.result)
    return [search("^error: ", output[0]) if output else _BUILD]


def long_line(view: View, mind: Mind) -> Move:
    """Try to read the catalog, try to search it, then let a program read it."""
    name = re.search(r"the name `([^`]+)`", view.task)
    assert name is not None
    extract = shell(
        "python3 -c 'import base64, json; "
        f'print(next(base64.b64decode(r["seal"]).decode() for r in json.load(open("catalog.json")) if r["name"] == "{name[1]}"))'
        "' >seal.txt"
    )
    if view.has_run(str(extract.arguments["command"])):
        return DONE
    if not view.exchanges:
        return [read("catalog.json")]
    look = search(name[1], "catalog.json")
    return [extract if view.last("search", **look.arguments) or len(view.exchanges) > 1 else look]


def _said(view: View, pattern: str) -> re.Match[str] | None:
    """What a result in the prompt says, the newest first."""
    found = (re.search(pattern, exchange.result) for exchange in reversed(view.exchanges))
    return next((match for match in found if match), None)


PROGRAMS: tuple[tuple[str, Program], ...] = (
    ("service.log", needle),
    ("build.py", noisy),
    ("catalog.json", long_line),
)
"""As `programs.PROGRAMS`."""
