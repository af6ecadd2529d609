"""Depot uses route in a way of its own."""

from shop.core import route

LABEL = "route of the depot"


def depot_total(items):
    # route does the work
    result = route(items, start=10)
    routes = [result]
    return LABEL, routes, list(map(route, [items]))
