"""config-precedence: a small function after a specification that says more than its example."""

from __future__ import annotations

import json
from typing import Any

from chimera.bench.generators.instance import Instance, draw

_SOURCES = ("defaults", "file", "environment", "flags")
_KEYS = ("host", "port", "retries", "colour", "verbose")

_INSTRUCTION = """\
Write the function `resolve(defaults, file, environment, flags)` in `settings.py`, as `SPEC.md` says. All four arguments are
dicts and none of them may be changed. Use nothing but the standard library. `python3 example.py` shows one case.
"""

_SPEC = """\
# Settings

The result is a new dict with exactly the keys of `defaults`.

1. Later sources win: defaults, then file, then environment, then flags.
2. A key of `environment` is written in capitals with `{prefix}` before it: `{prefix}PORT` is the key `port`. Other keys of
   the environment do not count.
3. Values of the environment are texts. Where the default is a whole number the text is turned into one; where the default is
   true or false, `1`, `true` and `yes` (in any case) are true and everything else is false. A text that is no whole number
   where one is needed does not count, and the next lower source holds.
4. An empty text in the environment does not count. An empty text in file or flags counts.
5. None in file or flags does not count.
6. Keys of file and flags that `defaults` does not have raise `KeyError` with the key. Keys of the environment that
   `defaults` does not have are passed over.
"""

_EXAMPLE = """\
from settings import resolve

print(resolve({{"port": 80}}, {{"port": 8080}}, {{"{prefix}PORT": "9090"}}, {{}}))  # {{'port': 9090}}
"""

_CHECKS = """\
    def test_every_case(self) -> None:
        import subprocess
        import sys

        program = (
            "import copy, json, sys\\n"
            "sys.path.insert(0, sys.argv[1])\\n"
            "from settings import resolve\\n"
            "def one(case):\\n"
            "    given = copy.deepcopy(case)\\n"
            "    try:\\n"
            "        result = resolve(*case)\\n"
            "    except KeyError as fault:\\n"
            "        result = ['KeyError', *fault.args]\\n"
            "    return [result, case == given]\\n"
            "print(json.dumps([one(case) for case in json.load(sys.stdin)]))\\n"
        )
        apart = str(Path(__file__).with_name("keep_apart.py"))
        done = subprocess.run(
            [sys.executable, "-s", "-P", "-B", apart, str(APP), program],
            input=json.dumps([case for case, _ in EXPECTED["cases"]]),
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
            env={"PATH": os.environ["PATH"]},
        )
        found = json.loads(done.stdout.splitlines()[-1])
        for (case, expected), (result, untouched) in zip(EXPECTED["cases"], found, strict=True):
            with self.subTest(case=case):
                self.assertEqual(json.dumps(result, sort_keys=True), json.dumps(expected, sort_keys=True))
                self.assertTrue(untouched)
"""

_SOLUTION = """\
cat >settings.py <<'PYTHON'
def resolve(defaults, file, environment, flags):
    for source in (file, flags):
        for key in source:
            if key not in defaults:
                raise KeyError(key)
    result = {{}}
    for key, default in defaults.items():
        value = default if file.get(key) is None else file[key]
        text = environment.get("{prefix}" + key.upper(), "")
        if text != "":
            if isinstance(default, bool):
                value = text.lower() in ("1", "true", "yes")
            elif isinstance(default, int):
                try:
                    value = int(text)
                except ValueError:
                    pass
            else:
                value = text
        result[key] = value if flags.get(key) is None else flags[key]
    return result
PYTHON
"""

_NOTES = """\
Tests following a specification: 30 cases, most of which the example does not show. A baseline: no compaction is expected.
The function runs in a process of its own and its results are compared outside it. That process cannot open the tests
where Linux has Landlock (5.13); elsewhere a hostile solution could look there for what is expected.
"""


def precedence(seed: int) -> Instance:
    """The instance of a seed."""
    rng = draw("config-precedence", seed)
    prefix = f"{rng.choice(('SHOP', 'DEPOT', 'QUAY', 'YARD'))}_"
    cases: list[tuple[list[dict[str, Any]], Any]] = []
    while len(cases) < 30:
        defaults = {
            "host": "local",
            "port": rng.randrange(1, 99),
            "retries": 3,
            "colour": "none",
            "verbose": False,
        }
        defaults = {key: defaults[key] for key in rng.sample(_KEYS, rng.randrange(2, 6))}
        keys = [*defaults, *(["unknown"] if rng.random() < 0.1 else [])]
        file = {key: _typed(key, rng.randrange(5)) for key in keys if rng.random() < 0.5}
        flags = {key: _typed(key, rng.randrange(5)) for key in defaults if rng.random() < 0.4}
        texts = ("", "12", "yes", "TRUE", "no", "1", "blue", "7")
        environment = {f"{prefix}{key.upper()}": rng.choice(texts) for key in defaults if rng.random() < 0.6}
        environment |= {"PORT": "1", f"{prefix}OTHER": "2", "port": "3"}
        case = [defaults, file, environment, flags]
        cases.append((case, _resolved(prefix, defaults, file, environment, flags)))
    return Instance(
        name="config-precedence",
        suite="basics",
        seed=seed,
        difficulty="easy",
        instruction=_INSTRUCTION,
        files={
            "SPEC.md": _SPEC.format(prefix=prefix),
            "example.py": _EXAMPLE.format(prefix=prefix),
            "settings.py": '"""Settings; see SPEC.md."""\n',
        },
        solution=_SOLUTION.format(prefix=prefix),
        expected={"cases": json.loads(json.dumps(cases))},
        checks=_CHECKS,
        notes=_NOTES,
        runs_product=True,
        window=16000,
        min_compactions=0,
        max_steps=40,
        protected=("SPEC.md",),
    )


def _typed(key: str, draw_of_five: int) -> Any:
    if draw_of_five == 0:
        return None
    if key in {"port", "retries"}:
        return draw_of_five * 11
    if key == "verbose":
        return draw_of_five % 2 == 0
    return ("", "red", "there", "")[draw_of_five - 1]


def _resolved(
    prefix: str,
    defaults: dict[str, Any],
    file: dict[str, Any],
    environment: dict[str, str],
    flags: dict[str, Any],
) -> Any:
    for key in (*file, *flags):
        if key not in defaults:
            return ["KeyError", key]
    result = {}
    for key, default in defaults.items():
        result[key] = file[key] if file.get(key) is not None else default
        text = environment.get(prefix + key.upper(), "")
        if text and isinstance(default, bool):
            result[key] = text.lower() in {"1", "true", "yes"}
        elif text and isinstance(default, int):
            result[key] = int(text) if text.isdigit() else result[key]
        elif text:
            result[key] = text
        if flags.get(key) is not None:
            result[key] = flags[key]
    return result
