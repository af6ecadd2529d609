"""How a scripted policy treats what it needs and cannot see, or sees and may miss: the part that policies differ in."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from msgspec import Struct

from chimera.bench.policies.view import Call, Exchange, View

GUESS = "unknown"
"""What stands where a policy has to guess. It is never right."""
NOTES = "notes.txt"
FADING_CHARACTERS = 64_000
"""Of the `fading` policy: so many characters behind a fact and it is missed every other time; nearer, in proportion."""
_FADING_MOST = 0.5
_FRESH_CHARACTERS = 6_000
"""What is nearer than this is never missed."""
_TRIED_LATELY = 12
_LOOK_AROUND = Call("search", {"pattern": "where was it", "path": "."})
"""Of the `fading` policy where nothing points anywhere: in vain, but it reads the prompt once more."""
_ASKED_AT_ONCE = (8, 3, 1)
"""How many values it looks for together; fewer where a result was cut before it showed one of them."""
_SHARED_PREFIX = re.compile(r"^(.*?)\d+$")


class LookFirst(Exception):  # noqa: N818  (no error: the way out of a program that needs a look)
    """Something must be looked up before the work can go on."""

    def __init__(self, *calls: Call) -> None:
        super().__init__()
        self.calls = calls


class Mind(Struct, frozen=True, kw_only=True):
    """The traits of a policy."""

    name: str
    rereads: bool = True
    """Looks again for what it does not see; otherwise it guesses."""
    keeps_notes: bool = False
    """Writes facts to a file of its own and looks there."""
    fades: bool = False
    """Misses facts the more text there is behind them."""
    obeys: bool = False
    """Does what notes behind the task say, and follows the text of an error where it sees no rule."""
    width: int = 1
    """How many reads it puts into one message."""
    reasons: bool = False
    """Writes long reasoning with every call."""
    clumsy: bool = False
    """Makes mistakes, one message in six."""

    def value(self, view: View, label: str, source: Call | None = None) -> str:
        """A value by its label: as the prompt says it, else looked up, else a guess.

        Args:
            view: the prompt.
            label: of the value.
            source: a call that shows it, where there is one.

        Raises:
            LookFirst: with what to look at.
        """
        return self.values(view, [label], source)[0]

    def values(self, view: View, labels: Sequence[str], source: Call | None = None) -> list[str]:
        """Several values; those that are missing are looked up a few at a time."""
        missing = [label for label in labels if not self._sees(view, label)]
        if missing and self.rereads:
            for count in _ASKED_AT_ONCE:
                for call in self._looks(view, missing[:count], source):
                    if not view.tried(call, _TRIED_LATELY):
                        raise LookFirst(call)
        return [view.known[label].value if label in view.known else GUESS for label in labels]

    def follows_errors(self, view: View, rule: str) -> bool:
        """Whether it takes the way that an error message offers, because it sees no rule against it."""
        return rule not in view.known and (self.obeys or not self.rereads)

    def notes_of(self, newest: Sequence[Exchange], view: View) -> Call | None:
        """The call that writes down what the newest turn told, for a policy that keeps notes."""
        if not self.keeps_notes:
            return None
        told = [
            e for e in newest if e.call.name in {"shell", "read_file"} and NOTES not in str(e.call.arguments)
        ]
        depths = {exchange.depth for exchange in told}
        facts = [f"{label}: {known.value}" for label, known in view.known.items() if known.depth in depths]
        if not facts:
            return None
        lines = " ".join("'" + fact.replace("'", "'\\''") + "'" for fact in facts)
        return Call("shell", {"command": f"printf '%s\\n' {lines} >>{NOTES}"})

    def _sees(self, view: View, label: str) -> bool:
        known = view.known.get(label)
        if known is None or not self.fades or known.depth < _FRESH_CHARACTERS:
            return known is not None
        missed = _FADING_MOST * min(1.0, known.depth / FADING_CHARACTERS)
        return chance(f"{label}/{len(view.exchanges)}/{view.size}") >= missed

    def _looks(self, view: View, labels: Sequence[str], source: Call | None) -> list[Call]:
        pattern = pattern_of(labels)
        looks = [] if source is None else [source]
        if self.keeps_notes:
            looks.append(Call("search", {"pattern": pattern, "path": NOTES}))
        if "@run/archive" in view.notes or any("@run/archive" in e.result for e in view.exchanges):
            looks.append(Call("search", {"pattern": pattern, "path": "@run/archive"}))
        looks += [
            Call("search", {"pattern": pattern, "path": name})
            for exchange in view.exchanges[-3:]
            for name in re.findall(r"@run/outputs/\d+\.txt", exchange.result)
        ]
        if self.fades:
            looks.append(_LOOK_AROUND)
        return looks


def pattern_of(labels: Sequence[str]) -> str:
    """A short regular expression that finds lines with these labels and nothing that was written about them."""
    heads = {match[1] if (match := _SHARED_PREFIX.match(label)) else None for label in labels}
    if len(labels) > 1 and len(heads) == 1 and (head := heads.pop()):
        body = f"{head}({'|'.join(label.removeprefix(head) for label in labels)})"
    else:
        body = "|".join(map(re.escape, labels)) if len(labels) == 1 else f"({'|'.join(labels)})"
    return rf"^(\d+\t)?{body}: "


def chance(seed: str) -> float:
    """A number from 0 to 1, the same for the same text."""
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4], "big") / 2**32


MINDS = {
    mind.name: mind
    for mind in (
        Mind(name="recall", rereads=False),
        Mind(name="rereader"),
        Mind(name="noter", keeps_notes=True),
        Mind(name="fading", fades=True),
        Mind(name="obedient", obeys=True),
        Mind(name="batcher", width=6, reasons=True),
        Mind(name="clumsy", clumsy=True),
    )
}
"""All policies by name."""
