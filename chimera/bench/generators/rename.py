"""rename-symbol: one name in six files, where the same word must stay in texts and comments."""

from __future__ import annotations

from chimera.bench.generators.instance import Instance, draw

_NAMES = (("tally", "count_units"), ("fold", "merge_orders"), ("quote", "price_of"), ("route", "choose_road"))
_MODULES = ("depot", "ledger", "gate", "report", "batch", "entry")

_INSTRUCTION = """\
Rename the function `{old}` of `shop/core.py` to `{new}`, there and wherever the package `shop` calls, imports or passes it.
The word {old} also stands in texts between quotes, in comments and as part of other names: leave all of these as they are.
Change nothing else, and no line end or space.
"""

_CORE = '''\
"""Where {old} lives."""


def {old}(items, *, start=0):
    """Add up items. To {old} nothing gives start."""
    total = start  # {old} begins here
    for item in items:
        total += item
    return total


def {old}_all(groups):
    """A name of its own, not {old}."""
    return [{old}(group) for group in groups]
'''

_MODULE = '''\
"""{title} uses {old} in a way of its own."""

from shop.core import {old}{extra}

LABEL = "{old} of the {module}"


def {module}_total(items):
    # {old} does the work
    result = {old}(items, start={start})
    {old}s = [result]
    return LABEL, {old}s{tail}
'''

_CHECKS = """\
    def test_every_file_is_as_it_must_be(self) -> None:
        for path, expected in EXPECTED["files"].items():
            with self.subTest(path=path):
                self.assertEqual(text(path), expected)

    def test_nothing_was_added(self) -> None:
        found = sorted(path.name for path in (APP / "shop").iterdir() if path.suffix == ".py")
        self.assertEqual(found, sorted(path.removeprefix("shop/") for path in EXPECTED["files"]))
"""

_SOLUTION = """\
python3 - <<'PYTHON'
import io, pathlib, tokenize
for path in pathlib.Path("shop").glob("*.py"):
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    found = [
        token.start
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.NAME and token.string == "{old}"
    ]
    for row, column in reversed(found):
        line = lines[row - 1]
        lines[row - 1] = line[:column] + "{new}" + line[column + len("{old}"):]
    path.write_text("".join(lines), encoding="utf-8")
PYTHON
"""

_NOTES = """\
Tests a precise edit in several files. Replacing the word everywhere fails, and so does leaving a call out. A baseline: no
compaction is expected.
"""


def rename(seed: int) -> Instance:
    """The instance of a seed."""
    rng = draw("rename-symbol", seed)
    old, new = rng.choice(_NAMES)
    before = {"shop/__init__.py": "", "shop/core.py": _CORE.format(old=old)}
    after = {"shop/__init__.py": "", "shop/core.py": _renamed_core(old, new)}
    for module in _MODULES[:5]:
        passes = rng.random() < 0.5
        values = {
            "title": module.capitalize(),
            "module": module,
            "start": rng.randrange(1, 90),
            "extra": f", {old}_all" if rng.random() < 0.5 else "",
            "tail": "",
        }
        body = _MODULE.format(old=old, **{**values, "tail": f", list(map({old}, [items]))" if passes else ""})
        before[f"shop/{module}.py"] = body
        after[f"shop/{module}.py"] = (
            body.replace(f"import {old}", f"import {new}")
            .replace(f"result = {old}(", f"result = {new}(")
            .replace(f"map({old},", f"map({new},")
        )
    return Instance(
        name="rename-symbol",
        suite="basics",
        seed=seed,
        difficulty="easy",
        instruction=_INSTRUCTION.format(old=old, new=new),
        files=before,
        solution=_SOLUTION.format(old=old, new=new),
        expected={"files": after},
        checks=_CHECKS,
        notes=_NOTES,
        window=16000,
        min_compactions=0,
        max_steps=40,
    )


def _renamed_core(old: str, new: str) -> str:
    text = _CORE.format(old=old)
    return text.replace(f"def {old}(", f"def {new}(").replace(f"[{old}(group)", f"[{new}(group)")
