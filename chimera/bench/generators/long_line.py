"""one-long-line: two million characters of JSON in a single line, much of it base64 and CJK."""

from __future__ import annotations

import base64
import json
import random

from chimera.bench.generators.instance import Instance, draw
from chimera.bench.generators.wording import values

RECORDS = 800
_TEXT = "倉庫第三列的貨物已經檢查過請在月底之前把清單送到港口辦公室並且保留副本直到下一次盤點"
_BLOBS = 6
_BLOB_BYTES = 1500
_SEALS = 12

_INSTRUCTION = """\
`catalog.json` holds a list of records in one single line of about two million characters. One record has the name `{name}`.
Its field `seal` is base64 of a short text in UTF-8. Write that text to `seal.txt`, followed by a line feed and nothing else.
"""

_CHECKS = """\
    def test_the_seal_is_exact(self) -> None:
        self.assertEqual(text("seal.txt"), EXPECTED["seal"])
"""

_SOLUTION = """\
python3 - <<'PYTHON'
import base64, json
records = json.load(open("catalog.json", encoding="utf-8"))
seal = next(record["seal"] for record in records if record["name"] == "{name}")
open("seal.txt", "w", encoding="utf-8").write(base64.b64decode(seal).decode("utf-8") + "\\n")
PYTHON
"""

_NOTES = """\
Tests counting. Limits on lines do not hold here, as there is one; and an estimate of four characters a token is wrong by far
for base64 and CJK, so that a result taken for small overflows the window. A small program reads the file without showing it.
"""


def long_line(seed: int) -> Instance:
    """The instance of a seed."""
    rng = draw("one-long-line", seed)
    names = _names(rng)
    # Few different ones, so that the file can be stored small.
    blobs = [base64.b64encode(rng.randbytes(_BLOB_BYTES)).decode() for _ in range(_BLOBS)]
    seal, *others = (f"{value} 號" for value in values(rng, seed, _SEALS))
    chosen = rng.randrange(round(RECORDS * 0.4), round(RECORDS * 0.7))
    records = [
        {
            "name": name,
            "remark": _TEXT[rng.randrange(20) :] * rng.randrange(6, 14),
            "blob": rng.choice(blobs),
            "seal": base64.b64encode((seal if at == chosen else rng.choice(others)).encode()).decode(),
        }
        for at, name in enumerate(names)
    ]
    return Instance(
        name="one-long-line",
        suite="tools",
        seed=seed,
        difficulty="medium",
        instruction=_INSTRUCTION.format(name=names[chosen]),
        files={"catalog.json": json.dumps(records, ensure_ascii=False)},
        solution=_SOLUTION.format(name=names[chosen]),
        expected={"seal": f"{seal}\n"},
        checks=_CHECKS,
        notes=_NOTES,
        window=8000,
        min_compactions=0,
        max_steps=40,
        protected=("catalog.json",),
    )


def _names(rng: random.Random) -> list[str]:
    """Different names of four characters and a number."""
    found: dict[str, None] = {}
    while len(found) < RECORDS:
        found["".join(rng.sample(_TEXT, 4)) + str(rng.randrange(10, 99))] = None
    return list(found)
