"""Keeps the marks that redaction leaves out of files: written back, one would overwrite the secret it stands for.

Which secrets a mark stands for may be forgotten (a run that is taken up again may lack the variable), so every mark
counts, whatever its name. A file may hold such a text all the same; what is really there can be matched and kept.
"""

from __future__ import annotations

from collections import Counter

from chimera.errors import ToolError
from chimera.record.redaction import marks_in


def check_marks(text: str, *, file: str = "", instead_of: str = "") -> None:
    """Refuse new text with a mark that is not in the file already, at that place or in an equal line.

    Args:
        text: what is to be written.
        file: what the file holds, with line feeds.
        instead_of: the part of it that makes way.

    Raises:
        ToolError: such a mark.
    """
    added = Counter(marks_in(text)) - Counter(marks_in(instead_of))
    if not added:
        return
    there = set(file.split("\n"))
    for line in text.replace("\r\n", "\n").split("\n"):
        for mark in marks_in(line):
            if mark in added and line not in there:
                raise _refusal(mark)


def check_matched(text: str, *, file: str) -> None:
    """Refuse text that is to be found in a file and holds a mark that the file does not.

    Raises:
        ToolError: such a mark.
    """
    for mark in marks_in(text):
        if mark not in file:
            raise _refusal(mark)


def _refusal(mark: str) -> ToolError:
    return ToolError(
        f"{mark} stands for a secret that you were not shown, so the text cannot be matched or written with it. Nothing "
        "was changed. Leave the lines with secrets out: edit the lines around them with edit_file."
    )
