"""Builds product.txt from src/*.part. Prints every step."""

import pathlib
import sys

LINES = 1000
RENAMED = dict(line.split() for line in pathlib.Path("renamed.txt").read_text().splitlines())
WORDS = "amber copper ivory slate umber teal maroon olive indigo ochre".split()

weights, faults, state = {}, 0, 1677400187
for path in sorted(pathlib.Path("src").glob("*.part")):
    values = dict(line.split(": ") for line in path.read_text().splitlines())
    weight = int(values["size"])
    for step in range(LINES):
        state = (state * 69069 + 1) % 4294967296
        print(f"[{path.stem}] step {step + 1:04} packed {state % 977} rows of {WORDS[state // 977 % 10]}-{state % 89}")
        if step == LINES // 2:
            for needed in values["needs"].split():
                if needed in weights:
                    weight += weights[needed]
                else:
                    new = RENAMED.get(needed, "nothing")
                    print(f"error: {path} needs {needed}, which was renamed to {new}")
                    faults += 1
    weights[path.stem] = weight % 1000003
if faults:
    print("build failed")
    sys.exit(1)
product = 0
for weight in weights.values():
    product = (product * 31 + weight) % 1000000007
pathlib.Path("product.txt").write_text(f"{product}\n")
print("build complete")
