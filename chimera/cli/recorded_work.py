"""What a recorded run changed, from its snapshots: two trees to compare, and what has to be said about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from chimera.cli.recorded import RecordedRun
from chimera.errors import RecordError

if TYPE_CHECKING:
    from chimera.attribution import Mark
    from chimera.run_work import RunWork
    from chimera.workspace.checkpoint import ShadowRepository

_MOST = 20


class RecordedWork(Struct, frozen=True, kw_only=True):
    """The work of a run with the snapshots that it lies in."""

    shadow: ShadowRepository
    work: RunWork
    notices: tuple[str, ...]
    """What the patch does not say itself."""

    @classmethod
    def of(cls, home: Path, run: RecordedRun) -> RecordedWork:
        """The work of a run.

        Raises:
            RecordError: the record has no snapshots, or they are damaged.
            WorkspaceError: the snapshots are not there any more, or git fails.
        """
        from chimera.attribution import read_marks
        from chimera.run_work import work_of_run
        from chimera.workspace.checkpoint import ShadowRepository

        try:
            marks = read_marks(run.events)
            if "workspace" not in run.started:
                raise RecordError("the record does not name the workspace of the run")
        except RecordError as fault:
            raise run.fault(str(fault)) from fault
        shadow = ShadowRepository(home, Path(run.started["workspace"]))
        notices: list[str] = []
        if not marks:
            marks = [_mark(shadow, run, known=(), by="start", step=0, part=0)]
        elif now := _now(shadow, run, marks):
            marks.append(now)
            how = "goes on" if run.running else "died"
            notices.append(f"run {run.path.name} {how}; compared with the workspace as it is now")
        work = work_of_run(shadow, run.path.name, marks)
        return cls(shadow=shadow, work=work, notices=(*notices, *_notices(work)))


def _now(shadow: ShadowRepository, run: RecordedRun, marks: list[Mark]) -> Mark | None:
    """A snapshot of the workspace as it is, where calls of the run were not followed by one."""
    from chimera.attribution import ends_in_a_call

    if not ends_in_a_call(run.events):
        return None
    known = shadow.trees().entries(marks[-1].tree)
    by = "run" if run.running else "unknown"
    return _mark(shadow, run, known=known, by=by, step=marks[-1].step, part=marks[-1].part)


def _mark(
    shadow: ShadowRepository, run: RecordedRun, *, known: Iterable[bytes], by: str, step: int, part: int
) -> Mark:
    from chimera.attribution import mark_of

    now = shadow.snapshot(run_id=run.path.name, also=known)
    return mark_of({"tree": now.tree, "annex": now.annex, "ignored": None, "step": step, "by": by}, part)


def _notices(work: RunWork) -> Iterator[str]:
    maybe = "changed where the run was interrupted, by its last call or by you"
    mixed = "you changed it between two changes of the run; your lines and the run's cannot be told apart"
    told = [
        *((path, maybe) for path in work.maybe),
        *((path, mixed) for path in work.mixed),
        *((path, f"{text}, so no patch shows it") for path, text in work.unshown.items()),
    ]
    for path, text in told[:_MOST]:
        yield f"{path}: {text}"
    if len(told) > _MOST:
        yield f"and {len(told) - _MOST:,} more of which the patch does not tell everything"
