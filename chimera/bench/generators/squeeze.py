"""floor-squeeze: an easy task beside so many tools that their schemas fill most of the window."""

from __future__ import annotations

from chimera.bench.generators.instance import Instance, draw
from chimera.bench.generators.wording import log_lines, with_line

FILES = 6
_LINES = 10
EXTRA_TOOLS = 24

_INSTRUCTION = """\
The folder `notes` holds {count} files, `01.txt` to `{count:02}.txt`. Each has one line that begins with `page of note NN:`.
Write `index.txt` with the numbers behind it, in the order of the files, one to a line, every line ended by a line feed.
"""

_CHECKS = """\
    def test_the_index_is_right(self) -> None:
        self.assertEqual(text("index.txt"), "".join(f"{page}\\n" for page in EXPECTED["pages"]))
"""

_SOLUTION = "sed -n 's/^page of note [0-9]*: //p' notes/*.txt >index.txt\n"

_NOTES = """\
Tests the floor. The context track registers 24 tools more than the task needs, whose schemas take about 70 % of 6,000
tokens and are sent on every request. Where that leaves no room the right end is to say so before the first call
(`cannot_shrink`, `floor`); an agent that counts only messages sends requests that are too large, or goes round in circles.
Without these tools the task is easy, and a baseline.
"""


def squeeze(seed: int) -> Instance:
    """The instance of a seed."""
    rng = draw("floor-squeeze", seed)
    pages = [str(rng.randrange(10, 990)) for _ in range(FILES)]
    files = {
        f"notes/{number:02}.txt": "\n".join(
            with_line(log_lines(rng, _LINES), f"page of note {number:02}: {page}", 0.9)
        )
        + "\n"
        for number, page in enumerate(pages, 1)
    }
    return Instance(
        name="floor-squeeze",
        suite="tools",
        seed=seed,
        difficulty="medium",
        instruction=_INSTRUCTION.format(count=FILES),
        files=files,
        solution=_SOLUTION,
        expected={"pages": pages},
        checks=_CHECKS,
        notes=_NOTES,
        window=6000,
        min_compactions=0,
        max_steps=40,
        protected=("notes/**",),
        extra_tools=EXTRA_TOOLS,
    )
