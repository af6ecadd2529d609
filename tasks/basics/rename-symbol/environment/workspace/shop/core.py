"""Where route lives."""


def route(items, *, start=0):
    """Add up items. To route nothing gives start."""
    total = start  # route begins here
    for item in items:
        total += item
    return total


def route_all(groups):
    """A name of its own, not route."""
    return [route(group) for group in groups]
