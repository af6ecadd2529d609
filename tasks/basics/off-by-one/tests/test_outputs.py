"""Hidden tests of off-by-one. The module runs in another process, so that it cannot reach into the tests."""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

APP = Path(os.environ["APP_DIR"])
CALLS = Path(__file__).with_name("calls.py")
KEEP_APART = Path(__file__).with_name("keep_apart.py")

COUNTS = [
    ((0, 12), 1),
    ((1, 12), 1),
    ((11, 12), 1),
    ((12, 12), 1),
    ((13, 12), 2),
    ((96, 12), 8),
    ((97, 12), 9),
    ((5, 1), 5),
    ((0, 1), 1),
    ((1, 1), 1),
    ((999_999, 1000), 1000),
    ((1_000_000, 1000), 1000),
    ((1_000_001, 1000), 1001),
    # Beyond what a float can tell apart.
    ((3 * 10**17, 3), 10**17),
    ((3 * 10**17 + 1, 3), 10**17 + 1),
]
PAGES_OF = [
    ((1, 12), 1),
    ((12, 12), 1),
    ((13, 12), 2),
    ((24, 12), 2),
    ((25, 12), 3),
    ((1, 1), 1),
    ((6, 1), 6),
    ((3 * 10**17, 3), 10**17),
]
PAGES = [
    ((1, 0, 12), [0, 0, None, None]),
    ((1, 1, 12), [1, 1, None, None]),
    ((1, 12, 12), [1, 12, None, None]),
    ((1, 13, 12), [1, 12, None, 2]),
    ((2, 13, 12), [13, 13, 1, None]),
    ((2, 36, 12), [13, 24, 1, 3]),
    ((3, 36, 12), [25, 36, 2, None]),
    ((4, 41, 12), [37, 41, 3, None]),
    ((1, 3, 1), [1, 1, None, 2]),
    ((2, 3, 1), [2, 2, 1, 3]),
    ((3, 3, 1), [3, 3, 2, None]),
]
CAPTIONS = [
    ((1, 0, 12), "no items"),
    ((1, 1, 12), "item 1 of 1"),
    ((3, 3, 1), "item 3 of 3"),
    ((2, 13, 12), "item 13 of 13"),
    ((2, 36, 12), "items 13-24 of 36"),
    ((4, 41, 12), "items 37-41 of 41"),
]
REFUSED = [
    ("page_count", (-1, 12)),
    ("page_count", (5, 0)),
    ("page_count", (5, -3)),
    ("page_of", (0, 12)),
    ("page_of", (-7, 12)),
    ("page_of", (4, 0)),
    ("page_at", (0, 36, 12)),
    ("page_at", (4, 36, 12)),
    ("page_at", (2, 0, 12)),
    ("page_at", (2, 12, 12)),
    ("page_at", (1, -1, 12)),
    ("page_at", (1, 5, 0)),
]


# Calls that did not end. After the first one nothing is asked any more, or the grader itself would run out of time.
endless: list[str] = []


def results(calls: list[tuple[str, Any]]) -> list[Any]:
    if endless:
        raise AssertionError(f"{endless[0]} did not end, so the rest was not tried")
    try:
        done = subprocess.run(
            [sys.executable, "-s", "-P", str(KEEP_APART), str(APP), CALLS.read_text(), "pager"],
            input=json.dumps(calls),
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
            env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
        )
    except subprocess.TimeoutExpired:
        endless.append(calls[0][0])
        raise
    found = json.loads(done.stdout)
    assert isinstance(found, list)
    assert len(found) == len(calls)
    return found


class Canary(unittest.TestCase):
    """Fails wherever failures are still seen."""

    def test_must_fail(self) -> None:
        self.fail("this is how it should be")


class Outputs(unittest.TestCase):
    def check(self, name: str, table: list[tuple[Any, Any]]) -> None:
        found = results([(name, arguments) for arguments, _ in table])
        for (arguments, expected), result in zip(table, found, strict=True):
            with self.subTest(function=name, arguments=arguments):
                self.assertEqual(result, expected)
                self.assertIs(type(result), type(expected))

    def test_page_counts(self) -> None:
        self.check("page_count", COUNTS)

    def test_pages_of_items(self) -> None:
        self.check("page_of", PAGES_OF)

    def test_pages(self) -> None:
        self.check("page_at", PAGES)

    def test_captions(self) -> None:
        found = results([("caption", ({"page": page}, page[1])) for page, _ in CAPTIONS])
        self.assertEqual(found, [expected for _, expected in CAPTIONS])

    def test_what_cannot_be_is_refused(self) -> None:
        self.assertEqual(results(REFUSED), ["ValueError"] * len(REFUSED))

    def test_every_item_is_on_exactly_one_page(self) -> None:
        for total, per_page in [(40, 9), (45, 9), (46, 9), (7, 7), (7, 8), (10, 1)]:
            count = -(-total // per_page)
            pages = results([("page_at", (n, total, per_page)) for n in range(1, count + 1)])
            shown = [item for first, last, *_ in pages for item in range(first, last + 1)]
            with self.subTest(total=total, per_page=per_page):
                self.assertEqual(shown, list(range(1, total + 1)))


if __name__ == "__main__":
    unittest.main()
