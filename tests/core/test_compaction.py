"""What compaction promises, on generated histories and at the edges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from chimera.config import CompactionMode
from chimera.core.compaction import Compaction, compact
from chimera.core.context_budget import ContextBudget, Room
from chimera.core.history import History
from chimera.core.ledger import CommandRun, FileChanged, FileRead, Ledger, Verification
from chimera.core.messages import ToolCall, assistant, tool_result
from chimera.core.model import Window
from chimera.core.plan import Plan, Task
from chimera.core.restoration import FRAME_CLOSE, FRAME_OPEN, EditedFile, Restored
from chimera.core.tokens import Calibration, Floor
from tests.core.histories import ARCHIVE, COUNTER, histories, restorations

windows = st.sampled_from([2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 1_000_000])
modes: st.SearchStrategy[CompactionMode] = st.sampled_from(["note", "mask"])


def budget_of(window: int, mode: CompactionMode = "note", factor: float = 1.0) -> ContextBudget:
    return ContextBudget(
        window=Window(tokens=window, source="argument"), mode=mode, calibration=Calibration(factor)
    )


def attempt(
    history: History, restored: Restored, budget: ContextBudget, floor_tokens: int = 300
) -> tuple[Compaction, Room]:
    floor = Floor(system=COUNTER.message(history.system), tools={"shell": floor_tokens})
    room = Room.of(budget, floor, history.task_tokens)
    return compact(history, restored, budget, room, COUNTER), room


def size(history: History, room: Room) -> int:
    return room.fixed - history.task_tokens + history.tokens


def strict_violations(history: History) -> list[str]:
    """What a strict provider would refuse, judged on the wire form and not on our types."""
    found: list[str] = []
    pending: list[str] = []
    previous = ""
    for message in (m.wire() for m in history.messages()):
        role = message["role"]
        if role == "tool":
            if not pending or message["tool_call_id"] != pending.pop(0):
                found.append("orphan or misplaced result")
        elif pending:
            found.append("unanswered call")
        if role == "user" == previous:
            found.append("two user messages in a row")
        if role == "assistant":
            pending = [call["id"] for call in message.get("tool_calls", [])]
            if not message["content"] and not pending:
                found.append("empty assistant message")
        previous = role
    return found + (["ends unanswered"] if pending or previous not in {"user", "tool"} else [])


@given(histories(), restorations(), windows, modes, st.sampled_from([0.5, 1.0, 1.3, 2.0]))
def test_a_compaction_is_legal_smaller_fitting_and_keeps_task_and_system(
    history: History, restored: Restored, window: int, mode: CompactionMode, factor: float
) -> None:
    budget = budget_of(window, mode, factor)
    result, room = attempt(history, restored, budget)
    assert not strict_violations(result.history)
    assert result.history.system == history.system
    assert result.history.task == history.task
    assert result.history.opening.content.startswith(history.task)
    assert result.before == size(history, room)
    if not result.changed:
        assert result.history is history
        assert result.failure in {"tail", "pinned"}
        return
    assert (
        result.after
        == size(result.history, room)
        == room.fixed - history.task_tokens + sum(map(COUNTER.message, result.history.messages()[1:]))
    )
    assert result.before - result.after >= room.min_gain
    assert result.after < room.trigger
    assert budget.calibration.size(result.after) < budget.trigger
    assert result.tight == (result.after > room.target)


@given(histories(), restorations(), windows, modes)
def test_newest_turns_stay_verbatim_and_only_older_ones_go(
    history: History, restored: Restored, window: int, mode: CompactionMode
) -> None:
    result, _ = attempt(history, restored, budget_of(window, mode))
    if not result.changed:
        return
    kept = result.history.turns
    assert 1 <= result.kept_turns <= 6
    assert kept[-result.kept_turns :] == history.turns[-result.kept_turns :]
    assert [t.assistant for t in kept] == [t.assistant for t in history.turns[-len(kept) :]]
    assert result.kept_turns + result.masked_turns + result.removed_turns == len(history.turns)


@given(histories(), restorations(), windows, modes)
def test_prompt_and_archive_together_hold_every_text_of_the_history(
    history: History, restored: Restored, window: int, mode: CompactionMode
) -> None:
    result, _ = attempt(history, restored, budget_of(window, mode))
    prompt = "\n".join(
        m.content + "".join(c.arguments for c in m.tool_calls) for m in result.history.messages()
    )
    for turn in history.turns:
        for message in turn.messages():
            for text in (message.content, *(call.arguments for call in message.tool_calls)):
                assert text in prompt or text in result.archive


@given(histories(), restorations(), windows, modes)
def test_compaction_is_deterministic_and_idempotent(
    history: History, restored: Restored, window: int, mode: CompactionMode
) -> None:
    budget = budget_of(window, mode)
    first, _ = attempt(history, restored, budget)
    assert attempt(history, restored, budget)[0] == first
    if first.changed:
        second, _ = attempt(first.history, restored, budget)
        assert not second.changed
        assert second.history is first.history


@given(histories(), restorations(), windows)
def test_no_text_from_inside_can_close_or_open_the_frame(
    history: History, restored: Restored, window: int
) -> None:
    result, _ = attempt(history, restored, budget_of(window))
    if result.changed:
        lines = result.history.context.splitlines()
        assert lines[0] == FRAME_OPEN
        assert lines[-1] == FRAME_CLOSE
        assert not {FRAME_OPEN, FRAME_CLOSE} & set(lines[1:-1])


def long_history(count: int, result_tokens: int = 500) -> History:
    history = COUNTER.history("system", "the task")
    for n in range(count):
        call = ToolCall(id=f"c{n}", name="shell", arguments='{"command":"true"}')
        text = f"result {n} " + "word " * result_tokens
        history = history.with_turn(
            COUNTER.turn(assistant("", call), tool_result(call.id, text, digest=f"ran {n}"))
        )
    return history


def restored(
    ledger: Ledger | None = None, plan: Plan | None = None, file: EditedFile | None = None
) -> Restored:
    return Restored(plan=plan or Plan(), ledger=ledger or Ledger(), file=file, archive=ARCHIVE)


def test_plan_file_and_facts_are_put_back() -> None:
    ledger = Ledger()
    ledger.add(FileRead(path="calc.py", first=1, last=40, total=40))
    ledger.add(FileChanged(path="calc.py", added=3, removed=1, line=2))
    ledger.add(CommandRun(command="pytest -q", exit_code=1, error="assert 3 == 4"))
    ledger.verification = Verification(command="make check", passed=False, error="2 failed")
    plan = Plan(
        text="go slow", tasks=(Task("survey", "done"), Task("repair", "doing"), Task("report", "todo"))
    )
    file = EditedFile(path="calc.py", text="def add(a, b):\n    return b + a\n", line=2, sha256="12ab" * 16)
    result, _ = attempt(long_history(12), restored(ledger, plan, file), budget_of(16_000))
    context = result.history.context
    for expected in (
        "[done] survey", "[doing now] repair", "[next] report", "go slow",
        "make check", "2 failed", "2\t    return b + a", "calc.py: +3 -1",
        "`pytest -q` exit 1: assert 3 == 4", "calc.py lines 1-40", ARCHIVE,
    ):  # fmt: skip
        assert expected in context, expected


def test_the_note_lists_only_file_text_that_is_not_shown_any_more() -> None:
    ledger = Ledger()
    history = COUNTER.history("system", "the task")
    for n in range(12):
        read = FileRead(path=f"f{n}.py", first=1, last=9, total=9)
        ledger.add(read)
        call = ToolCall(id=f"c{n}", name="read_file", arguments="{}")
        text = tool_result(call.id, "word " * 300, digest=f"read f{n}.py", shows=(read,))
        history = history.with_turn(COUNTER.turn(assistant("", call), text))
    result, _ = attempt(history, restored(ledger), budget_of(8_000))
    kept = 12 - result.kept_turns
    assert f"f{kept - 1}.py lines 1-9 (not shown any more)" in result.history.context
    assert f"f{kept}.py lines" not in result.history.context


def test_the_file_region_is_around_the_last_edit_and_within_its_cap() -> None:
    text = "".join(f"value_{n} = {n}\n" for n in range(1, 5_001))
    file = EditedFile(path="big.py", text=text, line=2_500, sha256="0" * 64)
    result, room = attempt(long_history(12), restored(file=file), budget_of(16_000))
    assert "2500\tvalue_2500" in result.history.context
    assert "\n1\tvalue_1 " not in result.history.context
    assert result.parts["file"] <= room.share(0.08)


def test_when_the_newest_turn_alone_is_too_large_nothing_changes() -> None:
    history = long_history(3).with_turn(long_history(1, 4_000).turns[0])
    result, _ = attempt(history, restored(), budget_of(4_000))
    assert (result.changed, result.failure) == (False, "tail")
    assert result.history is history


def test_mask_mode_keeps_more_turns_than_note_mode() -> None:
    history = long_history(20, 200)
    note, _ = attempt(history, restored(), budget_of(8_000, "note"))
    masked, _ = attempt(history, restored(), budget_of(8_000, "mask"))
    assert note.changed
    assert masked.changed
    assert len(masked.history.turns) > len(note.history.turns)
    line = masked.history.turns[0].replies[0].content
    assert line.startswith("[ran ")
    assert ARCHIVE in line


def test_a_turn_that_does_not_answer_its_calls_cannot_be_built() -> None:
    call = ToolCall(id="c1", name="shell", arguments="{}")
    with pytest.raises(ValueError, match="answer each call once"):
        COUNTER.turn(assistant("", call), tool_result("c2", "x"))


def test_the_task_list_counts_what_it_cannot_show() -> None:
    tasks = tuple(
        Task(f"task number {n} of the long list", "done" if n < 300 else "todo") for n in range(400)
    )
    plan = Plan(tasks=(*tasks, Task("the one in work", "doing")))
    result, room = attempt(long_history(14, 300), restored(plan=plan), budget_of(8_000))
    assert "[doing now] the one in work" in result.history.context
    assert "more: " in result.history.context
    assert result.parts["plan"] <= room.share(0.10)


def test_a_history_of_several_compactions_keeps_its_ledger_complete() -> None:
    ledger = Ledger()
    history = COUNTER.history("system", "the task")
    budget = budget_of(8_000)
    for n in range(60):
        ledger.add(CommandRun(command=f"step {n}", exit_code=0))
        history = history.with_turn(replace(long_history(1, 300).turns[0]))
        result, room = attempt(history, restored(ledger), budget)
        if size(history, room) >= room.trigger:
            assert result.changed
            history = result.history
    assert len(ledger.commands) == 60
    noted = [int(part.partition("`")[0]) for part in history.context.split("`step ")[1:]]
    assert noted == sorted(noted, reverse=True)
    assert noted[0] >= 50
    assert "Not shown: " in history.context
