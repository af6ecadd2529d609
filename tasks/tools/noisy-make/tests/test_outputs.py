"""Hidden tests of noisy-make."""

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
    def test_the_parts_are_as_they_must_be(self) -> None:
        import hashlib

        found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (APP / "src").iterdir()}
        self.assertEqual(found, EXPECTED["parts"])

    def test_the_product_was_built(self) -> None:
        self.assertEqual(text("product.txt"), EXPECTED["product"])


if __name__ == "__main__":
    unittest.main()
