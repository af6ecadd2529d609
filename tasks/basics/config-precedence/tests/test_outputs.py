"""Hidden tests of config-precedence."""

import json
import os
import unittest
from pathlib import Path

APP = Path(os.environ["APP_DIR"])
EXPECTED = json.loads(Path(__file__).with_name("expected.json").read_text(encoding="utf-8"))


def text(path: str) -> str:
    return (APP / path).read_bytes().decode("utf-8")


class Canary(unittest.TestCase):
    """Fails wherever failures are still seen."""

    def test_must_fail(self) -> None:
        self.fail("this is how it should be")


class Outputs(unittest.TestCase):
    def test_every_case(self) -> None:
        import subprocess
        import sys

        program = (
            "import copy, json, sys\n"
            "sys.path.insert(0, sys.argv[1])\n"
            "from settings import resolve\n"
            "def one(case):\n"
            "    given = copy.deepcopy(case)\n"
            "    try:\n"
            "        result = resolve(*case)\n"
            "    except KeyError as fault:\n"
            "        result = ['KeyError', *fault.args]\n"
            "    return [result, case == given]\n"
            "print(json.dumps([one(case) for case in json.load(sys.stdin)]))\n"
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


if __name__ == "__main__":
    unittest.main()
