"""Hidden tests of relay-30."""

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
    def test_every_line_is_there_in_order(self) -> None:
        self.assertEqual(text("manifest.txt"), "".join(f"{line}\n" for line in EXPECTED["lines"]))

    def test_every_station_was_asked(self) -> None:
        self.assertEqual([path.name for path in APP.glob("stations/*.b64")], [])


if __name__ == "__main__":
    unittest.main()
