"""The context track: the same numbers twice, every request looked at, and arms that do what they are called."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from chimera.bench.arms import arms
from chimera.bench.context_bars import bars as context_bars
from chimera.bench.context_run import INFINITE, Cell, Outcome, RememberingCounter, play
from chimera.bench.context_table import Report
from chimera.bench.context_track import ANY_ARM, POLICIES, Selection, sweep
from chimera.bench.generators.catalogue import GENERATORS
from chimera.bench.observed import legal
from chimera.bench.peers import PEERS, installed
from chimera.bench.policies.mind import MINDS
from chimera.bench.policies.policy import PolicyModel, respond
from chimera.bench.summarisers import SUMMARISERS
from chimera.core.compaction import Compaction
from chimera.core.context_budget import Room
from chimera.core.history import History
from chimera.core.ledger import Ledger
from chimera.core.messages import ToolCall, assistant, system, tool_result, user
from chimera.core.model import Request
from chimera.core.plan import Plan
from chimera.core.restoration import Restored
from chimera.core.tokens import TokenCounter
from chimera.errors import ConfigError

COUNTER = TokenCounter()
RESTORED = Restored(plan=Plan(), ledger=Ledger(), file=None, archive="@run/archive/0001.md")
ROOM = Room(trigger=2_000, fixed=200)


def history(turns: int, words: int = 120) -> History:
    made = COUNTER.history("system", "task")
    for number in range(turns):
        call = ToolCall(id=f"c{number}", name="shell", arguments=json.dumps({"command": f"run {number}"}))
        result = tool_result(
            call.id, f"exit 0\nsecret word: w{number}\n" + f"line {number} of it\n" * (words // 5)
        )
        made = made.with_turn(COUNTER.turn(assistant("", call), result))
    return made


def shrunk(arm: str, before: History) -> Compaction:
    chosen = arms({f"secret {n}": f"w{n}" for n in range(40)})[arm]
    return chosen.compactor(before, RESTORED, chosen.budget(8_000), ROOM, COUNTER)


def test_the_null_arm_changes_nothing_and_may_fill_the_window() -> None:
    before = history(20)
    result = shrunk("none", before)
    assert (result.changed, result.history) == (False, before)
    assert arms({})["none"].budget(8_000).trigger == 8_000
    assert arms({})["truncate"].budget(8_000).trigger == 3_840


def test_truncating_drops_the_oldest_turns_and_nothing_else() -> None:
    before = history(20)
    result = shrunk("truncate", before)
    assert result.changed
    assert result.history.turns == before.turns[-result.kept_turns :]
    assert result.after <= ROOM.target < result.before
    assert result.history.context == ""


def test_masking_keeps_every_call_and_the_newest_results() -> None:
    before = history(14)
    result = shrunk("mask-10", before)
    assert result.changed
    assert [turn.assistant for turn in result.history.turns] == [turn.assistant for turn in before.turns]
    shown = [turn.masked for turn in result.history.turns]
    assert shown == sorted(shown, reverse=True)
    assert result.history.turns[-1] == before.turns[-1]
    assert "secret word: w0" not in result.history.turns[0].replies[0].content
    assert result.after < ROOM.trigger


@pytest.mark.parametrize("arm", ["truncate", "mask-10", "summary-perfect", "ours-note", "ours-mask"])
def test_no_arm_makes_a_history_that_does_not_fit_or_is_not_legal(arm: str) -> None:
    result = shrunk(arm, history(18))
    assert result.changed
    assert result.after < ROOM.trigger
    assert legal(result.history.messages())
    assert result.history.task == "task"


def test_a_summary_stands_behind_the_task_and_holds_what_its_summariser_keeps() -> None:
    before = history(18)
    facts = {"secret word": "w0"}
    perfect = arms(facts)["summary-perfect"]
    result = perfect.compactor(before, RESTORED, perfect.budget(8_000), ROOM, COUNTER)
    assert result.history.opening.content.startswith("task\n\nSummary of earlier turns:\nsecret word: w0")


def test_each_summariser_does_what_it_is_called() -> None:
    facts = {f"label {n}": f"/srv/path-{n}0123/long-tail" for n in range(40)}
    text = "\n".join(f"{label}: {value}" for label, value in facts.items()) + "\ncalled write_file out/01.txt"
    made = {name: make(facts, ())(text, 4_000, COUNTER) for name, make in SUMMARISERS.items()}
    assert all(f"{label}: {value}" in made["perfect"] for label, value in facts.items())
    assert "- changed out/01.txt" in made["perfect"]
    kept = sum(f"{label}: {value}" in made["lossy"] for label, value in facts.items())
    assert 24 <= kept <= 38
    assert not any(value in made["paraphrasing"] for value in facts.values())
    assert len(made["verbose"]) > len(text)
    assert made["empty"] == ""
    assert "label 0: as agreed" in made["inventing"]
    assert "Answer now" in made["poisoned"]
    assert COUNTER.text(SUMMARISERS["perfect"](facts, ())(text, 100, COUNTER)) <= 100


def test_a_policy_is_a_pure_function_of_the_prompt() -> None:
    instance = GENERATORS["exact-strings"](3)
    messages = (system("s"), user(instance.instruction))
    for mind in MINDS.values():
        assert respond(mind, messages, ()) == respond(mind, messages, ())


def test_a_policy_that_sees_no_task_does_nothing() -> None:
    reply = respond(MINDS["rereader"], (system("s"), user("Summary of earlier turns:\nall is well")), ())
    assert (reply.content, reply.tool_calls) == ("I do not know what I am to do.", ())


def test_a_reply_longer_than_the_request_allows_is_cut() -> None:
    instance = GENERATORS["exact-strings"](3)
    request = Request(messages=(system("s"), user(instance.instruction)), max_tokens=3)
    model = PolicyModel(policy="batcher", counter=COUNTER)
    assert model.complete(request, lambda text: None).finish_reason == "length"


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="no policy 'wise'"):
        PolicyModel(policy="wise", counter=COUNTER)
    with pytest.raises(ConfigError, match="tasks: 'relay' is unknown"):
        Selection(tasks=["relay"])


def test_what_is_not_answered_right_behind_is_an_orphan() -> None:
    call = ToolCall(id="a", name="shell", arguments="{}")
    assert legal((user("t"), assistant("", call), tool_result("a", "x"), assistant("done")))
    assert not legal((user("t"), assistant("", call)))
    assert not legal((user("t"), tool_result("a", "x")))
    assert not legal((user("t"), assistant("", call), tool_result("b", "x")))


def test_remembered_counts_are_the_same_counts() -> None:
    texts = ["", "a", "one two three", "日本語", "x" * 30_000]
    assert [RememberingCounter().text(text) for text in texts] == [COUNTER.text(text) for text in texts]


def test_every_task_and_policy_is_played_without_an_end_of_the_window() -> None:
    cells = Selection(seeds=(1,), windows=(INFINITE,)).cells()
    assert {(cell.task, cell.policy) for cell in cells} == {
        (task, mind) for task in POLICIES for mind in MINDS
    }
    assert {cell.arm for cell in cells} == {ANY_ARM}
    assert set(POLICIES) <= set(GENERATORS)


SMOKE = [
    Cell("resume-overfull", "rereader", arm, 8_000, 1) for arm in ("none", "truncate", "mask-10", "ours-note")
] + [
    Cell("exact-strings", "rereader", "ours-note", 8_000, 2),
    Cell("exact-strings", "rereader", "truncate", 8_000, 2),
    Cell("exact-strings", "rereader", ANY_ARM, INFINITE, 2),
    Cell("floor-squeeze", "rereader", "ours-note", 6_000, 1),
]


@pytest.fixture(scope="module")
def outcomes() -> dict[Cell, Outcome]:
    return {outcome.cell: outcome for outcome in sweep(SMOKE, workers=1)}


@pytest.mark.xdist_group("context-track")
def test_ours_solves_what_the_plain_ways_cannot(outcomes: dict[Cell, Outcome]) -> None:
    solved = {cell: outcome.solved for cell, outcome in outcomes.items()}
    assert solved == {cell: cell.arm in {"ours-note", ANY_ARM} for cell in SMOKE}


@pytest.mark.xdist_group("context-track")
def test_every_request_is_whole_and_fits(outcomes: dict[Cell, Outcome]) -> None:
    for outcome in outcomes.values():
        faults = (outcome.orphans, outcome.over_window, outcome.task_missing, outcome.rules_missing)
        assert faults == (0, 0, 0, 0), outcome.cell
        assert outcome.peak <= outcome.cell.window


@pytest.mark.xdist_group("context-track")
def test_a_floor_that_leaves_no_room_ends_the_run_before_its_first_request(
    outcomes: dict[Cell, Outcome],
) -> None:
    outcome = outcomes[SMOKE[-1]]
    assert (outcome.stop_reason, outcome.stop_detail) == ("cannot_shrink", "floor")
    assert (outcome.steps, outcome.sent) == (0, 0)


@pytest.mark.xdist_group("context-track")
def test_the_same_run_gives_the_same_numbers(outcomes: dict[Cell, Outcome]) -> None:
    assert play(SMOKE[3]) == outcomes[SMOKE[3]]


@pytest.mark.xdist_group("context-track")
def test_the_report_judges_what_it_has(outcomes: dict[Cell, Outcome]) -> None:
    report = Report(list(outcomes.values()))
    bars = {bar.name: bar for bar in context_bars(report)}
    assert bars["exact-strings forces its compactions"].passed
    assert bars["ours-note sends at most half of the tokens that no compaction sends"].passed
    assert "| ours-note | 1/1 |" in report.table()
    broken = Report([replace(outcome, orphans=1) for outcome in outcomes.values()])
    kept = next(bar for bar in context_bars(broken) if bar.name.startswith("ours keeps task"))
    assert not kept.passed
    assert "orphans 3" in kept.figures


def outcome_of(cell: Cell, *, solved: bool) -> Outcome:
    counts = dict.fromkeys(
        ("steps", "sent", "summariser", "cacheable", "peak", "compactions", "rewrites", "orphans"), 0
    )
    faults = dict.fromkeys(("over_window", "task_missing", "rules_missing"), 0)
    return Outcome(
        cell=cell,
        suite="long",
        solved=solved,
        stop_reason="answered",
        stop_detail=None,
        false_done=not solved,
        **counts,
        **faults,
    )


@pytest.mark.parametrize(("lost", "holds"), [(5, True), (6, False)])
def test_losing_to_another_arm_is_told_once_it_is_more_than_chance(lost: int, holds: bool) -> None:
    found = [
        outcome_of(Cell("wrap-once", "recall", arm, 8_000, seed), solved=arm == "mask-10" or seed >= lost)
        for seed in range(12)
        for arm in ("mask-10", "ours-note")
    ]
    bar = next(bar for bar in context_bars(Report(found)) if bar.name.startswith("ours-note loses"))
    assert bar.passed == holds
    assert holds or f"mask-10 in 8,000 tokens on long: {lost} to 0" in bar.figures


def test_peers_that_are_not_here_are_listed_as_such() -> None:
    missing = [name for name in PEERS if name not in installed()]
    if not missing:
        pytest.skip("all of them are here")
    report = Report([outcome_of(Cell("wrap-once", "recall", "ours-note", 8_000, 1), solved=True)])
    assert f"| peer-{missing[0]} | not installed |" in report.table()
