"""needle-in-log: a log of nearly three million characters, and one trace in the middle of it that says what to change."""

from __future__ import annotations

import hashlib
import random

from chimera.bench.generators.instance import Instance, draw
from chimera.bench.generators.wording import log_lines

_LINES = 43_000
_POOL = 600
"""Different lines of noise. The log draws from them, so that it can be stored small."""
_DECOYS = 150
LIMITS = ("stream buffers", "open tickets", "idle workers", "label slots", "retry budget", "page frames")

_INSTRUCTION = """\
`service.log` is the log of a service that stopped and was started again. It has {count:,} lines, most of which say nothing of
use. One line reads `service stopped after trace=ID`. Another line with the same ID says which limit was exceeded, how much
of it was allowed and how much was wanted. Other traces exceeded limits as well and recovered; they do not matter.

Set that limit in `limits.conf` to what was wanted, and change nothing else there. Write the ID to `trace.txt`, followed by a
line feed and nothing else.
"""

_CHECKS = """\
    def test_the_right_limit_is_raised_and_nothing_else(self) -> None:
        self.assertEqual(text("limits.conf"), EXPECTED["conf"])

    def test_the_trace_is_named(self) -> None:
        import hashlib

        self.assertEqual(hashlib.sha256((APP / "trace.txt").read_bytes()).hexdigest(), EXPECTED["trace"])
"""

_SOLUTION = """\
trace=$(sed -n 's/^.* service stopped after trace=//p' service.log)
line=$(grep "trace=$trace limit exceeded" service.log)
name=$(sed 's/^.*exceeded: //; s/,.*//' <<<"$line")
wanted=$(sed 's/^.*, //; s/ wanted//' <<<"$line")
sed -i "s/^$name = .*/$name = $wanted/" limits.conf
printf '%s\\n' "$trace" >trace.txt
"""

_NOTES = """\
Tests what happens with a file that fits no window. Reading it floods whatever has no limit on results; a cut that keeps head
and tail loses the middle, where everything lies; and to search for what was exceeded finds {decoys} lines too many. Two
searches are enough: for the stop, then for its trace.
"""


def needle(seed: int) -> Instance:
    """The instance of a seed."""
    rng = draw("needle-in-log", seed)
    allowed = {name: rng.randrange(64, 900) for name in LIMITS}
    pool = [line.partition(" ")[2] for line in log_lines(rng, _POOL)]
    lines = rng.choices(pool, k=_LINES)
    for at in rng.sample(range(200, _LINES - 200), _DECOYS):
        trace = _trace(rng)
        lines[at] = _exceeded(rng, trace, rng.choice(LIMITS), allowed)[0]
        lines[at + rng.randrange(1, 99)] = f"stock[{rng.randrange(100, 999)}] trace={trace} recovered"
    # Last, so that no decoy lies over it.
    trace, name, at = _trace(rng), rng.choice(LIMITS), round(_LINES * rng.uniform(0.45, 0.6))
    lines[at], wanted = _exceeded(rng, trace, name, allowed)
    lines[at + 40] = f"supervisor[1] service stopped after trace={trace}"
    log = [f"{at // 1800:02}:{at // 30 % 60:02}:{at % 30 * 2:02} {line}" for at, line in enumerate(lines)]
    return Instance(
        name="needle-in-log",
        suite="tools",
        seed=seed,
        difficulty="medium",
        instruction=_INSTRUCTION.format(count=_LINES),
        files={"service.log": "\n".join(log) + "\n", "limits.conf": _conf(allowed)},
        solution=_SOLUTION,
        expected={
            "conf": _conf({**allowed, name: wanted}),
            "trace": hashlib.sha256(f"{trace}\n".encode()).hexdigest(),
        },
        checks=_CHECKS,
        notes=_NOTES.format(decoys=_DECOYS),
        window=8000,
        min_compactions=0,
        max_steps=40,
        protected=("service.log",),
    )


def _trace(rng: random.Random) -> str:
    return f"{rng.getrandbits(40):010x}"


def _exceeded(rng: random.Random, trace: str, name: str, allowed: dict[str, int]) -> tuple[str, int]:
    """The line of a trace that exceeded a limit, and how much it wanted."""
    wanted = allowed[name] + rng.randrange(10, 400)
    said = f"limit exceeded: {name}, {allowed[name]} allowed, {wanted} wanted"
    return f"stock[{rng.randrange(100, 999)}] trace={trace} {said}", wanted


def _conf(limits: dict[str, int]) -> str:
    return "".join(f"{name} = {limit}\n" for name, limit in limits.items())
