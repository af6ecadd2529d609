"""`python -m chimera.bench.generators FOLDER [SEED] [TASK...]`: write generated tasks as `FOLDER/SUITE/TASK`."""

from __future__ import annotations

import sys
from pathlib import Path

from chimera.bench.generators.catalogue import CHECKED_IN_SEED, GENERATORS


def main(arguments: list[str]) -> int:
    """Write the tasks. Returns the exit code."""
    if not arguments or arguments[0].startswith("-") or not all(name in GENERATORS for name in arguments[2:]):
        sys.stderr.write(f"{__doc__}\nTasks: {', '.join(GENERATORS)}\n")
        return 2
    folder, seed = Path(arguments[0]), int(arguments[1]) if len(arguments) > 1 else CHECKED_IN_SEED
    for name in arguments[2:] or GENERATORS:
        instance = GENERATORS[name](seed)
        instance.write(folder / instance.suite / instance.name)
        sys.stdout.write(f"{folder / instance.suite / instance.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
