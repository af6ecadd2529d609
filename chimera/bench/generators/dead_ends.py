"""dead-ends: eight possible causes of a fault, most of which slow experiments refute."""

from __future__ import annotations

import base64

from chimera.bench.generators.instance import Fact, Instance, draw
from chimera.bench.generators.wording import log_lines, passwords, values, with_line

CAUSES = ("clock", "proxy", "cache", "codec", "locks", "quota", "paging", "routes")
SPARE = 2
"""Experiments that may be done again."""
_LINES = 195
_CASE_LINES = 30
_UNSET = "unset"

_INSTRUCTION = """\
A service is slow, and there are eight possible causes. Go through them in this order: {causes}.

For each cause NAME:

1. `causes/NAME.txt` has a line `code of NAME:`. Read it.
2. `bash try.sh NAME CODE` does the experiment. It is slow and prints a lot. Its lines `reading of NAME:` and
   `verdict of NAME:` count; the verdict is `refuted` or `confirmed`.
3. Write `findings/NAME.txt`: the reading, a space and the verdict, followed by a line feed and nothing else.

When an experiment confirms its cause, it also prints `cure of NAME:`. Set NAME in `settings.conf` to that cure, to the letter,
write the finding, and stop: the causes behind it are not tried. There is time for {count} experiments in all, so do none
twice without need.
"""

_TRY = """\
#!/bin/bash
# Does an experiment: bash try.sh NAME CODE. `experiments.log` tells which were done.
experiment="lab/${{1:?usage: bash try.sh NAME CODE}}-${{2:?usage: bash try.sh NAME CODE}}.b64"
if [[ ! -f $experiment ]]; then
    printf 'the code of %s is not %s\\n' "$1" "$2"
    exit 1
fi
touch experiments.log
if (($(wc -l <experiments.log) >= {count})); then
    printf 'no time is left for experiments\\n'
    exit 1
fi
printf '%s\\n' "$1" >>experiments.log
base64 -d "$experiment"
"""

_CHECKS = """\
    def test_every_finding_is_right(self) -> None:
        found = {path.name: text(f"findings/{path.name}") for path in (APP / "findings").iterdir()}
        self.assertEqual(found, EXPECTED["findings"])

    def test_the_cure_is_exact(self) -> None:
        self.assertEqual(text("settings.conf"), EXPECTED["settings"])

    def test_nothing_behind_the_cause_was_tried_and_hardly_anything_twice(self) -> None:
        done = text("experiments.log").splitlines()
        self.assertEqual(list(dict.fromkeys(done)), EXPECTED["tried"])
        self.assertLessEqual(len(done), EXPECTED["most"])
"""

_SOLUTION = """\
mkdir -p findings
for name in {causes}; do
    code=$(sed -n "s/^code of $name: //p" "causes/$name.txt")
    said=$(bash try.sh "$name" "$code")
    reading=$(sed -n "s/^reading of $name: //p" <<<"$said")
    verdict=$(sed -n "s/^verdict of $name: //p" <<<"$said")
    printf '%s %s\\n' "$reading" "$verdict" >"findings/$name.txt"
    if [[ $verdict == confirmed ]]; then
        cure=$(sed -n "s/^cure of $name: //p" <<<"$said")
        sed -i "s|^$name = .*|$name = $cure|" settings.conf
        break
    fi
done
"""

_NOTES = """\
Tests the memory of failures. Each experiment prints more than a turn may hold, and what it found is in the middle. Whoever
forgets which causes are refuted tries them again; after {spare} experiments too many there is no time for the right one.
Which experiments were done can be found out: `experiments.log` and the findings tell.
"""


def dead_ends(seed: int) -> Instance:
    """The instance of a seed."""
    rng = draw("dead-ends", seed)
    order = rng.sample(CAUSES, len(CAUSES))
    right = rng.randrange(6, len(order))
    codes = passwords(rng, len(order))
    *readings, cure = values(rng, seed, len(order) + 1)
    most = right + 1 + SPARE
    files = {
        "try.sh": _TRY.format(count=most),
        "settings.conf": "".join(f"{name} = {_UNSET}\n" for name in CAUSES),
    }
    facts: list[Fact] = []
    findings: dict[str, str] = {}
    for at, (name, code, reading) in enumerate(zip(order, codes, readings, strict=True)):
        case = with_line(log_lines(rng, _CASE_LINES), f"code of {name}: {code}", 0.96)
        files[f"causes/{name}.txt"] = "\n".join(case) + "\n"
        verdict = "confirmed" if at == right else "refuted"
        said = [Fact(label=f"reading of {name}", value=reading)]
        if at == right:
            said.append(Fact(label=f"cure of {name}", value=cure))
        found = "\n".join([*(fact.line for fact in said), f"verdict of {name}: {verdict}"])
        log = with_line(log_lines(rng, _LINES), found, rng.uniform(0.4, 0.7))
        files[f"lab/{name}-{code}.b64"] = base64.encodebytes(("\n".join(log) + "\n").encode()).decode()
        if at <= right:
            facts += said
            findings[f"{name}.txt"] = f"{reading} {verdict}\n"
    return Instance(
        name="dead-ends",
        suite="long",
        seed=seed,
        difficulty="hard",
        instruction=_INSTRUCTION.format(causes=", ".join(f"`{name}`" for name in order), count=most),
        files=files,
        solution=_SOLUTION.format(causes=" ".join(order)),
        expected={
            "findings": findings,
            "settings": files["settings.conf"].replace(
                f"{order[right]} = {_UNSET}", f"{order[right]} = {cure}"
            ),
            "tried": order[: right + 1],
            "most": most,
        },
        checks=_CHECKS,
        notes=_NOTES.format(spare=SPARE),
        window=12000,
        min_compactions=2,
        max_steps=120,
        protected=("try.sh", "lab/**", "causes/**"),
        facts=tuple(facts),
        rules=("do none\ntwice without need",),
    )
