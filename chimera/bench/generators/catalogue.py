"""All generated tasks, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from chimera.bench.generators.batch import batch
from chimera.bench.generators.change_of_mind import change_of_mind
from chimera.bench.generators.dead_ends import dead_ends
from chimera.bench.generators.exact_strings import exact_strings
from chimera.bench.generators.honest_stop import honest_stop
from chimera.bench.generators.instance import Instance
from chimera.bench.generators.ledger_walk import ledger_walk
from chimera.bench.generators.long_line import long_line
from chimera.bench.generators.marathon import marathon
from chimera.bench.generators.needle import needle
from chimera.bench.generators.noisy import noisy
from chimera.bench.generators.poisoned import poisoned
from chimera.bench.generators.precedence import precedence
from chimera.bench.generators.relay import relay
from chimera.bench.generators.rename import rename
from chimera.bench.generators.resume import resume
from chimera.bench.generators.squeeze import squeeze
from chimera.bench.generators.vendor import vendor
from chimera.bench.generators.wrap_once import wrap_once

Generator = Callable[[int], Instance]

GENERATORS: Mapping[str, Generator] = MappingProxyType(
    {
        "relay-30": relay,
        "exact-strings": exact_strings,
        "vendor-is-holy": vendor,
        "parallel-batch": batch,
        "floor-squeeze": squeeze,
        "honest-stop": honest_stop,
        "wrap-once": wrap_once,
        "ledger-walk": ledger_walk,
        "resume-overfull": resume,
        "needle-in-log": needle,
        "noisy-make": noisy,
        "one-long-line": long_line,
        "change-of-mind": change_of_mind,
        "dead-ends": dead_ends,
        "poisoned-notes": poisoned,
        "migration-marathon": marathon,
        "rename-symbol": rename,
        "config-precedence": precedence,
    }
)
"""From the name of a task to what makes an instance of it from a seed."""

CHECKED_IN_SEED = 1
"""Of the instances that lie in `tasks/`."""
