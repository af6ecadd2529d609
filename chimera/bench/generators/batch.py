"""parallel-batch: many small files that are best read several at a time."""

from __future__ import annotations

from chimera.bench.generators.instance import Instance, draw
from chimera.bench.generators.wording import log_lines, with_line

FILES = 60
GROUP = 6
_LINES = 17

_INSTRUCTION = """\
The folder `parts` holds {files} files, `01.txt` to `{files}.txt`. Each has one line that begins with `grams of part NN:`.
They belong together in groups of {group}: parts 01 to 06 are group 01, parts 07 to 12 are group 02, and so on.

Write for each group the file `groups/NN.txt` with the sum of its grams, followed by a line feed and nothing else.
"""

_CHECKS = """\
    def test_every_sum_is_right(self) -> None:
        found = [text(f"groups/{number:02}.txt") for number in range(1, len(EXPECTED["sums"]) + 1)]
        self.assertEqual(found, [f"{total}\\n" for total in EXPECTED["sums"]])
"""

_SOLUTION = """\
mkdir -p groups
for group in $(seq {groups}); do
    total=0
    for part in $(seq $((group * {size} - {size} + 1)) $((group * {size}))); do
        name=$(printf '%02d' "$part")
        total=$((total + $(sed -n 's/^grams of part [0-9]*: //p' "parts/$name.txt")))
    done
    printf '%d\\n' "$total" >"groups/$(printf '%02d' "$group").txt"
done
"""

_NOTES = """\
Tests the pairing of calls and results: the task invites six reads in one message, and whoever shortens the history
inside such a message leaves results without their calls. In a small window six results share the room of one turn, so
each shows little; an agent must then look for the one line instead.
"""


def batch(seed: int) -> Instance:
    """The instance of a seed."""
    rng = draw("parallel-batch", seed)
    grams = [rng.randrange(100, 999) for _ in range(FILES)]
    files = {
        f"parts/{number:02}.txt": "\n".join(
            with_line(log_lines(rng, _LINES), f"grams of part {number:02}: {weight}", rng.uniform(0.2, 0.8))
        )
        + "\n"
        for number, weight in enumerate(grams, 1)
    }
    return Instance(
        name="parallel-batch",
        suite="tools",
        seed=seed,
        difficulty="medium",
        instruction=_INSTRUCTION.format(files=FILES, group=GROUP),
        files=files,
        solution=_SOLUTION.format(groups=FILES // GROUP, size=GROUP),
        expected={"sums": [sum(grams[start : start + GROUP]) for start in range(0, FILES, GROUP)]},
        checks=_CHECKS,
        notes=_NOTES,
        window=8000,
        min_compactions=0,
        max_steps=120,
        protected=("parts/**",),
    )
