"""Which addresses can be connected to, and which are this machine's own."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def is_http(url: str) -> bool:
    """Whether an address names a place to which an HTTP connection can be made."""
    try:
        at = urlsplit(url)
        host = at.hostname or ""
        labels = (host if host.isascii() else host.encode("idna").decode()).removesuffix(".").split(".")
        return (
            at.scheme in {"http", "https"} and at.port != 0 and all(0 < len(label) < 64 for label in labels)
        )
    except ValueError:
        return False


def is_loopback(url: str) -> bool:
    """Whether an address is this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
