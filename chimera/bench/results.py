"""The files of a job: `job.json` says what was to be run, `results.jsonl` what came of it, a line a trial."""

from __future__ import annotations

import fcntl
import json
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from chimera import __version__
from chimera.bench.row import SCHEMA, Row
from chimera.bench.task import BenchTask
from chimera.config import process_environment
from chimera.errors import ConfigError, RecordError, WorkspaceError
from chimera.workspace.git_program import find_git

JOB, RESULTS, SUMMARY, TRIALS = "job.json", "results.jsonl", "summary.json", "trials"


class JobRecord(Struct, frozen=True, kw_only=True):
    """What a job was begun with. A job is only ever gone on with under the same settings, tasks and version."""

    job: str
    """Name of its folder."""
    settings: Mapping[str, Any]
    """All that can change a result, as JSON values."""
    tasks: Mapping[str, str]
    """Name of each task, with its digest."""
    planned: tuple[str, ...]
    """Names of the trials, in the order of reports."""
    versions: Mapping[str, str]
    git: Mapping[str, Any]
    """Commit of the tasks, and whether they differ from it; empty where they lie in no checkout."""
    host: Mapping[str, Any]

    def fields(self) -> dict[str, Any]:
        """The record as JSON values."""
        return {"schema": SCHEMA, **{name: getattr(self, name) for name in self.__struct_fields__}}

    def differences(self, other: JobRecord) -> list[str]:
        """What stands in the way of going on with the other one, for people."""
        pairs = [
            *_pairs("", self.settings, other.settings),
            *_pairs("task ", self.tasks, other.tasks),
            *_pairs("version of ", self.versions, other.versions),
        ]
        return [f"{name}: {now!r} now, {then!r} then" for name, now, then in pairs if now != then]


def _pairs(kind: str, now: Mapping[str, Any], then: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name in dict.fromkeys([*now, *then]):
        yield kind + name, now.get(name), then.get(name)


def new_record(
    output: Path, settings: Mapping[str, Any], tasks: Iterable[BenchTask], planned: Iterable[str]
) -> JobRecord:
    """The record of a job that begins now."""
    tasks = tuple(tasks)
    return JobRecord(
        job=output.name,
        settings=json.loads(json.dumps(settings, default=str)),
        tasks={task.name: task.digest for task in tasks},
        planned=tuple(planned),
        versions={"chimera": __version__},
        git=_git(tasks[0].folder) if tasks else {},
        host={
            "system": platform.system(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
        },
    )


def _git(folder: Path) -> dict[str, Any]:
    try:
        git = find_git(process_environment(), outside=folder)
        return {
            "commit": git.run(["rev-parse", "HEAD"], cwd=folder).decode().strip(),
            "dirty": bool(git.run(["status", "--porcelain", "--", "."], cwd=folder).strip()),
        }
    except WorkspaceError:
        return {}


def read_record(output: Path) -> JobRecord:
    """The record of a job.

    Raises:
        ConfigError: there is none, or it cannot be read.
    """
    path = output / JOB
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        del values["schema"]
        return _checked(JobRecord(**{**values, "planned": tuple(values["planned"])}))
    except FileNotFoundError as fault:
        raise ConfigError(
            f"{str(output)!r} holds no benchmark: {JOB} is missing; chimera bench TASKS --output DIR makes one"
        ) from fault
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as fault:
        raise ConfigError(f"{path}: cannot be read: {fault}") from fault


def _checked(record: JobRecord) -> JobRecord:
    """The record, if it holds what reports look for.

    Raises:
        TypeError, KeyError: it does not.
    """
    for name in ("settings", "tasks", "versions", "git", "host"):
        if not isinstance(getattr(record, name), dict):
            raise TypeError(f"{name} is no object")
    arms, attempts = record.settings["arms"], record.settings["attempts"]
    if not isinstance(arms, dict) or not all(isinstance(arm, dict) for arm in arms.values()):
        raise TypeError("settings.arms is no object of objects")
    if not isinstance(attempts, int) or not all(isinstance(name, str) for name in record.planned):
        raise TypeError("settings.attempts or planned is not what it must be")
    return record


def read_rows(output: Path) -> tuple[Row, ...]:
    """The newest row of each trial, in the order in which the trials were first finished.

    A last line that was not written to its end is passed over.

    Raises:
        ConfigError: there are none, or a line is damaged.
    """
    path = output / RESULTS
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as fault:
        raise ConfigError(f"{str(output)!r} holds no results: {path.name}: {fault.strerror}") from fault
    rows: dict[str, Row] = {}
    for number, line in enumerate(lines[:-1], 1):
        try:
            row = Row.of_fields(dict(json.loads(line)))
        except (ValueError, TypeError, KeyError, RecursionError) as fault:
            raise ConfigError(f"{path}: line {number} is damaged: {fault}") from fault
        rows[row.trial] = row
    return tuple(rows.values())


class Results:
    """A results file that one process may write. Each row is one write, on disk when `append` returns."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def append(self, row: Row) -> None:
        """Add a row; it replaces an earlier one of the same trial.

        Raises:
            RecordError: it could not be written.
        """
        line = json.dumps(row.fields(), separators=(",", ":")).encode() + b"\n"
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
            os.fsync(self._descriptor)
        except OSError as fault:
            raise unwritable(self._path, fault) from fault


@contextmanager
def open_results(output: Path, *, resume: bool) -> Iterator[Results]:
    """The results file of a new job, or of one to go on with, whose torn last line is removed.

    Raises:
        ConfigError: there are results and `resume` is false, or the other way round, or another process writes them.
        RecordError: the folder cannot be written.
    """
    path = output / RESULTS
    flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
    try:
        # A process that was killed as it began leaves an empty file, and no job to go on with.
        create = 0 if resume or _only_touched(output) else os.O_CREAT | os.O_EXCL
        output.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, flags | create, 0o600)
    except FileExistsError as fault:
        raise _taken(output) from fault
    except FileNotFoundError as fault:
        raise ConfigError(f"{str(output)!r} holds no results to go on with") from fault
    except OSError as fault:
        raise unwritable(output, fault) from fault
    try:
        _claim(descriptor, output)
        if not resume and not create and not _only_touched(output):
            raise _taken(output)
        whole = path.read_bytes().rpartition(b"\n")
        os.ftruncate(descriptor, len(whole[0]) + len(whole[1]))
        yield Results(path, descriptor)
    finally:
        os.close(descriptor)


def _only_touched(output: Path) -> bool:
    """Whether somebody made the results file and got no further."""
    path = output / RESULTS
    return path.is_file() and path.stat().st_size == 0 and not (output / JOB).exists()


def _taken(output: Path) -> ConfigError:
    return ConfigError(
        f"{str(output)!r} holds results already; add --resume to go on with them, or choose another folder"
    )


def _claim(descriptor: int, output: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as fault:
        raise ConfigError(f"another process writes results to {str(output)!r}; wait for it") from fault


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Replace a file of a job, all of it or nothing.

    Raises:
        RecordError: it could not be written.
    """
    fresh = path.with_name(f".{path.name}.new")
    try:
        fresh.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
        fresh.replace(path)
    except OSError as fault:
        raise unwritable(path, fault) from fault


def unwritable(path: Path, fault: OSError) -> RecordError:
    """What to say of a file that could not be written."""
    return RecordError(f"results cannot be written to {str(path)!r}: {fault.strerror or fault}")
