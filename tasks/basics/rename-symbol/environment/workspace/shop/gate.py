"""Gate uses route in a way of its own."""

from shop.core import route

LABEL = "route of the gate"


def gate_total(items):
    # route does the work
    result = route(items, start=30)
    routes = [result]
    return LABEL, routes
