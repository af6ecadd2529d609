import unittest

from pager import Page, caption, page_at, page_count


class PagerTest(unittest.TestCase):
    def test_the_last_page_is_never_empty(self) -> None:
        self.assertEqual(page_count(30, 7), 5)
        self.assertEqual(page_count(28, 7), 4)

    def test_a_page_in_the_middle_has_two_neighbours(self) -> None:
        self.assertEqual(page_at(2, 30, 7), Page(first=8, last=14, previous=1, next=3))

    def test_the_caption_names_a_single_item(self) -> None:
        self.assertEqual(caption(page_at(5, 29, 7), 29), "item 29 of 29")


if __name__ == "__main__":
    unittest.main()
