"""Numbers for pages of a list. Items and pages are counted from 1; see README.md."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    """What one page shows, and its neighbours."""

    first: int
    last: int
    previous: int | None
    next: int | None


def page_count(total: int, per_page: int) -> int:
    """How many pages `total` items need; one for an empty list."""
    _check(total, per_page)
    return total // per_page + 1


def page_of(item: int, per_page: int) -> int:
    """The page that shows the item at this position."""
    _check(0, per_page)
    if item < 1:
        raise ValueError(f"items are counted from 1, so there is no item {item}")
    return item // per_page + 1


def page_at(number: int, total: int, per_page: int) -> Page:
    """The page with this number."""
    count = page_count(total, per_page)
    if not 1 <= number <= count:
        raise ValueError(f"there is no page {number}; the pages are 1 to {count}")
    first = (number - 1) * per_page + 1
    return Page(
        first=min(first, total),
        last=min(first + per_page, total),
        previous=number - 1 if number > 1 else None,
        next=number + 1 if number < count else None,
    )


def caption(page: Page, total: int) -> str:
    """What stands above the list."""
    if page.last == 0:
        return "no items"
    if page.first == page.last:
        return f"item {page.first} of {total}"
    return f"items {page.first}-{page.last} of {total}"


def _check(total: int, per_page: int) -> None:
    if total < 0:
        raise ValueError(f"a list cannot have {total} items")
    if per_page < 1:
        raise ValueError(f"a page cannot show {per_page} items")
