"""exact-strings: twelve values handed over once, among near twins, and needed after a long shift of other work."""

from __future__ import annotations

import base64

from chimera.bench.generators.instance import Fact, Instance, draw
from chimera.bench.generators.wording import log_lines, twin, values, with_line

SHIFTS = 28
_LINES = 38
LABELS = (
    "billing endpoint", "catalog mirror", "courier endpoint", "invoice store", "ledger seal", "mailer relay",
    "orders endpoint", "quota store", "refund seal", "stock mirror", "backup target", "alarm route",
)  # fmt: skip
"""What the values are for, in the order in which the configuration wants them."""

_INSTRUCTION = """\
You take over a deployment. Work in this order:

1. `bash handover.sh` prints twelve values. It can be run once; what it printed cannot be had again. Some lines name
   retired values; they look alike and must not be used. You may keep notes in other files.
2. The folder `shifts` holds the logs of {count} shifts, `01.txt` to `{count}.txt`. Each has one line that begins with
   `units shipped on shift NN:`. Go through them in order and write the number behind it to `reports/NN.txt`, followed by
   a line feed and nothing else.
3. Write `deploy.conf` with twelve lines `NAME = VALUE`, each ended by a line feed, the values to the letter, in this
   order of names: {labels}.
"""

_HANDOVER = """\
#!/bin/bash
# Hands the values over. Once.
if [[ ! -f .handover.b64 ]]; then
    printf 'the handover is over\\n'
    exit 1
fi
base64 -d .handover.b64 && rm .handover.b64
"""

_CHECKS = """\
    def test_every_value_is_exact(self) -> None:
        self.assertEqual(text("deploy.conf"), "".join(f"{line}\\n" for line in EXPECTED["conf"]))

    def test_every_report_is_right(self) -> None:
        found = [text(f"reports/{number:02}.txt").strip() for number in range(1, len(EXPECTED["units"]) + 1)]
        self.assertEqual(found, EXPECTED["units"])
"""

_SOLUTION = """\
bash handover.sh | sed -n '/^retired/d; s/: / = /p' >deploy.conf
mkdir -p reports
for number in $(seq -w {count}); do
    sed -n 's/^units shipped on shift [0-9]*: //p' "shifts/$number.txt" >"reports/$number.txt"
done
"""

_NOTES = """\
Tests verbatim values over a distance: ports, paths, hashes and test names that are seen once at the start and copied
out at the end, with near twins beside them. Rounding, shortening and paraphrase fail, and so does a guess.
"""


def exact_strings(seed: int) -> Instance:
    """The instance of a seed."""
    rng = draw("exact-strings", seed)
    given = [
        Fact(label=label, value=value)
        for label, value in zip(LABELS, values(rng, seed, len(LABELS)), strict=True)
    ]
    # In the order in which the configuration wants them, so that the oracle's pipe is enough.
    handover = [
        line for fact in given for line in (f"retired {fact.label}: {twin(fact.value, rng)}", fact.line)
    ]
    files = {
        "handover.sh": _HANDOVER,
        ".handover.b64": base64.encodebytes(("\n".join(handover) + "\n").encode()).decode(),
    }
    units = [str(rng.randrange(1000, 9999)) for _ in range(SHIFTS)]
    for number, count in enumerate(units, 1):
        log = with_line(log_lines(rng, _LINES), f"units shipped on shift {number:02}: {count}", 0.98)
        files[f"shifts/{number:02}.txt"] = "\n".join(log) + "\n"
    return Instance(
        name="exact-strings",
        suite="context",
        seed=seed,
        difficulty="hard",
        instruction=_INSTRUCTION.format(count=SHIFTS, labels=", ".join(f"`{label}`" for label in LABELS)),
        files=files,
        solution=_SOLUTION.format(count=SHIFTS),
        expected={"conf": [f"{fact.label} = {fact.value}" for fact in given], "units": units},
        checks=_CHECKS,
        notes=_NOTES,
        window=8000,
        min_compactions=5,
        max_steps=150,
        protected=("handover.sh", "shifts/**"),
        facts=tuple(given),
        rules=("the values to the letter",),
    )
