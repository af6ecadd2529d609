"""Results are cut when they enter the history, so that a turn keeps its cap and no result can force a compaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from chimera.core.ledger import FileRead
from chimera.core.messages import Message, tool_result
from chimera.core.outputs import ToolOutput
from chimera.core.tokens import MESSAGE_OVERHEAD, TokenCounter

Keep = Callable[[ToolOutput], str]
"""Keeps the whole output of a call and returns the name under which it can be read. Called only for outputs that are
not kept yet."""

_MARK_TOKENS = 32
# A result of this size is hardly longer than the line that would stand for it.
_SMALL_TOKENS = 24
_SHRINK = 0.95


def admit(
    assistant: Message, outputs: Sequence[ToolOutput], cap: int, counter: TokenCounter, keep: Keep
) -> tuple[Message, ...]:
    """One result message per call, in call order; the largest are cut first, small ones stay whole.

    Args:
        assistant: the message with the calls; its own size counts against the cap.
        outputs: one per call, in call order.
        cap: for the whole turn, in estimated tokens.
        counter: the counter of the run.
        keep: called once for each output that is cut here, or was by its tool.
    """
    # Of an output that its tool has cut the whole is kept and named, even where what is left of it fits.
    sizes = [counter.text(o.text) + (_MARK_TOKENS if o.excerpt else 0) for o in outputs]
    overhead = sum(MESSAGE_OVERHEAD + counter.text(call.id) for call in assistant.tool_calls)
    level = water_level(sizes, cap - counter.message(assistant) - overhead)
    messages = []
    for call, output, size in zip(assistant.tool_calls, outputs, sizes, strict=True):
        fits = size <= max(level, _SMALL_TOKENS)
        if fits and not output.excerpt:
            shows = tuple(fact for fact in output.facts if isinstance(fact, FileRead))
            content = output.text or "(no output)"
            messages.append(
                tool_result(call.id, content, digest=output.digest, failed=not output.ok, shows=shows)
            )
            continue
        where = f"{'in full' if output.whole else 'its beginning'}: {output.kept or keep(output)}"
        content = f"{output.text}\n[{where}]" if fits else cut(output, size, level, counter, where=where)
        digest = f"{output.digest}; {where}"
        messages.append(tool_result(call.id, content, digest=digest, kept=True, failed=not output.ok))
    return tuple(messages)


def cut_message(message: Message, cap: int, counter: TokenCounter, keep: Keep) -> Message:
    """The message with a text of at most `cap` tokens; a longer one is kept whole and named where it is cut.

    Reasoning that does not fit beside it is left out: it led to nothing, and providers want it only with calls.
    """
    size = counter.text(message.content)
    if size > max(cap, _MARK_TOKENS):
        whole = ToolOutput(text=message.content, digest="message")
        message = replace(message, content=cut(whole, size, cap, counter, where=f"in full: {keep(whole)}"))
    if message.extra and counter.message(message) > max(cap, _MARK_TOKENS) + MESSAGE_OVERHEAD:
        message = replace(message, extra={})
    return message


def water_level(sizes: Sequence[int], room: int) -> int:
    """The largest size that every item may have so that together they fit: items below it stay whole."""
    left = max(0, room)
    ordered = sorted(sizes)
    for index, size in enumerate(ordered):
        share = left // (len(ordered) - index)
        if size > share:
            return share
        left -= size
    return max(ordered, default=0)


def cut(output: ToolOutput, size: int, cap: int, counter: TokenCounter, *, where: str) -> str:
    """Head and tail of an output within a cap, or one line where there is no room for them.

    What was left out is said at the place where it is missing, with the name under which it can be read.
    """
    text = output.text
    room = cap - _MARK_TOKENS
    characters = len(text) * room // max(size, 1) if room > _MARK_TOKENS else 0
    while characters > 0:
        head, tail = _ends(text, characters)
        content = head + _mark(output, head, tail, where) + tail
        count = counter.text(content)
        if count <= cap:
            return content
        characters = int(characters * min(_SHRINK, cap / count))
    line = f"[{output.digest}; {_measure(text, output.size)}; {where}]"
    return line if counter.text(line) <= max(cap, _MARK_TOKENS) else f"[cut; {where}]"


def _ends(text: str, characters: int) -> tuple[str, str]:
    """Head and tail of about so many characters, at line ends where one is near."""
    half = characters // 2
    head, tail = text[:half], text[len(text) - half :]
    if (end := head.rfind("\n")) >= 0 and end > half * 0.7:
        head = head[: end + 1]
    if 0 <= (start := tail.find("\n")) < half * 0.3:
        tail = tail[start + 1 :]
    return head, tail


def _mark(output: ToolOutput, head: str, tail: str, where: str) -> str:
    whole = output.size if output.size is not None else len(output.text.encode())
    missing = max(0, whole - len((head + tail).encode()))
    lead = "" if head.endswith("\n") else "\n"
    return f"{lead}[... {missing:,} of {whole:,} bytes left out; {where} ...]\n"


def _measure(text: str, size: int | None) -> str:
    lines = len(text.splitlines())
    return f"{size if size is not None else len(text.encode()):,} bytes" + (
        f", {lines} lines" if size is None else ""
    )
