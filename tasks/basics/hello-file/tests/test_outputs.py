"""Hidden tests of hello-file."""

import os
import stat
import unittest
from pathlib import Path

APP = Path(os.environ["APP_DIR"])
NOTICE = APP / "notices" / "maintenance.txt"
EXPECTED = b"Ma\xc3\xb1ana 06:15: database read-only\nBack at 07:40 - thanks!\n"


class Canary(unittest.TestCase):
    """Fails wherever failures are still seen."""

    def test_must_fail(self) -> None:
        self.fail("this is how it should be")


class Outputs(unittest.TestCase):
    def test_it_is_a_regular_file(self) -> None:
        self.assertFalse(NOTICE.parent.is_symlink())
        self.assertTrue(stat.S_ISREG(NOTICE.lstat().st_mode))

    def test_every_byte_is_right(self) -> None:
        self.assertEqual(NOTICE.read_bytes(), EXPECTED)


if __name__ == "__main__":
    unittest.main()
