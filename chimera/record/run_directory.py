"""What a run leaves on disk: `events.jsonl`, `outputs/`, `archive/`. Private to the user, never in a repository."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from chimera import interruption
from chimera.errors import RecordError
from chimera.record.damage import whole_fields
from chimera.record.events import DURABLE, DURABLE_SOON, NOT_RECORDED, Event
from chimera.record.redaction import Redactor
from chimera.record.syncing import Syncing
from chimera.workspace.output_buffer import SPOOL_PREFIX

RUNS = "runs"
EVENTS = "events.jsonl"
_FIRST_LINES = 50
"""Among which the beginning of a run is looked for."""


class RunFiles:
    """Outputs that were cut and turns that were taken out, each under a short name that the tools can read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.redactor = Redactor()
        """Takes secrets out of archives, and out of file text that is put back after a compaction."""
        try:
            for folder in (self.outputs, self.archive, self.spool):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as fault:
            raise _unwritable(path, fault) from fault
        self._outputs = sum(1 for _ in self.outputs.iterdir())
        self._archives = sum(1 for _ in self.archive.iterdir())

    @classmethod
    def temporary(cls) -> RunFiles:
        """Files in a directory of their own under the system's temporary directory."""
        return cls(Path(tempfile.mkdtemp(prefix="chimera-run-")))

    @property
    def outputs(self) -> Path:
        return self.path / "outputs"

    @property
    def archive(self) -> Path:
        return self.path / "archive"

    @property
    def spool(self) -> Path:
        """Where commands write while they run."""
        return self.path / "spool"

    @property
    def archives(self) -> int:
        """How many archives there are."""
        return self._archives

    def next_archive(self) -> str:
        """The name that the next archive will have."""
        return f"@run/archive/{self._archives + 1:04}.md"

    def keep_archive(self, text: str) -> str:
        """Write an archive and return its name."""
        name = self.next_archive()
        self._archives += 1
        _write_private(self.archive / name.rpartition("/")[2], self.redactor.text(text).encode())
        return name

    def keep_output(self, text: str, spool: Path | None = None) -> str:
        """Keep a whole output, from its spool file where there is one, and return its name."""
        self._outputs += 1
        target = self.outputs / f"{self._outputs:04}.txt"
        if spool is not None:
            spool.replace(target)
            target.chmod(0o600)
        else:
            _write_private(target, self.redactor.text(text).encode())
        return f"@run/outputs/{target.name}"

    def keep_left_over(self) -> str | None:
        """Keep what the newest command had printed that was interrupted, without secrets, and return its name."""
        name = None
        for path in sorted(self.spool.glob(f"{SPOOL_PREFIX}*"), key=lambda path: path.stat().st_mtime_ns):
            try:
                self.redactor.file(path)
                name = self.keep_output("", path)
            except OSError:  # it goes with the folder rather than stays with what could not be taken out
                continue
        return name

    def output(self, name: str) -> Path:
        """The file with a kept output."""
        return self.outputs / name.rpartition("/")[2]


class RunDirectory(RunFiles):
    """The record of one run. Appending is one write per event; durable before the effect that an event announces."""

    def __init__(self, path: Path, *, next_seq: int = 0) -> None:
        super().__init__(path)
        self._seq = next_seq
        self.repair = ""
        """What had to be mended when the record was opened again, for people."""
        try:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._file = os.open(self.path / EVENTS, flags, 0o600)
        except OSError as fault:
            raise _unwritable(path, fault) from fault
        self._syncing = Syncing(self._file)

    @classmethod
    def create(cls, state_dir: Path, run_id: str) -> RunDirectory:
        """A new run's directory.

        Raises:
            RecordError: the state directory cannot be written.
        """
        runs = state_dir / RUNS
        try:
            _private_folder(state_dir, shared=True)
            _private_folder(runs)
            (runs / run_id).mkdir(mode=0o700)
        except OSError as fault:
            raise _unwritable(state_dir, fault) from fault
        return cls(runs / run_id)

    @classmethod
    def reopen(cls, path: Path) -> RunDirectory:
        """The directory of an earlier run, to append to it. A damaged record is mended first; the original is kept.

        Raises:
            RecordError: it cannot be read or written.
        """
        repair = mend(path)
        seqs = [event.get("seq", -1) for event in read_events(path)]
        directory = cls(path, next_seq=max(seqs, default=-1) + 1)
        directory.repair = repair
        return directory

    @property
    def run_id(self) -> str:
        return self.path.name

    def emit(self, event: Event) -> None:
        """Append an event, whole or not at all.

        Raises:
            RecordError: it could not be written.
        """
        if event.type in NOT_RECORDED:
            interruption.check()
            return
        with interruption.shielded():
            self._append(event)

    def _append(self, event: Event) -> None:
        line = _encoded(event.record(self._seq))
        before = os.fstat(self._file).st_size
        try:
            if os.write(self._file, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if event.type in DURABLE:
                self._syncing.now()
            elif event.type in DURABLE_SOON:
                self._syncing.soon()
        except OSError as fault:
            os.ftruncate(self._file, before)
            raise _unwritable(self.path, fault) from fault
        self._seq += 1

    def close(self) -> None:
        """Close the record; spool files that nobody kept go."""
        self._syncing.close()
        os.close(self._file)
        shutil.rmtree(self.spool, ignore_errors=True)


def new_run_id() -> str:
    """An id that sorts by time (UTC): `20260131-235959-a1b2c3`, where `a1b` counts 4096ths of the second."""
    now = datetime.now(UTC)
    return f"{now:%Y%m%d-%H%M%S}-{now.microsecond * 4096 // 1_000_000:03x}{secrets.randbelow(4096):03x}"


def run_paths(state_dir: Path) -> list[Path]:
    """The directories of all recorded runs, oldest first."""
    runs = state_dir / RUNS
    return sorted(path for path in runs.iterdir() if path.is_dir()) if runs.is_dir() else []


def find_run(state_dir: Path, name: str | None) -> Path:
    """The directory of a run by its id or the beginning of it; the last run without a name.

    Raises:
        RecordError: no such run, or several.
    """
    paths = run_paths(state_dir)
    if not paths:
        raise RecordError(f"no run is recorded in {str(state_dir)!r}; chimera run TASK makes one")
    if name is None:
        return paths[-1]
    found = [path for path in paths if path.name == name] or [
        path for path in paths if path.name.startswith(name)
    ]
    if len(found) != 1:
        known = ", ".join(path.name for path in (found or paths)[-5:])
        raise RecordError(
            f"{'no' if not found else 'more than one'} run begins with {name!r}; the newest: {known}"
        )
    return found[0]


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a run directory in order, as `read_record` has them.

    Raises:
        RecordError: there is no readable record.
    """
    return iter(read_record(path).events)


class Record(Struct, frozen=True, kw_only=True):
    """What can be read of `events.jsonl`."""

    events: tuple[dict[str, Any], ...]
    """In order. Lines and fields that are damaged are left out, and so is a line that is there twice."""
    damage: tuple[str, ...]
    """What was left out and why, each with its line."""


def read_record(path: Path) -> Record:
    """The record of a run directory.

    Raises:
        RecordError: there is no readable record.
    """
    seen: set[int] = set()
    events: list[dict[str, Any]] = []
    damage: list[str] = []
    for number, line in enumerate(_lines(path), start=1):
        event = _event(line)
        if event is None:
            if line:
                damage.append(f"line {number}: no event, {len(line):,} bytes")
            continue
        event, faults = whole_fields(event)
        if event.get("seq") in seen:
            continue
        damage += [f"line {number}: {fault}" for fault in faults]
        if "seq" in event:
            seen.add(event["seq"])
        events.append(event)
    return Record(events=tuple(events), damage=tuple(damage))


def last_run_in(state_dir: Path, folder: Path) -> Path:
    """The directory of the last run whose workspace is this folder or one above it.

    Raises:
        RecordError: there is none.
    """
    for path in reversed(run_paths(state_dir)):
        workspace = _workspace_of(path)
        if workspace is not None and folder.is_relative_to(workspace):
            return path
    raise RecordError(
        f"no run is recorded of {str(folder)!r}: name one of another folder (chimera runs lists them), "
        "or make one: chimera run TASK"
    )


def _workspace_of(path: Path) -> str | None:
    """The workspace of a run; None where the beginning of its record does not name it."""
    with suppress(OSError), (path / EVENTS).open("rb") as file:
        for event in map(_event, islice(file, _FIRST_LINES)):
            if event is not None and event["type"] == "run_started":
                workspace = event.get("workspace")
                return workspace if isinstance(workspace, str) else None
    return None


def mend(path: Path) -> str:
    """Make a damaged record whole again: good lines stay, the original is kept beside it.

    Returns:
        What was wrong, for people; empty where nothing was.
    """
    lines = _lines(path)
    bad = [line for line in lines[:-1] if _event(line) is None]
    torn = lines[-1]
    if not bad and not torn:
        return ""
    good = [line for line in lines if _event(line) is not None]
    number = sum(1 for _ in path.glob(f"{EVENTS}.damaged-*")) + 1
    original = path / f"{EVENTS}.damaged-{number}"
    mended = path / f"{EVENTS}.mended"
    try:
        shutil.copyfile(path / EVENTS, original)
        original.chmod(0o600)
        _write_private(mended, b"".join(line + b"\n" for line in good))
        mended.replace(path / EVENTS)
    except OSError as fault:
        raise _unwritable(path, fault) from fault
    lost = sum(map(len, bad)) + (0 if _event(torn) else len(torn))
    return (
        f"The record was damaged: {lost:,} bytes could not be read. The original is kept as {original.name}."
    )


def _lines(path: Path) -> list[bytes]:
    """The lines of a record; the last one is what follows the last line end: empty in a whole record."""
    try:
        return (path / EVENTS).read_bytes().split(b"\n")
    except OSError as fault:
        raise RecordError(f"the record of {path.name} cannot be read: {fault}") from fault


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("type"), str) else None


def _encoded(record: dict[str, Any]) -> bytes:
    try:
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        text = json.dumps(record, separators=(",", ":")).encode()
    return text + b"\n"


def _private_folder(path: Path, *, shared: bool = False) -> None:
    """Make a folder that is the user's own and closed to others. One that is `shared` may have been there before."""
    try:
        path.mkdir(parents=True, mode=0o700)
    except FileExistsError:
        status = path.stat()
        if shared:
            return
        if status.st_uid != os.geteuid():
            raise RecordError(
                f"{str(path)!r} belongs to another user, who could read and change what is recorded there; "
                "CHIMERA_STATE_DIR names another place"
            ) from None
        if status.st_mode & 0o077:
            path.chmod(0o700)


def _write_private(path: Path, content: bytes) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except OSError as fault:
        raise _unwritable(path, fault) from fault


def _unwritable(path: Path, fault: OSError) -> RecordError:
    return RecordError(
        f"cannot write the run's record at {str(path)!r} ({fault}); CHIMERA_STATE_DIR names another place"
    )
