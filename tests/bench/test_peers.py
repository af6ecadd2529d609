"""The compactors of other agents: arms where they are installed, a line that says so where they are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chimera.bench.arms import arms
from chimera.bench.context_track import PEER_ARMS, Selection
from chimera.bench.observed import legal
from chimera.bench.peers import PEERS, add_folder, installed
from chimera.core.context_budget import Room
from chimera.core.history import History
from chimera.core.ledger import FileChanged, Ledger
from chimera.core.messages import ToolCall, assistant, tool_result
from chimera.core.plan import Plan
from chimera.core.restoration import Restored
from chimera.core.tokens import TokenCounter
from chimera.errors import ConfigError

COUNTER = TokenCounter()
ROOM = Room(trigger=2_000, fixed=200)


def history(turns: int) -> History:
    made = COUNTER.history("system", "task")
    for number in range(turns):
        call = ToolCall(id=f"c{number}", name="shell", arguments=json.dumps({"command": f"run {number}"}))
        result = tool_result(call.id, f"exit 0\nsecret word: w{number}\n" + f"line {number} of it\n" * 24)
        made = made.with_turn(COUNTER.turn(assistant("", call), result))
    return made


def test_only_peers_that_are_here_are_played() -> None:
    here = {f"peer-{name}" for name in installed()}
    cells = Selection(tasks=["ledger-walk"], arms=PEER_ARMS, windows=[8_000]).cells()
    assert {cell.arm for cell in cells} == here
    assert {name for name in arms({}) if name.startswith("peer-")} == here


@pytest.mark.parametrize("peer", PEERS)
def test_a_peer_that_is_here_shrinks_a_history_and_parts_no_call_from_its_result(peer: str) -> None:
    if peer not in installed():
        pytest.skip(f"{peer} is not installed")
    arm = arms({f"secret {n}": f"w{n}" for n in range(40)})[f"peer-{peer}"]
    ledger = Ledger()
    ledger.add(FileChanged(path="a.txt", added=1, removed=0, line=1))
    restored = Restored(plan=Plan(), ledger=ledger, file=None, archive="@run/archive/0001.md")
    before = history(20)
    result = arm.compactor(before, restored, arm.budget(8_000), ROOM, COUNTER)
    assert result.changed
    assert result.after < ROOM.trigger
    assert legal(result.history.messages())
    assert result.history.opening.content.startswith("task\n\nSummary of earlier turns:\n")
    assert result.history.turns == before.turns[-len(result.history.turns) :]


def test_a_folder_for_peers_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no folder"):
        add_folder(tmp_path / "missing")
