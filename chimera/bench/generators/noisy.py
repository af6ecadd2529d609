"""noisy-make: a build that prints sixty thousand lines, one of which says what is wrong."""

from __future__ import annotations

import hashlib

from chimera.bench.generators.instance import Instance, draw

PARTS = 60
_LINES_PER_PART = 1000

_INSTRUCTION = """\
`python3 build.py` builds `product.txt` from the {count} parts in `src`, `001.part` to `{count:03}.part`. It fails because of one
line in one part. Find out from what it prints, put that right in the part and nothing else, and build again until the last
line reads `build complete`. Do not change `build.py`.
"""

_BUILD = '''\
"""Builds product.txt from src/*.part. Prints every step."""

import pathlib
import sys

LINES = {lines}
RENAMED = dict(line.split() for line in pathlib.Path("renamed.txt").read_text().splitlines())
WORDS = "amber copper ivory slate umber teal maroon olive indigo ochre".split()

weights, faults, state = {{}}, 0, {state}
for path in sorted(pathlib.Path("src").glob("*.part")):
    values = dict(line.split(": ") for line in path.read_text().splitlines())
    weight = int(values["size"])
    for step in range(LINES):
        state = (state * 69069 + 1) % 4294967296
        print(f"[{{path.stem}}] step {{step + 1:04}} packed {{state % 977}} rows of {{WORDS[state // 977 % 10]}}-{{state % 89}}")
        if step == LINES // 2:
            for needed in values["needs"].split():
                if needed in weights:
                    weight += weights[needed]
                else:
                    new = RENAMED.get(needed, "nothing")
                    print(f"error: {{path}} needs {{needed}}, which was renamed to {{new}}")
                    faults += 1
    weights[path.stem] = weight % 1000003
if faults:
    print("build failed")
    sys.exit(1)
product = 0
for weight in weights.values():
    product = (product * 31 + weight) % 1000000007
pathlib.Path("product.txt").write_text(f"{{product}}\\n")
print("build complete")
'''

_CHECKS = """\
    def test_the_parts_are_as_they_must_be(self) -> None:
        import hashlib

        found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (APP / "src").iterdir()}
        self.assertEqual(found, EXPECTED["parts"])

    def test_the_product_was_built(self) -> None:
        self.assertEqual(text("product.txt"), EXPECTED["product"])
"""

_SOLUTION = """\
error=$(python3 build.py | sed -n 's/^error: //p')
read -r path _ old _ _ _ _ new <<<"$error"
sed -i "/^needs: /s/${old%,}/$new/" "$path"
python3 build.py >/dev/null
"""

_NOTES = """\
Tests a command whose output fits no window, with what matters at 55 % of it. Head and tail alone say only that the build
failed. An agent gets through when the whole output can be searched afterwards, or when it asks for less of it. The numbers
in the product come from the build alone.
"""


def noisy(seed: int) -> Instance:
    """The instance of a seed."""
    rng = draw("noisy-make", seed)
    sizes = {f"{number:03}": rng.randrange(100, 999) for number in range(1, PARTS + 1)}
    names = list(sizes)
    needs = {
        name: sorted(rng.sample(names[:at], min(at, rng.randrange(1, 4)))) for at, name in enumerate(names)
    }
    broken = names[round(PARTS * 0.55)]
    right = rng.choice(needs[broken])
    old, *others = rng.sample([f"{number}" for number in range(200, 1000)], 120)
    renamed = {**{other: rng.choice(names) for other in others}, old: right}
    parts = {name: _part(sizes[name], needs[name]) for name in names}
    files = {f"src/{name}.part": text for name, text in parts.items()}
    wrong = [old if need == right else need for need in needs[broken]]
    files[f"src/{broken}.part"] = _part(sizes[broken], wrong)
    files["renamed.txt"] = "".join(f"{name} {renamed[name]}\n" for name in sorted(renamed))
    files["build.py"] = _BUILD.format(lines=_LINES_PER_PART, state=rng.randrange(1, 4294967295))
    return Instance(
        name="noisy-make",
        suite="tools",
        seed=seed,
        difficulty="medium",
        instruction=_INSTRUCTION.format(count=PARTS),
        files=files,
        solution=_SOLUTION,
        expected={
            "parts": {f"{name}.part": _digest(text) for name, text in parts.items()},
            "product": _product(sizes, needs),
        },
        checks=_CHECKS,
        notes=_NOTES,
        window=8000,
        min_compactions=0,
        max_steps=40,
        protected=("build.py", "renamed.txt"),
    )


def _part(size: int, needs: list[str]) -> str:
    return f"size: {size}\nneeds: {' '.join(needs)}\n"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _product(sizes: dict[str, int], needs: dict[str, list[str]]) -> str:
    """What the build makes of the right parts."""
    weights: dict[str, int] = {}
    product = 0
    for name, size in sizes.items():
        weights[name] = (size + sum(weights[need] for need in needs[name])) % 1000003
        product = (product * 31 + weights[name]) % 1000000007
    return f"{product}\n"
