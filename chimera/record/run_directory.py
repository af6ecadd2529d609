"""What a run leaves on disk: `events.jsonl`, `outputs/`, `archive/`. Private to the user, never in a repository."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chimera.errors import RecordError
from chimera.record.events import DURABLE, NOT_RECORDED, Event

RUNS = "runs"


class RunFiles:
    """Outputs that were cut and turns that were taken out, each under a short name that the tools can read."""

    def __init__(self, path: Path) -> None:
        self.path = path
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
        _write_private(self.archive / name.rpartition("/")[2], text.encode())
        return name

    def keep_output(self, text: str, spool: Path | None = None) -> str:
        """Keep a whole output, from its spool file where there is one, and return its name."""
        self._outputs += 1
        target = self.outputs / f"{self._outputs:04}.txt"
        if spool is not None:
            spool.replace(target)
            target.chmod(0o600)
        else:
            _write_private(target, text.encode())
        return f"@run/outputs/{target.name}"


class RunDirectory(RunFiles):
    """The record of one run. Appending is one write per event; durable before the effect that an event announces."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._seq = 0
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._file = os.open(self.path / "events.jsonl", flags, 0o600)
        except OSError as fault:
            raise _unwritable(path, fault) from fault

    @classmethod
    def create(cls, state_dir: Path, run_id: str) -> RunDirectory:
        """A new run's directory.

        Raises:
            RecordError: the state directory cannot be written.
        """
        runs = state_dir / RUNS
        try:
            runs.mkdir(parents=True, exist_ok=True, mode=0o700)
            (runs / run_id).mkdir(mode=0o700)
        except OSError as fault:
            raise _unwritable(state_dir, fault) from fault
        return cls(runs / run_id)

    @property
    def run_id(self) -> str:
        return self.path.name

    def emit(self, event: Event) -> None:
        """Append an event."""
        if event.type in NOT_RECORDED:
            return
        line = json.dumps(event.record(self._seq), ensure_ascii=False, separators=(",", ":"))
        self._seq += 1
        try:
            os.write(self._file, line.encode("utf-8", "surrogatepass") + b"\n")
            if event.type in DURABLE:
                os.fdatasync(self._file)
        except OSError as fault:
            raise _unwritable(self.path, fault) from fault

    def close(self) -> None:
        """Close the record; spool files that nobody kept go."""
        os.close(self._file)
        for leftover in self.spool.iterdir():
            leftover.unlink(missing_ok=True)
        self.spool.rmdir()


def new_run_id() -> str:
    """An id that sorts by time: `20260131-235959-a1b2c3` (UTC)."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


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
        raise RecordError(f"no run is recorded in {str(state_dir)!r}")
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
    """The events of a run directory in order. Lines that do not parse (a torn tail) are left out.

    Raises:
        RecordError: there is no readable record.
    """
    try:
        lines = (path / "events.jsonl").read_bytes().split(b"\n")
    except OSError as fault:
        raise RecordError(f"the record of {path.name} cannot be read: {fault}") from fault
    for line in lines:
        try:
            event = json.loads(line) if line.strip() else None
        except ValueError:
            continue
        if isinstance(event, dict) and "type" in event:
            yield event


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
