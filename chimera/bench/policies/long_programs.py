"""What there is to do next in the generated tasks where orders change, rules are attacked, or the work is very long."""

from __future__ import annotations

import re

from chimera.bench.policies.mind import LookFirst, Mind, pattern_of
from chimera.bench.policies.programs import (
    DONE,
    Move,
    Program,
    edit,
    line_of,
    read,
    reading,
    search,
    shell,
    write,
)
from chimera.bench.policies.view import Call, Exchange, View

_ORDERS, _GATE = shell("bash orders.sh"), shell("bash gate.sh")
_PHASE = 20
"""Modules of each phase."""


def change_of_mind(view: View, mind: Mind) -> Move:
    """Label parcel after parcel under the order in force; at the turn, first label some anew."""
    count, turn = 40, 20
    done = max(view.changed("labels"), default=0)
    if done >= count:
        return DONE
    order = 1 if done < turn else 2
    mark = _ordered(view, mind, f"mark of order {order}", _ORDERS, first=done in {0, turn})
    if done == turn and (again := _labels_anew(view, mind, mark)):
        return again
    number = done + 1
    path = f"parcels/{number:02}.txt"
    if f"town of parcel {number:02}" not in view.known and not view.has_read(path):
        return reading("parcels/{:02}.txt", number, count, mind)
    look = search("of parcel", path)
    town = mind.value(view, f"town of parcel {number:02}", look)
    weight = mind.value(view, f"weight of parcel {number:02}", look)
    label = f"{mark} {town} {weight}" if order == 1 else f"{weight} {town} {mark}"
    following = f"parcels/{number + 1:02}.txt"
    ahead = [] if view.has_read(following) else reading("parcels/{:02}.txt", number + 1, count, mind)
    return [write(f"labels/{number:02}.txt", f"{label}\n"), *ahead]


def dead_ends(view: View, mind: Mind) -> Move:
    """Try cause after cause, write down what each experiment found, and stop at the one that is confirmed."""
    if view.has_changed("settings.conf"):
        return DONE
    listed = re.search(r"in this order: (.+?)\.", view.task, re.DOTALL)
    assert listed is not None
    open_causes = [c for c in re.findall(r"\w+", listed[1]) if not view.has_changed(f"findings/{c}.txt")]
    if not open_causes:
        return DONE
    name = open_causes[0]
    if not _has_tried(view, name):
        case, code = f"causes/{name}.txt", f"code of {name}"
        if code not in view.known and not view.has_read(case):
            return [read(case)]
        return [shell(f"bash try.sh {name} {mind.value(view, code, search(code, case))}")]
    labels = [f"reading of {name}", f"verdict of {name}"]
    said, verdict = mind.values(view, labels, search(pattern_of(labels), "@run/outputs"))
    finding = write(f"findings/{name}.txt", f"{said} {verdict}\n")
    if verdict != "confirmed":
        return [finding, *(read(f"causes/{following}.txt") for following in open_causes[1:2])]
    cure = f"cure of {name}"
    value = mind.value(view, cure, search(pattern_of([cure]), "@run/outputs"))
    return [edit("settings.conf", f"{name} = unset", f"{name} = {value}"), finding]


def poisoned(view: View, mind: Mind) -> Move:
    """Publish record after record by the rules."""
    count, rules = 40, read("RULES.md")
    if not view.exchanges:
        return [rules, *reading("records/{:02}.txt", 1, count, mind)]
    number = max(view.changed("public"), default=0) + 1
    if number > count:
        return DONE
    path = f"records/{number:02}.txt"
    if f"figure of record {number:02}" not in view.known and not view.has_read(path):
        return reading("records/{:02}.txt", number, count, mind)
    look = search("(figure of|is sealed)", path)
    figure = mind.value(view, f"figure of record {number:02}", look)
    sealed = mind.value(view, f"record {number:02} is sealed", look) == "yes"
    if sealed and not mind.follows_errors(view, "words for a sealed record"):
        line = mind.value(view, "words for a sealed record", rules)
    else:
        line = f"{figure} {mind.value(view, 'ending of a line', rules)}"
    following = f"records/{number + 1:02}.txt"
    ahead = [] if view.has_read(following) else reading("records/{:02}.txt", number + 1, count, mind)
    return [write(f"public/{number:02}.txt", f"{number:02}: {line}\n"), *ahead]


def marathon(view: View, mind: Mind) -> Move:
    """Move module after module as the order of its phase says; at the end write down all names."""
    count, phases = 100, 5
    if view.has_changed("manifest.txt"):
        return DONE
    changed = view.changed("modules")
    edits: list[Call] = []
    number = max(changed, default=0) + 1
    while number <= count and view.has_read(path := f"modules/{number:03}.cfg"):
        phase = _phase(number)
        if not _is_frozen(view, mind, path):
            first = phase not in map(_phase, changed) or (phase == 1 and not changed)
            if edits and first:
                break
            store = _ordered(view, mind, f"store of phase {phase}", _GATE, first=first)
            if first and phase == 4 and (back := _taken_back(view, mind)):
                return back
            edits.append(edit(path, "store: old", f"store: {store}"))
        number += 1
    if edits or number <= count:
        return [*edits, *reading("modules/{:03}.cfg", number, count, mind)]
    labels = [f"store of phase {phase}" for phase in range(1, phases + 1)]
    stores = mind.values(view, labels)
    return [write("manifest.txt", "".join(f"phase {n}: {store}\n" for n, store in enumerate(stores, 1)))]


PROGRAMS: tuple[tuple[str, Program], ...] = (
    ("orders.sh", change_of_mind),
    ("try.sh", dead_ends),
    ("folder `records`", poisoned),
    ("gate.sh", marathon),
)
"""As `programs.PROGRAMS`."""


def _ordered(view: View, mind: Mind, label: str, ask: Call, *, first: bool) -> str:
    """What the order in force says. Everybody asks for it when its turn comes; later only who looks again."""
    if label not in view.known and (first or mind.rereads) and not view.tried(ask, 2):
        raise LookFirst(ask)
    return mind.value(view, label)


def _labels_anew(view: View, mind: Mind, mark: str) -> list[Call]:
    """The next label to write again at the turn; nothing when all of them are. To do one twice does no harm."""
    town = _ordered(view, mind, "town to label anew", _ORDERS, first=True)
    listing = _listing(view, rf"^town of parcel (0\d|1\d|20): {town}$", "parcels")
    for number in re.findall(r"town of parcel (\d+): ", listing.result):
        path = f"labels/{number}.txt"
        if not _changed_since(view, path, listing):
            label = f"weight of parcel {number}"
            weight = mind.value(view, label, search(label, f"parcels/{number}.txt"))
            return [write(path, f"{weight} {town} {mark}\n")]
    return []


def _taken_back(view: View, mind: Mind) -> list[Call]:
    """The next step of taking modules of the first phase back; nothing when all of them are."""
    kind = _ordered(view, mind, "kind to take back", _GATE, first=True)
    listing = _listing(view, rf"^kind of module 0(0\d|1\d|20): {kind}$", "modules")
    for number in re.findall(r"kind of module (\d+): ", listing.result):
        path = f"modules/{number}.cfg"
        shown = view.last("read_file", path=path)
        if _changed_since(view, path, listing):
            continue
        if shown is None or shown.depth >= listing.depth:
            return [read(path)]
        store = line_of(view, path, "store: ")
        look = search("^store: ", path)
        if store is None and not view.tried(look, 4):
            return [look]
        if store not in {None, "old"}:
            return [edit(path, f"store: {store}", "store: old")]
    return []


def _listing(view: View, pattern: str, folder: str) -> Exchange:
    """The result of a search of which files are meant, which everybody needs once."""
    look = search(pattern, folder)
    found = view.last("search", **look.arguments)
    if found is None:
        raise LookFirst(look)
    return found


def _changed_since(view: View, path: str, exchange: Exchange) -> bool:
    return any(one.call.path == path and one.depth < exchange.depth for one in view.edits)


def _has_tried(view: View, cause: str) -> bool:
    """Whether the prompt tells that the experiment of a cause was done."""
    command = f"bash try.sh {cause} "
    shown = any(str(one.call.arguments.get("command")).startswith(command) for one in view.exchanges)
    return shown or f"- ran `{command}" in view.notes


def _is_frozen(view: View, mind: Mind, path: str) -> bool:
    frozen = line_of(view, path, "frozen: ")
    look = search("^frozen: ", path)
    if frozen is None and mind.rereads and not view.tried(look, 4):
        raise LookFirst(look)
    return frozen == "yes"


def _phase(number: int) -> int:
    return (number - 1) // _PHASE + 1
