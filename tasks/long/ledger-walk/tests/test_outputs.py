"""Hidden tests of ledger-walk."""

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
    def test_every_closing_is_right(self) -> None:
        found = [text(f"closings/{number:02}.txt") for number in range(1, len(EXPECTED["closings"]) + 1)]
        self.assertEqual(found, [f"{closing}\n" for closing in EXPECTED["closings"]])


if __name__ == "__main__":
    unittest.main()
