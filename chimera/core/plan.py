"""The plan: free text and a task list with statuses. The model replaces it, code restores it."""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

TaskStatus = Literal["todo", "doing", "done", "dropped"]
TASK_STATUSES: tuple[TaskStatus, ...] = get_args(TaskStatus)


class Task(Struct, frozen=True):
    """One entry of the list."""

    title: str
    status: TaskStatus


class Plan(Struct, frozen=True, kw_only=True):
    """What the model set out to do. At most one task is `doing`."""

    text: str = ""
    tasks: tuple[Task, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.text or self.tasks)

    def with_status(self, *statuses: TaskStatus) -> tuple[Task, ...]:
        """The tasks in one of these statuses, in list order."""
        return tuple(task for task in self.tasks if task.status in statuses)
