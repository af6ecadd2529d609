"""Natural-looking text for generated tasks: log lines to wade through, and values that must survive to the letter.

Values come from six template families. Two of them are held out: only seeds from `RELEASE_SEEDS` on draw from them, so
that nothing can have been fitted to them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from chimera.bench.generators.instance import RELEASE_SEEDS

_COLOURS = ("amber", "copper", "ivory", "slate", "umber", "teal", "maroon", "olive", "indigo", "ochre")
_BIRDS = (
    "heron",
    "lapwing",
    "curlew",
    "dunlin",
    "avocet",
    "godwit",
    "plover",
    "turnstone",
    "whimbrel",
    "knot",
)
_PLACES = ("quay", "depot", "annex", "yard", "gate", "ramp", "hangar", "shed", "dock", "lodge")
_SERVICES = (
    "billing",
    "catalog",
    "courier",
    "invoice",
    "ledger",
    "mailer",
    "orders",
    "quota",
    "refund",
    "stock",
)
_VERBS = (
    "fetched",
    "indexed",
    "merged",
    "parsed",
    "queued",
    "retried",
    "skipped",
    "stored",
    "synced",
    "trimmed",
)
_NOUNS = ("rows", "pages", "chunks", "events", "labels", "tickets", "blobs", "hooks", "deltas", "frames")

Family = Callable[[random.Random], str]


def _path(rng: random.Random) -> str:
    return (
        f"/srv/{rng.choice(_SERVICES)}/{rng.choice(_PLACES)}-{rng.randrange(100, 999)}/{rng.choice(_BIRDS)}.d"
    )


def _port(rng: random.Random) -> str:
    return f"10.{rng.randrange(4, 250)}.{rng.randrange(4, 250)}.{rng.randrange(4, 250)}:{rng.randrange(20000, 60000)}"


def _test(rng: random.Random) -> str:
    return f"tests/test_{rng.choice(_SERVICES)}.py::test_{rng.choice(_COLOURS)}_{rng.choice(_BIRDS)}_{rng.randrange(10, 99)}"


def _digest(rng: random.Random) -> str:
    return f"{rng.getrandbits(64):016x}"


def _code(rng: random.Random) -> str:
    return f"E{rng.randrange(1000, 9999)}-{rng.choice('ACDFHKMX')}{rng.randrange(10, 99)}"


def _prose(rng: random.Random) -> str:
    return f"ask for the {rng.choice(_COLOURS)} {rng.choice(_BIRDS)} at {rng.choice(_PLACES)} {rng.randrange(11, 99)}"


OPEN_FAMILIES: tuple[Family, ...] = (_path, _port, _test, _digest)
HELD_OUT_FAMILIES: tuple[Family, ...] = (_code, _prose)


def families(seed: int) -> tuple[Family, ...]:
    """The template families that an instance draws its values from."""
    return HELD_OUT_FAMILIES if seed >= RELEASE_SEEDS else OPEN_FAMILIES


def values(rng: random.Random, seed: int, count: int) -> list[str]:
    """Different values, the families in turn."""
    kinds = families(seed)
    found: list[str] = []
    while len(found) < count:
        value = kinds[len(found) % len(kinds)](rng)
        if value not in found:
            found.append(value)
    return found


def twin(value: str, rng: random.Random) -> str:
    """A value that differs from another in one character: what a careless reader takes for the same."""
    places = [index for index, character in enumerate(value) if character.isalnum()]
    at = rng.choice(places)
    others = "0123456789" if value[at].isdigit() else "abcdefghijklmnopqrstuvwxyz"
    return value[:at] + rng.choice([c for c in others if c != value[at].lower()]) + value[at + 1 :]


def passwords(rng: random.Random, count: int) -> list[str]:
    """Different short names of three parts."""
    found: dict[str, None] = {}
    while len(found) < count:
        found[f"{rng.choice(_COLOURS)}-{rng.choice(_BIRDS)}-{rng.randrange(100, 999)}"] = None
    return list(found)


def log_lines(rng: random.Random, count: int) -> list[str]:
    """Lines of a log that say nothing of use, of about 25 tokens each."""
    return [
        f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02} {rng.choice(_SERVICES)}[{rng.randrange(100, 999)}] "
        f"{rng.choice(_VERBS)} {rng.randrange(2, 900)} {rng.choice(_NOUNS)} of {rng.choice(_COLOURS)}-{rng.choice(_PLACES)} "
        f"in {rng.randrange(2, 400)} ms"
        for _ in range(count)
    ]


def with_line(lines: Sequence[str], line: str, at: float) -> list[str]:
    """Lines with one more in them, at a share of their length."""
    index = round(len(lines) * at)
    return [*lines[:index], line, *lines[index:]]
