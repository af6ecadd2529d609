"""relay-30: thirty stations, each of which answers once and names the next."""

from __future__ import annotations

import base64

from chimera.bench.generators.instance import Fact, Instance, draw
from chimera.bench.generators.wording import log_lines, passwords, values, with_line

STATIONS = 30
_LINES = 36

_INSTRUCTION = """\
Thirty relay stations hold one line of a freight manifest each. `bash relay.sh PASSWORD` asks the station with that
password; it prints its log, its manifest line and the password of the next station. A station answers once: what it
said cannot be asked for again. Use nothing but `relay.sh` to ask them.

The first station answers to `{first}`. Ask all {count} stations in order. Then write `manifest.txt` in the current
folder: what stands behind `manifest line NN:` at each station, in the order of the stations, one to a line, every line
ended by a line feed, and nothing else. You may keep notes in other files.
"""

_RELAY = """\
#!/bin/bash
# Asks a station. It answers once.
station="stations/${1:?usage: bash relay.sh PASSWORD}.b64"
if [[ ! -f $station ]]; then
    printf 'no station answers to %s (any more)\\n' "$1"
    exit 1
fi
base64 -d "$station" && rm "$station"
"""

_CHECKS = """\
    def test_every_line_is_there_in_order(self) -> None:
        self.assertEqual(text("manifest.txt"), "".join(f"{line}\\n" for line in EXPECTED["lines"]))

    def test_every_station_was_asked(self) -> None:
        self.assertEqual([path.name for path in APP.glob("stations/*.b64")], [])
"""

_SOLUTION = """\
password={first}
: >manifest.txt
for number in $(seq {count}); do
    answer=$(bash relay.sh "$password")
    sed -n 's/^manifest line [0-9]*: //p' <<<"$answer" >>manifest.txt
    password=$(sed -n 's/^password of station [0-9]*: //p' <<<"$answer")
done
"""

_NOTES = """\
Tests exact facts that can be seen only once. Each answer must be carried through several compactions and written down
to the letter at the end. A summary that loses or rounds one value in any of its generations fails; so does whatever
drops old turns without a way back. An agent that keeps notes is right to.
"""


def relay(seed: int) -> Instance:
    """The instance of a seed."""
    rng = draw("relay-30", seed)
    names = passwords(rng, STATIONS)
    lines = values(rng, seed, STATIONS)
    facts: list[Fact] = []
    files = {"relay.sh": _RELAY}
    for index, (name, value) in enumerate(zip(names, lines, strict=True)):
        number = index + 1
        facts.append(Fact(label=f"manifest line {number:02}", value=value))
        log = with_line(log_lines(rng, _LINES), facts[-1].line, 0.97)
        tail = [f"station {number:02} of {STATIONS} is done"]
        if number < STATIONS:
            tail.append(f"password of station {number + 1:02}: {names[index + 1]}")
        answer = "\n".join([f"station {number:02} of {STATIONS}", *log, *tail]) + "\n"
        files[f"stations/{name}.b64"] = base64.encodebytes(answer.encode()).decode()
    return Instance(
        name="relay-30",
        suite="context",
        seed=seed,
        difficulty="hard",
        instruction=_INSTRUCTION.format(first=names[0], count=STATIONS),
        files=files,
        solution=_SOLUTION.format(first=names[0], count=STATIONS),
        expected={"lines": lines},
        checks=_CHECKS,
        notes=_NOTES,
        window=8000,
        min_compactions=5,
        max_steps=150,
        protected=("relay.sh",),
        facts=tuple(facts),
        rules=("A station answers once",),
    )
