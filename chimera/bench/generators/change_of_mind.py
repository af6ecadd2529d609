"""change-of-mind: an order that holds for half of the work, and a second one that turns it round."""

from __future__ import annotations

import base64
import random

from chimera.bench.generators.instance import Fact, Instance, draw
from chimera.bench.generators.wording import log_lines, values, with_line

PARCELS = 40
TURN = 20
"""So many labels are written under the first order."""
TOWNS = ("Ashby", "Borth", "Crail", "Deal", "Embo")
_LINES = 30

_INSTRUCTION = """\
The folder `parcels` holds {count} parcels, `01.txt` to `{count}.txt`. Two lines of each count: `town of parcel NN:` and
`weight of parcel NN:`. `bash orders.sh` prints the order in force: how a label is written, and which mark it bears. Write
for each parcel, in the order of the numbers, its label to `labels/NN.txt`, followed by a line feed and nothing else.

When {turn} labels are there, ask for the order again before you go on: there will be a new one. Where two orders differ, the
newest holds; what it does not speak of stays as it is. You may ask for the order in force as often as you like.
"""

_ORDERS = """\
#!/bin/bash
# Prints the order in force.
shopt -s nullglob
written=(labels/*.txt)
number=1
if ((${{#written[@]}} >= {turn})); then number=2; fi
base64 -d "orders/$number.b64"
"""

_FIRST = """\
Order 1. A label is the mark, the town and the weight, in this order, with one space between two of them.
{mark}
"""

_SECOND = """\
Order 2. From now on a label is the other way round: the weight, the town and the mark, with one space between two of them,
and there is a new mark. Labels that are written already stay as they are, but for one town: its parcels among the first
{turn} get a new label as from this order, before anything else.
{mark}
{town}
"""

_CHECKS = """\
    def test_every_label_is_right(self) -> None:
        found = {path.name: text(f"labels/{path.name}") for path in (APP / "labels").iterdir()}
        self.assertEqual(found, EXPECTED["labels"])
"""

_SOLUTION = """\
says() {{ sed -n "s/^$1: //p"; }}
read_parcel() {{ mapfile -t said < <(sed -nE 's/^(town|weight) of parcel [0-9]+: //p' "parcels/$1.txt"); }}
mkdir -p labels
mark=$(bash orders.sh | says 'mark of order 1')
for number in $(seq -w {turn}); do
    read_parcel "$number"
    printf '%s %s %s\n' "$mark" "${{said[0]}}" "${{said[1]}}" >"labels/$number.txt"
done
mark=$(bash orders.sh | says 'mark of order 2')
town=$(bash orders.sh | says 'town to label anew')
for number in $(seq -w {count}); do
    read_parcel "$number"
    if ((10#$number > {turn})) || [[ ${{said[0]}} == "$town" ]]; then
        printf '%s %s %s\n' "${{said[1]}}" "${{said[0]}}" "$mark" >"labels/$number.txt"
    fi
done
"""

_NOTES = """\
Tests whether the newest instruction wins. The second order comes half-way, turns the first one round and takes back part of
what was done. Whoever keeps only what was said first goes on in the old form; whoever merges the two mixes old mark and new
form; whoever forgets what the first one covered labels everything anew. The order can be asked for again at any time, so a
run is one message long and every runner can play it.
"""


def change_of_mind(seed: int) -> Instance:
    """The instance of a seed."""
    rng = draw("change-of-mind", seed)
    first, second = values(rng, seed, 2)
    towns = _towns(rng)
    weights = [rng.randrange(1000, 9999) for _ in range(PARCELS)]
    again = rng.choice(towns[:TURN])
    marks = (
        Fact(label="mark of order 1", value=first),
        Fact(label="mark of order 2", value=second),
        Fact(label="town to label anew", value=again),
    )
    files = {
        "orders.sh": _ORDERS.format(turn=TURN),
        "orders/1.b64": _hidden(_FIRST.format(mark=marks[0].line)),
        "orders/2.b64": _hidden(_SECOND.format(turn=TURN, mark=marks[1].line, town=marks[2].line)),
    }
    labels: dict[str, str] = {}
    for number, (town, weight) in enumerate(zip(towns, weights, strict=True), 1):
        lines = with_line(log_lines(rng, _LINES), f"town of parcel {number:02}: {town}", 0.95)
        files[f"parcels/{number:02}.txt"] = (
            "\n".join([*lines, f"weight of parcel {number:02}: {weight}"]) + "\n"
        )
        old = number <= TURN and town != again
        label = f"{first} {town} {weight}" if old else f"{weight} {town} {second}"
        labels[f"{number:02}.txt"] = f"{label}\n"
    return Instance(
        name="change-of-mind",
        suite="long",
        seed=seed,
        difficulty="hard",
        instruction=_INSTRUCTION.format(count=PARCELS, turn=TURN),
        files=files,
        solution=_SOLUTION.format(count=PARCELS, turn=TURN),
        expected={"labels": labels},
        checks=_CHECKS,
        notes=_NOTES,
        window=8000,
        min_compactions=5,
        max_steps=200,
        protected=("orders.sh", "orders/**", "parcels/**"),
        facts=marks,
        rules=("Where two orders differ, the\nnewest holds",),
    )


def _towns(rng: random.Random) -> list[str]:
    """Of each parcel. Each town has the same number of parcels on either side of the turn."""
    halves = [list(TOWNS) * (size // len(TOWNS)) for size in (TURN, PARCELS - TURN)]
    for half in halves:
        rng.shuffle(half)
    return [town for half in halves for town in half]


def _hidden(text: str) -> str:
    return base64.encodebytes(text.encode()).decode()
