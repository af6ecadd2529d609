"""Hidden tests of one-long-line."""

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
    def test_the_seal_is_exact(self) -> None:
        self.assertEqual(text("seal.txt"), EXPECTED["seal"])


if __name__ == "__main__":
    unittest.main()
