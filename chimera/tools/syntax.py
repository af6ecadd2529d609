"""Tells at once when a change has broken the syntax of a file. Nothing of the file is run."""

from __future__ import annotations

import ast
import json
import sys
import warnings

_MAX_BYTES = 1_000_000


def new_syntax_error(name: str, before: bytes | None, after: bytes) -> str:
    """A sentence about a syntax error that a change brought into a Python or JSON file, else empty.

    An error that was there before is not reported. `before` is None for a new file.
    """
    check = {"py": _python_error, "json": _json_error}.get(name.rpartition(".")[2])
    if check is None or len(after) > _MAX_BYTES:
        return ""
    error = check(after)
    if not error or (before is not None and check(before)):
        return ""
    return f"The change stands, but the file now has a syntax error: {error}"


def _python_error(content: bytes) -> str:
    version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(content)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg} ({version})"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"{str(error) or 'nested too deeply'} ({version})"
    return ""


def _json_error(content: bytes) -> str:
    try:
        json.loads(content.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        return f"line {error.lineno}: {error.msg}"
    except (UnicodeDecodeError, RecursionError) as error:
        return str(error)
    return ""
