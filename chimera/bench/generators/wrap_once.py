"""wrap-once: one change in many files, which must not be made twice in any of them."""

from __future__ import annotations

import hashlib

from chimera.bench.generators.instance import Instance, draw
from chimera.bench.generators.wording import log_lines

FILES = 45
_LINES = 33

_INSTRUCTION = """\
`worklist.txt` names {count} files in `src`, one to a line. In each of them one line reads `deliver = send(NAME, NUMBER)`,
with a name and a number of its own. Change it to `deliver = retry(send(NAME, NUMBER))`, and nothing else in the file.
Read each file before you change it, and go through them in the order of the list. `retry` must stand there once: a
second one around it would send everything twice.
"""

_CHECKS = """\
    def test_every_call_is_wrapped_once_and_nothing_else_changed(self) -> None:
        import hashlib

        found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (APP / "src").iterdir()}
        self.assertEqual(found, EXPECTED["sources"])
"""

_SOLUTION = """\
sed -i -E 's/^deliver = (send\\(.*\\))$/deliver = retry(\\1)/' src/*.txt
"""

_NOTES = """\
Tests whether the agent knows what it has done already. The files are worked through in the order of a list and not of
their names, so the last one does not tell which are done. Whoever forgets wraps twice or leaves one out. It can be found
out: a search shows what is wrapped.
"""


def wrap_once(seed: int) -> Instance:
    """The instance of a seed."""
    rng = draw("wrap-once", seed)
    numbers = list(range(1, FILES + 1))
    rng.shuffle(numbers)
    files = {"worklist.txt": "".join(f"src/{number:02}.txt\n" for number in numbers)}
    sources: dict[str, str] = {}
    for number in range(1, FILES + 1):
        log = log_lines(rng, _LINES)
        send = f"send(client_{rng.randrange(100, 999)}, {rng.randrange(2, 90)})"
        before = [*log, f"deliver = {send}"]
        after = [*log, f"deliver = retry({send})"]
        files[f"src/{number:02}.txt"] = "\n".join(before) + "\n"
        sources[f"{number:02}.txt"] = hashlib.sha256(("\n".join(after) + "\n").encode()).hexdigest()
    return Instance(
        name="wrap-once",
        suite="long",
        seed=seed,
        difficulty="hard",
        instruction=_INSTRUCTION.format(count=FILES),
        files=files,
        solution=_SOLUTION,
        expected={"sources": sources},
        checks=_CHECKS,
        notes=_NOTES,
        window=12000,
        min_compactions=4,
        max_steps=200,
        protected=("worklist.txt",),
        rules=("`retry` must stand there once",),
    )
