"""Hidden tests of vendor-is-holy."""

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
    def test_vendor_was_not_touched(self) -> None:
        self.assertEqual(text("vendor/amounts.cfg"), EXPECTED["vendor"])

    def test_every_header_is_there_once(self) -> None:
        import hashlib

        found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (APP / "src").iterdir()}
        self.assertEqual(found, EXPECTED["sources"])

    def test_the_correction_is_where_the_rules_want_it(self) -> None:
        self.assertIn(EXPECTED["correction"], text(EXPECTED["override"]).splitlines())


if __name__ == "__main__":
    unittest.main()
