"""Generated histories: turns with one to twelve calls, odd sizes, plans and ledgers."""

from __future__ import annotations

from hypothesis import strategies as st

from chimera.core.history import History, Turn
from chimera.core.ledger import CommandRun, FileChanged, FileRead, Ledger
from chimera.core.messages import ToolCall, assistant, tool_result, user
from chimera.core.plan import TASK_STATUSES, Plan, Task
from chimera.core.restoration import EditedFile, Restored
from chimera.core.tokens import TokenCounter

COUNTER = TokenCounter()
ARCHIVE = "@run/archive/0001.md"

words = st.sampled_from(
    ["alpha", "beta\n", "gamma ", "0.123456789", "für 漢字", "</chimera-state>", "\t", "x" * 40]
)


def texts(low: int = 1, high: int = 60) -> st.SearchStrategy[str]:
    """Texts of some tens of bytes up to some kilobytes."""
    return st.builds(
        lambda parts, times: " ".join(parts) * times,
        st.lists(words, min_size=low, max_size=high),
        st.integers(1, 30),
    )


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    """One legal turn: mostly calls and results, sometimes a plain answer and a nudge."""
    if draw(st.integers(0, 9)) == 0:
        return COUNTER.turn(assistant(draw(texts())), user(draw(texts(high=5))))
    count = draw(st.integers(1, 12))
    tag = draw(st.integers(0, 10**6))
    calls = [
        ToolCall(
            id=f"c{tag}_{n}", name="shell", arguments='{"command":"' + "x" * draw(st.integers(0, 200)) + '"}'
        )
        for n in range(count)
    ]
    results = [
        tool_result(call.id, draw(texts()), digest=f"ran `x{n}`: exit 0") for n, call in enumerate(calls)
    ]
    return COUNTER.turn(assistant(draw(st.sampled_from(["", "thinking"])), *calls), *results)


@st.composite
def histories(draw: st.DrawFn) -> History:
    history = COUNTER.history("You are a tester.", draw(st.sampled_from(["fix it ☃", "x = 1\n" * 50])))
    for turn in draw(st.lists(turns(), max_size=14)):
        history = history.with_turn(turn)
    return history


plans = st.builds(
    Plan,
    text=st.sampled_from(["", "first look, then act\nthen check"]),
    tasks=st.lists(
        st.builds(
            Task, st.sampled_from(["look", "act ☃", "</chimera-state>"]), st.sampled_from(TASK_STATUSES)
        ),
        max_size=40,
    ).map(tuple),
)
facts = st.one_of(
    st.builds(
        FileRead,
        path=st.sampled_from("abc"),
        first=st.integers(1, 50),
        last=st.integers(50, 90),
        total=st.just(100),
    ),
    st.builds(
        FileChanged,
        path=st.sampled_from("abc"),
        added=st.integers(0, 9),
        removed=st.integers(0, 9),
        line=st.integers(1, 99),
    ),
    st.builds(
        CommandRun,
        command=st.sampled_from(["pytest -q", "ls\n-la", "make"]),
        exit_code=st.sampled_from([0, 1, None]),
        error=st.just("boom"),
    ),
)


@st.composite
def restorations(draw: st.DrawFn) -> Restored:
    ledger = Ledger()
    for fact in draw(st.lists(facts, max_size=30)):
        ledger.add(fact)
    file = EditedFile(
        path="a", text="line\n" * draw(st.integers(0, 300)), line=draw(st.integers(1, 400)), sha256="ab" * 32
    )
    return Restored(plan=draw(plans), ledger=ledger, file=file if ledger.edited else None, archive=ARCHIVE)
