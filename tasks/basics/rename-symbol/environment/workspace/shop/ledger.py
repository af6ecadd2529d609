"""Ledger uses route in a way of its own."""

from shop.core import route

LABEL = "route of the ledger"


def ledger_total(items):
    # route does the work
    result = route(items, start=68)
    routes = [result]
    return LABEL, routes, list(map(route, [items]))
