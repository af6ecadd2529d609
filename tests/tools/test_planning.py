"""`update_plan`."""

from __future__ import annotations

from chimera.core.plan import Plan, Task
from chimera.tools.base import ToolSet
from chimera.tools.planning import update_plan_tool
from tests.tools.caller import Caller


def test_the_plan_is_replaced_and_counted(caller: Caller) -> None:
    tasks = [{"title": " survey\nthe  lake ", "status": "done"}, {"title": "count", "status": "doing"}]
    output = caller.call("update_plan", tasks=tasks, plan="First look.\n")
    assert output.plan == Plan(
        text="First look.", tasks=(Task("survey the lake", "done"), Task("count", "doing"))
    )
    assert output.text == "Plan updated: 1 done, 1 doing."
    assert output.digest == "updated the plan: 1 done, 1 doing"


def test_the_text_stays_when_only_the_tasks_are_given(caller: Caller) -> None:
    caller.call("update_plan", tasks=[], plan="Look.")
    kept = caller.call("update_plan", tasks=[{"title": "a", "status": "todo"}]).plan
    assert kept == Plan(text="Look.", tasks=(Task("a", "todo"),))
    cleared = caller.call("update_plan", tasks=[], plan="").plan
    assert cleared is not None
    assert not cleared


def test_the_plan_of_a_resumed_run_is_the_first_one() -> None:
    tools = ToolSet([update_plan_tool(Plan(text="Look."))])
    assert tools.run("update_plan", '{"tasks": []}').plan == Plan(text="Look.")


def test_a_malformed_update_gives_no_plan_and_says_why(caller: Caller) -> None:
    doing = {"status": "doing"}
    for tasks, reason in (
        ([{"title": "a", **doing}, {"title": "b", **doing}], "2 tasks are `doing` ('a', 'b')"),
        (
            [{"title": "a", "status": "started"}],
            "tasks[0].status is 'started'; it must be one of: todo, doing",
        ),
        ([{"title": " ", **doing}], "blank title"),
        ([{"title": "", **doing}], "tasks[0].title must not be empty"),
        ([{"status": "todo"}], "tasks[0].title is required"),
        ("do it", "tasks must be an array"),
    ):
        output = caller.call("update_plan", tasks=tasks)
        assert not output.ok
        assert output.plan is None
        assert reason in output.text
