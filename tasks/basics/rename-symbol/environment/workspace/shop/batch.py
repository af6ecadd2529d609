"""Batch uses route in a way of its own."""

from shop.core import route

LABEL = "route of the batch"


def batch_total(items):
    # route does the work
    result = route(items, start=43)
    routes = [result]
    return LABEL, routes
