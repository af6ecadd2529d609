"""Hidden tests of rename-symbol."""

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
    def test_every_file_is_as_it_must_be(self) -> None:
        for path, expected in EXPECTED["files"].items():
            with self.subTest(path=path):
                self.assertEqual(text(path), expected)

    def test_nothing_was_added(self) -> None:
        found = sorted(path.name for path in (APP / "shop").iterdir() if path.suffix == ".py")
        self.assertEqual(found, sorted(path.removeprefix("shop/") for path in EXPECTED["files"]))


if __name__ == "__main__":
    unittest.main()
