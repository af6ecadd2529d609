"""Hidden tests of needle-in-log."""

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
    def test_the_right_limit_is_raised_and_nothing_else(self) -> None:
        self.assertEqual(text("limits.conf"), EXPECTED["conf"])

    def test_the_trace_is_named(self) -> None:
        import hashlib

        self.assertEqual(hashlib.sha256((APP / "trace.txt").read_bytes()).hexdigest(), EXPECTED["trace"])


if __name__ == "__main__":
    unittest.main()
