"""resume-overfull: a run that is taken up again with a history four times its window, and three items left."""

from __future__ import annotations

from chimera.bench.generators.instance import Fact, Instance, draw
from chimera.bench.generators.wording import log_lines, values, with_line
from chimera.bench.trajectory import PastStep

ITEMS = 60
LEFT = 3
KINDS = ("anchor", "beacon", "cradle", "dynamo", "engine", "funnel")
_LINES = 22

_INSTRUCTION = """\
The folder `items` holds {count} items, `01.txt` to `{count}.txt`. One line of each reads `kind of item NN: KIND`. `bash codes.sh`
prints the code of every kind; it can be run once. Write for each item the file `labels/NN.txt` with the code of its kind,
followed by a line feed and nothing else. The order does not matter. What is labelled already stays as it is.
"""

_CODES = """\
#!/bin/bash
# Prints the codes. Once.
if [[ ! -f .codes ]]; then
    printf 'the codes were given out already\\n'
    exit 1
fi
cat .codes && rm .codes
"""

_CHECKS = """\
    def test_every_label_is_right(self) -> None:
        found = {path.name: text(f"labels/{path.name}") for path in (APP / "labels").iterdir()}
        self.assertEqual(found, EXPECTED["labels"])
"""

_SOLUTION = """\
for path in items/*.txt; do
    number=$(basename "$path" .txt)
    [[ -f labels/$number.txt ]] && continue
    kind=$(sed -n 's/^kind of item [0-9]*: //p' "$path")
    for other in labels/*.txt; do
        grep -q "^kind of item [0-9]*: $kind\\$" "items/$(basename "$other")" && cp "$other" "labels/$number.txt" && break
    done
done
"""

_NOTES = """\
Tests taking up a run whose history does not fit: `trajectory.json` holds its steps. It must be shortened before the
first call. {left} items are left, and which ones the history tells; what is done must stay as it is. The codes were printed
once, at the beginning, and can also be worked out from the labels there are.
"""


def resume(seed: int) -> Instance:
    """The instance of a seed."""
    rng = draw("resume-overfull", seed)
    facts = tuple(
        Fact(label=f"code of {kind}", value=value)
        for kind, value in zip(KINDS, values(rng, seed, len(KINDS)), strict=True)
    )
    codes = {fact.label.removeprefix("code of "): fact.value for fact in facts}
    order = list(range(1, ITEMS + 1))
    rng.shuffle(order)
    files = {"codes.sh": _CODES}
    kinds = {number: rng.choice(KINDS) for number in order}
    for number, kind in kinds.items():
        lines = with_line(log_lines(rng, _LINES), f"kind of item {number:02}: {kind}", 0.98)
        files[f"items/{number:02}.txt"] = "\n".join(lines) + "\n"
    done = order[: ITEMS - LEFT]
    files |= {f"labels/{number:02}.txt": f"{codes[kinds[number]]}\n" for number in done}
    past = [
        PastStep(
            name="shell",
            arguments={"command": "bash codes.sh"},
            output="exit 0\n" + "\n".join(fact.line for fact in facts),
        )
    ]
    for number in done:
        name, label = f"items/{number:02}.txt", f"labels/{number:02}.txt"
        numbered = [f"{place}\t{line}" for place, line in enumerate(files[name].splitlines(), 1)]
        shown = "\n".join([*numbered, f"[{len(numbered)} lines]"])
        past += [
            PastStep(name="read_file", arguments={"path": name}, output=shown),
            PastStep(
                name="write_file",
                arguments={"path": label, "content": files[label]},
                output=f"Created {label}: 1 line, +1 -0",
            ),
        ]
    return Instance(
        name="resume-overfull",
        suite="long",
        seed=seed,
        difficulty="hard",
        instruction=_INSTRUCTION.format(count=ITEMS),
        files=files,
        solution=_SOLUTION,
        expected={"labels": {f"{number:02}.txt": f"{codes[kinds[number]]}\n" for number in order}},
        checks=_CHECKS,
        notes=_NOTES.format(left=LEFT),
        window=8000,
        min_compactions=1,
        max_steps=60,
        protected=("items/**", "codes.sh"),
        facts=facts,
        rules=("What is labelled already stays as it is",),
        past=tuple(past),
    )
