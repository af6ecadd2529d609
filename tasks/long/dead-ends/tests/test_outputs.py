"""Hidden tests of dead-ends."""

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
    def test_every_finding_is_right(self) -> None:
        found = {path.name: text(f"findings/{path.name}") for path in (APP / "findings").iterdir()}
        self.assertEqual(found, EXPECTED["findings"])

    def test_the_cure_is_exact(self) -> None:
        self.assertEqual(text("settings.conf"), EXPECTED["settings"])

    def test_nothing_behind_the_cause_was_tried_and_hardly_anything_twice(self) -> None:
        done = text("experiments.log").splitlines()
        self.assertEqual(list(dict.fromkeys(done)), EXPECTED["tried"])
        self.assertLessEqual(len(done), EXPECTED["most"])


if __name__ == "__main__":
    unittest.main()
