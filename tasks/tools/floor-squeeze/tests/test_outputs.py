"""Hidden tests of floor-squeeze."""

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
    def test_the_index_is_right(self) -> None:
        self.assertEqual(text("index.txt"), "".join(f"{page}\n" for page in EXPECTED["pages"]))


if __name__ == "__main__":
    unittest.main()
