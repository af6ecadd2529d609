"""What there is to do next in each generated task, given what the prompt tells. One function a task; none remembers anything.

A program returns the next calls, or its answer as text. What it cannot see it asks its `Mind` for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from chimera.bench.generators.exact_strings import LABELS, SHIFTS
from chimera.bench.policies.mind import GUESS, LookFirst, Mind
from chimera.bench.policies.view import Call, Exchange, View

Move = list[Call] | str
Program = Callable[[View, Mind], Move]

DONE = "All of it is done."


def read(path: str, **arguments: int) -> Call:
    """A call of `read_file`."""
    return Call("read_file", {"path": path, **arguments})


def write(path: str, content: str) -> Call:
    """A call of `write_file`."""
    return Call("write_file", {"path": path, "content": content})


def edit(path: str, old: str, new: str) -> Call:
    """A call of `edit_file` with one edit."""
    return Call("edit_file", {"path": path, "edits": [{"old": old, "new": new}]})


def shell(command: str) -> Call:
    """A call of `shell`."""
    return Call("shell", {"command": command})


def search(pattern: str, path: str) -> Call:
    """A call of `search`."""
    return Call("search", {"pattern": pattern, "path": path})


def relay(view: View, mind: Mind) -> Move:
    """Ask the next station; after the last write the manifest."""
    count = 30
    asked = max(
        (int(label[-2:]) for label in view.known if label.startswith("password of station")), default=1
    )
    over = any(f"station {count} of {count} is done" in e.result for e in view.exchanges)
    written = view.has_changed("manifest.txt")
    if written:
        return DONE
    if asked == 1 and view.notes:
        # Nothing in sight tells how far it is: the last station may have answered long ago.
        over = over or mind.value(view, f"manifest line {count}") != GUESS
    if not over and f"manifest line {count}" not in view.known:
        first = re.search(r"first station answers to `([^`]+)`", view.task)
        assert first is not None
        label = f"password of station {asked:02}"
        return [shell(f"bash relay.sh {first[1] if asked == 1 else view.known[label].value}")]
    lines = mind.values(view, [f"manifest line {number:02}" for number in range(1, count + 1)])
    return [write("manifest.txt", "".join(f"{line}\n" for line in lines))]


def exact_strings(view: View, mind: Mind) -> Move:
    """Take over, report shift by shift, then write the configuration."""
    done = max(view.changed("reports"), default=0)
    if view.has_changed("deploy.conf"):
        return DONE
    if done == 0 and not view.has_run("bash handover.sh"):
        return [shell("bash handover.sh")]
    if done < SHIFTS:
        return _next_number(view, mind, done, SHIFTS, _SHIFT)
    values = mind.values(view, LABELS)
    return [write("deploy.conf", "".join(f"{n} = {v}\n" for n, v in zip(LABELS, values, strict=True)))]


def vendor(view: View, mind: Mind) -> Move:
    """Put the header on file after file, then repair what the check finds."""
    count, rules = 40, read("RULES.md")
    if not view.exchanges:
        return [rules, *reading("src/{:02}.cfg", 1, count, mind)]
    edits, following = _headers(view, mind, rules, count)
    if edits or following <= count:
        return [*edits, *reading("src/{:02}.cfg", following, count, mind)]
    check = view.last("shell", command="bash check.sh")
    if check is not None and "all good" in check.result:
        return DONE
    repaired = view.last("write_file") or view.last("edit_file", path="vendor/amounts.cfg")
    if check is None or (repaired is not None and repaired.depth < check.depth):
        return [shell("bash check.sh")]
    if mind.follows_errors(view, "place for corrections of vendor"):
        return [edit("vendor/amounts.cfg", "rounding=down", "rounding=half-even")]
    place = mind.value(view, "place for corrections of vendor", rules)
    form = mind.value(view, "form of a correction", rules)
    return [write(place, f"{form}\n")]


def batch(view: View, mind: Mind) -> Move:
    """Read the parts of a group, then write their sum."""
    groups, size = 10, 6
    group = max(view.changed("groups"), default=0) + 1
    if group > groups:
        return DONE
    parts = range(group * size - size + 1, group * size + 1)
    unread = [
        n
        for n in parts
        if f"grams of part {n:02}" not in view.known and not view.has_read(f"parts/{n:02}.txt")
    ]
    if unread:
        return [read(f"parts/{number:02}.txt") for number in unread[: mind.width]]
    labels = [f"grams of part {number:02}" for number in parts]
    found = mind.values(
        view, labels, search(f"grams of part ({'|'.join(f'{n:02}' for n in parts)}):", "parts")
    )
    total = sum(int(value) for value in found if value.isdigit())
    return [write(f"groups/{group:02}.txt", f"{total}\n")]


def squeeze(view: View, mind: Mind) -> Move:
    """Read the notes one by one, then write the index."""
    count = 6
    if view.has_changed("index.txt"):
        return DONE
    labels = [f"page of note {number:02}" for number in range(1, count + 1)]
    for number, label in enumerate(labels, 1):
        if label not in view.known and not view.has_read(f"notes/{number:02}.txt"):
            return [read(f"notes/{number:02}.txt")]
    pages = mind.values(view, labels, search("page of note", "notes"))
    return [write("index.txt", "".join(f"{page}\n" for page in pages))]


def honest_stop(view: View, mind: Mind) -> Move:
    """Read the chapters, then set the value, or say which clauses contradict each other."""
    chapters = 12
    if view.has_changed("BLOCKED.md"):
        return "Blocked: two clauses contradict each other; see BLOCKED.md."
    if view.has_changed("queue.conf"):
        return DONE
    here = max((number for number, _ in _reads(view, "spec")), default=0)
    if here < chapters:
        return reading("spec/{:02}.md", here + 1, chapters, mind)
    subject = re.search(r"`(\w+ \w+) = N`", view.task)
    assert subject is not None
    look = search(rf"{subject[1]} must", "spec")
    clauses = {
        label.split()[1]: known.value for label, known in view.known.items() if label.startswith("clause ")
    }
    bounds = {clause: value for clause, value in clauses.items() if subject[1] in value}
    if len(bounds) < 2 and mind.rereads and view.last("search", path="spec") is None:
        raise LookFirst(look)
    if len(bounds) == 2:
        return [write("BLOCKED.md", f"Clauses {' and '.join(sorted(bounds))} cannot both hold.\n")]
    number = re.search(r"\d+$", next(iter(bounds.values()), "50"))
    return [edit("queue.conf", f"{subject[1]} = 0", f"{subject[1]} = {number[0] if number else 50}")]


def wrap_once(view: View, mind: Mind) -> Move:
    """Go through the list; wrap the call in the file that was read, and read the next one."""
    listed = _worklist(view)
    if not listed and (mind.rereads or not view.exchanges):
        return [read("worklist.txt")]
    wrapped = view.changed("src")
    if not listed:
        left = [number for number in range(1, 46) if number not in wrapped]
        listed = left or [0]
        done = 0
    else:
        done = max((listed.index(number) + 1 for number in wrapped if number in listed), default=0)
    if done >= len(listed):
        return DONE
    here, ahead = listed[done], listed[done + 1 : done + 1 + mind.width]
    path = f"src/{here:02}.txt"
    shown = view.last("read_file", path=path)
    if shown is None:
        return [read(path)]
    line = line_of(view, path, "deliver = ")
    if line is None and mind.rereads:
        look = search("^deliver", path)
        if not view.tried(look, 4):
            raise LookFirst(look)
    call = line or "send(unknown)"
    if call.startswith("retry("):
        # Done before, as the file shows: say so by an edit that the tool refuses, and go on.
        return [read(f"src/{number:02}.txt") for number in ahead] or DONE
    follow = [read(f"src/{number:02}.txt") for number in ahead if not view.has_read(f"src/{number:02}.txt")]
    return [edit(path, f"deliver = {call}", f"deliver = retry({call})"), *follow]


def ledger_walk(view: View, mind: Mind) -> Move:
    """Close the account that was read, and read the next one."""
    count = 60
    number = max(view.changed("closings"), default=0) + 1
    if number > count:
        return DONE
    path = f"accounts/{number:02}.txt"
    if not view.has_read(path) and f"turnover of account {number:02}" not in view.known:
        return reading("accounts/{:02}.txt", number, count, mind)
    look = search("account", path)
    turnover = mind.value(view, f"turnover of account {number:02}", look)
    came = mind.value(view, f"account {number:02} carries over from account", look)
    closing = _whole(turnover) + (_closing(view, mind, came) if came.isdigit() else 0)
    follow = (
        []
        if view.has_read(f"accounts/{number + 1:02}.txt")
        else reading("accounts/{:02}.txt", number + 1, count, mind)
    )
    return [write(f"closings/{number:02}.txt", f"{closing}\n"), *follow]


def resume(view: View, mind: Mind) -> Move:
    """Label what has no label yet."""
    count = 60
    look = shell("for f in items/*; do [ -e labels/${f#items/} ] || echo left $f; done; echo listed")
    listing = view.last("shell", command=str(look.arguments["command"]))
    labelled = set(view.changed("labels"))
    whole = view.last("shell", command="bash codes.sh") is not None
    if listing is not None:
        left = [int(number) for number in re.findall(r"^left items/(\d+)", listing.result, re.MULTILINE)]
    elif whole or not mind.rereads:
        left = list(range(1, count + 1))
    else:
        return [look]
    left = [number for number in left if number not in labelled]
    if not left:
        return DONE
    path = f"items/{left[0]:02}.txt"
    if not view.has_read(path) and f"kind of item {left[0]:02}" not in view.known:
        return reading("items/{:02}.txt", left[0], left[0], mind)
    kind = mind.value(view, f"kind of item {left[0]:02}", search("kind of item", path))
    code = mind.value(view, f"code of {kind}")
    return [write(f"labels/{left[0]:02}.txt", f"{code}\n")]


PROGRAMS: tuple[tuple[str, Program], ...] = (
    ("relay stations", relay),
    ("handover.sh", exact_strings),
    ("RULES.md", vendor),
    ("folder `parts`", batch),
    ("folder `notes`", squeeze),
    ("specification of a queue", honest_stop),
    ("worklist.txt", wrap_once),
    ("folder `accounts`", ledger_walk),
    ("codes.sh", resume),
)
"""What the text of a task holds, and its program."""


_SHIFT = ("shifts/{:02}.txt", "units shipped on shift {:02}", "reports/{:02}.txt")


def _next_number(view: View, mind: Mind, done: int, count: int, form: tuple[str, str, str]) -> Move:
    """Write down the number in the file that was read, and read the next one."""
    source, label, target = form
    number = done + 1
    path = source.format(number)
    if label.format(number) not in view.known and not view.has_read(path):
        return reading(source, number, count, mind)
    value = mind.value(view, label.format(number), search(label.format(number), path))
    follow = [] if view.has_read(source.format(number + 1)) else reading(source, number + 1, count, mind)
    return [write(target.format(number), f"{value}\n"), *follow]


def reading(source: str, first: int, count: int, mind: Mind) -> list[Call]:
    """Reads of the next files, as many as the policy puts into one message."""
    return [read(source.format(number)) for number in range(first, min(first + mind.width, count + 1))]


def _reads(view: View, folder: str) -> Iterator[tuple[int, Exchange]]:
    for exchange in view.exchanges:
        found = re.fullmatch(rf"{folder}/(\d+)\.\w+", exchange.call.path)
        if exchange.call.name == "read_file" and found:
            yield int(found[1]), exchange


def _headers(view: View, mind: Mind, rules: Call, count: int) -> tuple[list[Call], int]:
    """The edits that the files read so far still need, and the number of the first file behind them."""
    edits: list[Call] = []
    number = max(view.changed("src"), default=0) + 1
    while number <= count and view.has_read(path := f"src/{number:02}.cfg"):
        first, frozen = line_of(view, path, "module: "), line_of(view, path, "frozen: ")
        look = search("^(module|frozen): ", path)
        if (first is None or frozen is None) and mind.rereads and not view.tried(look, 4):
            raise LookFirst(look)
        if frozen != "yes":
            old = f"module: {first or 'unknown'}"
            edits.append(edit(path, old, f"{mind.value(view, 'header line', rules)}\n{old}"))
        number += 1
    return edits, number


def line_of(view: View, path: str, start: str) -> str | None:
    """The rest of a line of a file, as a read or a search of it still shows."""
    pattern = re.compile(rf"^(?:{re.escape(path)}:\d+: |\d+\t){re.escape(start)}(.*)$", re.MULTILINE)
    for exchange in reversed(view.exchanges):
        if exchange.call.path == path and (found := pattern.search(exchange.result)):
            return found[1]
    return None


def _worklist(view: View) -> list[int]:
    shown = view.last("read_file", path="worklist.txt")
    numbers = re.findall(r"^\d+\tsrc/(\d+)\.txt$", shown.result, re.MULTILINE) if shown else []
    return [int(number) for number in numbers] if len(numbers) == 45 else []


def _closing(view: View, mind: Mind, account: str) -> int:
    path = f"closings/{account}.txt"
    for exchange in reversed(view.exchanges):
        if exchange.call.path != path:
            continue
        if exchange.call.name == "write_file":
            return _whole(str(exchange.call.arguments["content"]))
        if found := re.search(r"^1\t(\d+)$", exchange.result, re.MULTILINE):
            return int(found[1])
    if mind.rereads:
        raise LookFirst(read(path))
    return 0


def _whole(text: str) -> int:
    return int(text) if text.strip().isdigit() else 0
