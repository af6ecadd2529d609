"""`update_plan`: replaces the plan of the run."""

from __future__ import annotations

from typing import Annotated, TypedDict

from chimera.core.plan import Plan, Task, TaskStatus
from chimera.errors import ToolError
from chimera.tools.base import Tool, ToolOutput
from chimera.tools.schema import schema_of
from chimera.workspace.terminal_text import visible

_LABELS = {"done": "done", "doing": "doing", "todo": "to do", "dropped": "dropped"}


class TaskEntry(TypedDict):
    """One task as the model gives it."""

    title: Annotated[str, {"minLength": 1}]
    status: TaskStatus


def update_plan_tool(plan: Plan) -> Tool:
    """The tool; `plan` is the plan the run begins with."""
    current = plan

    def update_plan(
        tasks: list[TaskEntry], plan: Annotated[str | None, "Approach, kept if omitted."] = None
    ) -> ToolOutput:
        nonlocal current
        entries = tuple(Task(visible(" ".join(task["title"].split())), task["status"]) for task in tasks)
        if any(not entry.title for entry in entries):
            raise ToolError("A task has a blank title, so the plan stays as it was. Give every task a title.")
        doing = [entry.title for entry in entries if entry.status == "doing"]
        if len(doing) > 1:
            raise ToolError(
                f"{len(doing)} tasks are `doing` ({', '.join(map(repr, doing[:3]))}), so the plan stays as it was. Only "
                "one can be in progress: mark the others todo."
            )
        current = Plan(text=current.text if plan is None else visible(plan.strip()), tasks=entries)
        counts = [
            (len(current.with_status(status)), _LABELS[status])
            for status in ("done", "doing", "todo", "dropped")
        ]
        summary = ", ".join(f"{count} {label}" for count, label in counts if count) or "no tasks"
        return ToolOutput(
            text=f"Plan updated: {summary}.", digest=f"updated the plan: {summary}", plan=current
        )

    return Tool(
        name="update_plan",
        description="Replace the task list of a longer piece of work; it survives when old messages are removed. At most one task is doing.",
        parameters=schema_of(update_plan),
        effect="plan",
        run=update_plan,
    )
