"""Command output as a person would see it: escape sequences, progress bars and binary are reduced to plain text.

Everything here takes linear time, whatever the bytes are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# A run of lines counts as binary from this many bytes that no text has, if they are also a tenth of the run.
_BINARY_BYTES = 32
_BINARY_SHARE = 0.1
# Clean lines this short inside a binary run belong to it: random bytes contain line feeds too.
_GAP_BYTES = 16
_GAP_LINES = 2

# Marks and overrides of direction, line and paragraph separators, and what has no shape of its own: they make a line read
# as something that it is not, or hide text in it. All of Default_Ignorable_Code_Point (DerivedCoreProperties.txt of the
# Unicode Character Database, version 16), and of the format characters (general category Cf) those that are not drawn. The
# few scripts that use some of them to shape their letters (Mongolian, old Hangul, hieroglyphs) pay for it with escapes.
# Compiled when first needed, and so are escape sequences: most runs see none before their first request.
_DECEPTIVE = (
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
    # Joiners belong into emoji and into scripts that join letters.
    "|(?<![\u0600-\u08ff\u0900-\u0dff\u2600-\u27bf\ufe0f\U0001f000-\U0001faff])[\u200c\u200d]"
    # The two that say whether a sign is an emoji belong behind one that can be both, and into keycaps.
    "|(?<![0-9#*\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u23ff\u24c2\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030\u303d"
    "\u3297\u3299\U0001f000-\U0001faff])[\ufe0e\ufe0f]"
    "|(?<=[0-9#*])[\ufe0e\ufe0f](?!\u20e3)"
)
_NOT_TEXT = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")

# Two noncharacters stand for "erase to the end of the line" and "erase the line" between the passes.
_ERASE_TAIL = "\ufdd0"
_ERASE_LINE = "\ufdd1"
_SEQUENCE = r"""(?x)
      (?P<tail>\x1b\[0?K)
    | (?P<line>\x1b\[[12]K)
    | (?P<home>\x1b\[[01]?G)
    | \x1b\[[0-?]*[ -/]*[@-~]                  # CSI: colours, cursor movement
    | \x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?     # OSC: window title, links
    | \x1b[PX^_][^\x1b]*\x1b\\                 # DCS, SOS, PM, APC
    | \x1b[ -/]*[0-~]                          # character sets and other short ones
    | [\x07\x0e\x0f\x1b]                       # bell, shifts, a lone escape
    """
_MOVES = re.compile(f"([\r\b{_ERASE_TAIL}{_ERASE_LINE}])")


def plain_text(raw: bytes) -> str:
    r"""What a terminal would show of `raw`, as strict UTF-8 text without control characters but newline and tab.

    Undecodable bytes become U+FFFD, other control characters visible escapes (`\x00`), a run of binary one line
    that says how many bytes it had. Line feeds outside binary are kept, so line numbers stay true.
    """
    text = "".join(_segments(raw))
    if not _CONTROL.search(text):
        return text
    text = text.replace(_ERASE_TAIL, "\ufffd").replace(_ERASE_LINE, "\ufffd")
    text = re.sub(_SEQUENCE, _replacement, text)
    text = "\n".join(_shown(line) if _MOVES.search(line) else line for line in text.split("\n"))
    return visible(text)


def visible(text: str) -> str:
    r"""`text` with control characters but newline and tab as escapes (`\x1b`) and lone surrogates as U+FFFD."""
    return _SURROGATE.sub("\ufffd", _CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", text))


def escaped(text: str) -> str:
    """`text` with control characters (but newline and tab), bidirectional and invisible ones as visible escapes.

    Joiners and variation selectors stay where they make an emoji or a script readable, and nowhere else.
    """
    return re.sub(_DECEPTIVE, _code_point, visible(text))


def _code_point(match: re.Match[str]) -> str:
    number = ord(match.group())
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def _replacement(match: re.Match[str]) -> str:
    return {"tail": _ERASE_TAIL, "line": _ERASE_LINE, "home": "\r"}.get(match.lastgroup or "", "")


def _shown(line: str) -> str:
    """The last state of a line that moves its cursor."""
    cells: list[str] = []
    cursor = 0
    for part in _MOVES.split(line):
        match part:
            case "\r":
                cursor = 0
            case "\b":
                cursor = max(0, cursor - 1)
            case "\ufdd0":
                del cells[cursor:]
            case "\ufdd1":
                cells.clear()
                cursor = 0
            case _:
                cells[cursor : cursor + len(part)] = part
                cursor += len(part)
    return "".join(cells)


def _segments(raw: bytes) -> Iterator[str]:
    """Decoded text, with each run of binary replaced by its remark."""
    if not _NOT_TEXT.search(raw):
        try:
            yield raw.decode("utf-8")
        except UnicodeDecodeError:
            pass
        else:
            return
    lines = _split(raw)
    badness = [_bad(line) for line in lines]
    start = 0
    while start < len(lines):
        if not badness[start]:
            yield lines[start].decode("utf-8", "replace")
            start += 1
            continue
        end = _run_end(lines, badness, start)
        size = sum(map(len, lines[start:end]))
        bad = sum(badness[start:end])
        if bad >= _BINARY_BYTES and bad >= _BINARY_SHARE * size:
            yield f"[{size:,} bytes of binary]" + ("\n" if lines[end - 1].endswith(b"\n") else "")
        else:
            yield b"".join(lines[start:end]).decode("utf-8", "replace")
        start = end


def _split(raw: bytes) -> list[bytes]:
    lines = [line + b"\n" for line in raw.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _bad(line: bytes) -> int:
    """How many bytes of a line no text would have."""
    bad = len(_NOT_TEXT.findall(line))
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        bad += line.decode("utf-8", "replace").count("\ufffd")
    return bad


def _run_end(lines: list[bytes], badness: list[int], start: int) -> int:
    end = start + 1
    gap = 0
    for index in range(start + 1, len(lines)):
        if badness[index]:
            end, gap = index + 1, 0
        elif len(lines[index]) > _GAP_BYTES or gap == _GAP_LINES:
            break
        else:
            gap += 1
    return end
