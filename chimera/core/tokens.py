"""One counter for everything that is sent. The only module that knows tiktoken.

Estimates are of the request as sent: contents, names, ids and arguments of calls, results, and the `tools` payload in
its compact form. A `Calibration` corrects them by what the provider reports; a size is always estimate times factor.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import math
import string
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from chimera.core.history import History, Turn
from chimera.core.messages import Message, system, user
from chimera.prompts import INSTRUCTIONS_CLOSE, INSTRUCTIONS_OPEN

ENCODING = "cl100k_base"
# What chat formats add around each message (role, separators) and around a request: OpenAI's cookbook on counting
# tokens gives 3 a message plus 1 for a name, and 3 to prime the reply.
MESSAGE_OVERHEAD = 4
CALL_OVERHEAD = 4
REQUEST_OVERHEAD = 3
# Encoding in slices bounds the regular expression's stack (a million spaces overflow it) and costs 0.04 % more tokens.
_SLICE = 20_000
# How far a provider's count may move our estimate. Beyond it the report is more likely wrong than the estimate.
FACTOR_RANGE = (0.5, 2.0)
_LOWERING_RATE = 0.5
GROUP_SEPARATOR = "__"
"""In the name of an imported tool, between the server it comes from and its own name."""
# Above what was reported: the next turn may tokenise worse than those before it, and only an undercount hurts.
MARGIN = 1.02


class Calibration(Struct, frozen=True):
    """How a provider's counts relate to our estimates."""

    factor: float = 1.0
    known: bool = False
    """Whether the factor comes from a report: the first one replaces it, later ones correct it."""

    def observe(self, estimate: int, reported: int) -> Calibration:
        """After a reply: raised at once, since an underestimate overflows; lowered smoothly."""
        if estimate <= 0 or reported <= 0:
            return self
        low, high = FACTOR_RANGE
        seen = min(max(MARGIN * reported / estimate, low), high)
        at_once = seen > self.factor or not self.known
        factor = seen if at_once else self.factor + _LOWERING_RATE * (seen - self.factor)
        return Calibration(factor, known=True)

    def size(self, estimate: int) -> int:
        """The size in the provider's tokens, rounded up."""
        return math.ceil(estimate * self.factor)

    def estimate(self, size: int) -> int:
        """The largest estimate whose size is at most `size`."""
        estimate = int(size / self.factor) + 1
        while self.size(estimate) > size:
            estimate -= 1
        return estimate


class Floor(Struct, frozen=True, kw_only=True):
    """What every request carries whatever the history: system message and tool schemas. Uncalibrated."""

    system: int
    """The system message, with the overhead of a request."""
    tools: Mapping[str, int]
    """Per tool, in the order in which they are advertised."""
    instructions: int = 0
    """The part of `system` that is quoted from AGENTS.md."""

    @property
    def total(self) -> int:
        return self.system + sum(self.tools.values())

    @property
    def servers(self) -> dict[str, dict[str, int]]:
        """The imported tools by the server they come from, the most expensive server first."""
        found: dict[str, dict[str, int]] = {}
        for name, tokens in self.tools.items():
            server, separator, _ = name.partition(GROUP_SEPARATOR)
            if separator:
                found.setdefault(server, {})[name] = tokens
        return dict(sorted(found.items(), key=lambda item: -sum(item[1].values())))


class CountMemory(Protocol):
    """Counts of texts that one run after the other counts again."""

    def get(self, text: str) -> int | None: ...

    def put(self, text: str, tokens: int) -> None: ...


class TokenCounter:
    """Counts text, messages and schemas. Loads its vocabulary at the first count and needs no network.

    Args:
        memory: knows the counts of `lasting` texts from earlier runs, so that these need no vocabulary.
    """

    def __init__(self, memory: CountMemory | None = None) -> None:
        self._memory = memory

    @property
    def ready(self) -> bool:
        """Whether the vocabulary is loaded."""
        return _encoder.cache_info().currsize > 0

    def load(self) -> None:
        """Load the vocabulary, which takes most of a fifth of a second."""
        _encoder()

    def bound(self, message: Message) -> int:
        """What the tokens of a message without calls never exceed, without the vocabulary: none is less than a byte."""
        return MESSAGE_OVERHEAD + len(message.content.encode("utf-8", "surrogatepass"))

    def lasting(self, text: str) -> int:
        """Tokens of a text that other runs count as well."""
        if self._memory is None:
            return self.text(text)
        known = self._memory.get(text)
        if known is None:
            known = self.text(text)
            if _encoder() is not cautious_count:
                self._memory.put(text, known)
        return known

    def text(self, text: str) -> int:
        """Tokens of a text. What looks like a special token is plain text."""
        return _count(text) if text else 0

    def message(self, message: Message) -> int:
        """Tokens of a message as sent, overhead included."""
        count = MESSAGE_OVERHEAD + self.text(message.content)
        for call in message.tool_calls:
            count += CALL_OVERHEAD + self.text(call.id) + self.text(call.name) + self.text(call.arguments)
        if message.tool_call_id:
            count += self.text(message.tool_call_id)
        if message.extra:
            count += self.text(json.dumps(dict(message.extra), ensure_ascii=False, separators=(",", ":")))
        return count

    def schema(self, tool: Mapping[str, Any]) -> int:
        """Tokens of one tool schema in the compact form in which it is sent."""
        return self.lasting(json.dumps(tool, ensure_ascii=False, separators=(",", ":")))

    def floor(self, system_message: Message, tools: Sequence[Mapping[str, Any]]) -> Floor:
        """The floor of every request."""
        return Floor(
            system=REQUEST_OVERHEAD + MESSAGE_OVERHEAD + self.lasting(system_message.content),
            tools={tool["function"]["name"]: self.schema(tool) for tool in tools},
            instructions=self._instructions(system_message.content),
        )

    def by_tool(self, floor: Floor, written: Mapping[str, str]) -> Floor:
        """The same floor, for people: what the system message says about a tool counts as that tool's."""
        told = {name: self.text(f"{text}\n") for name, text in written.items()}
        return replace(floor, system=floor.system - sum(told.values()), tools={**floor.tools, **told})

    def _instructions(self, system_text: str) -> int:
        opening, closing = f"\n{INSTRUCTIONS_OPEN}\n", f"\n{INSTRUCTIONS_CLOSE}"
        _, found, rest = system_text.partition(opening)
        return self.lasting(opening + rest.partition(closing)[0] + closing) if found else 0

    def turn(self, assistant: Message, *replies: Message, masked: bool = False) -> Turn:
        """A turn with its tokens counted."""
        tokens = sum(map(self.message, (assistant, *replies)))
        return Turn(assistant=assistant, replies=replies, tokens=tokens, masked=masked)

    def history(self, system_text: str, task: str, *, task_tokens: int | None = None) -> History:
        """The history at the start of a run. The task is counted, unless its size is given."""
        tokens = self.message(user(task)) if task_tokens is None else task_tokens
        return History(system=system(system_text), task=task, task_tokens=tokens, opening_tokens=tokens)

    def with_context(self, history: History, context: str) -> History:
        """The history with another context block behind its task, and nothing else changed."""
        changed = replace(history, context=context)
        return replace(changed, opening_tokens=self.message(changed.opening))


# Admission measures a result before it becomes a message; the message is not worth a second encoding.
@functools.lru_cache(maxsize=64)
def _count(text: str) -> int:
    encode = _encoder()
    return sum(encode(text[start : start + _SLICE]) for start in range(0, len(text), _SLICE))


@functools.cache
def _encoder() -> Callable[[str], int]:
    if _use_shipped_vocabulary():
        import tiktoken  # noqa: TID251

        try:
            encoding = tiktoken.get_encoding(ENCODING)
        except (OSError, ValueError) as fault:
            import logging

            logging.getLogger(__name__).warning(
                "no vocabulary (%s): token counts are cautious estimates", fault
            )
        else:
            return lambda text: len(encoding.encode_ordinary(text))
    return cautious_count


def cautious_count(text: str) -> int:
    """An estimate without a vocabulary that errs upwards, for prose, code, JSON and CJK alike.

    3 letters or spaces a token, 2 digits, each mark of punctuation 0.7, each other character 1.5 tokens.
    """
    plain = text.encode("ascii", "ignore")
    digits = len(plain) - len(plain.translate(None, string.digits.encode()))
    marks = len(plain) - len(plain.translate(None, string.punctuation.encode()))
    letters = len(plain) - digits - marks
    return math.ceil(letters / 3 + digits / 2 + marks * 0.7 + (len(text) - len(plain)) * 1.5)


def _use_shipped_vocabulary() -> bool:
    """Point tiktoken at the vocabularies in litellm's wheel, without importing litellm. False where there are none."""
    from chimera.config import set_default_environment

    spec = importlib.util.find_spec("litellm")
    if spec is None or not spec.submodule_search_locations:
        return False
    folder = Path(spec.submodule_search_locations[0], "litellm_core_utils", "tokenizers")
    if not folder.is_dir():
        return False
    set_default_environment({"TIKTOKEN_CACHE_DIR": str(folder), "RUST_BACKTRACE": "0"})
    return True
