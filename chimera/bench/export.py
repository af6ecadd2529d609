"""Jobs in the formats of others: trajectories in ATIF, and a job folder that Harbor can read."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from chimera.bench.aggregate import FinishedJob
from chimera.bench.results import TRIALS
from chimera.bench.row import Row
from chimera.bench.trajectory import ATIF
from chimera.core.replies import read_reply
from chimera.errors import ConfigError, RecordError
from chimera.recording import Recording, read_recording

_NAMES = uuid.UUID("5f1c7c0a-5f0e-4c53-8f4f-5f0f4a3c9b10")
"""So that the same trial has the same id in every export."""


def export_atif(run: Path, job: FinishedJob, target: Path) -> int:
    """Write `TRIAL.json` for each trial whose run was recorded, and return how many.

    Raises:
        ConfigError: the folder cannot be made.
    """
    _make(target)
    written = 0
    for row in job.rows:
        if (found := trajectory(run, row)) is not None:
            _write(target / f"{row.trial}.json", found)
            written += 1
    return written


def export_harbor(run: Path, job: FinishedJob, target: Path) -> int:
    """Write a job folder with the results, rewards and trajectories of all trials, and return how many.

    Raises:
        ConfigError: the folder cannot be made.
    """
    _make(target)
    for row in job.rows:
        folder = target / row.trial
        (folder / "agent").mkdir(parents=True)
        (folder / "verifier").mkdir()
        _write(folder / "result.json", _trial_result(job, row, folder))
        if (found := trajectory(run, row)) is not None:
            _write(folder / "agent" / "trajectory.json", found)
        for name in ("reward.txt", "output.txt"):
            source = run / TRIALS / row.trial / "verifier" / name
            if source.is_file():
                shutil.copyfile(source, folder / "verifier" / name.replace("output", "test-stdout"))
    _write(target / "result.json", _job_result(job))
    return len(job.rows)


def trajectory(run: Path, row: Row) -> dict[str, Any] | None:
    """What the agent did in a trial, in ATIF; None where nobody recorded it.

    The record is looked for in the trial's folder, wherever the job has been moved to.
    """
    if row.run_dir is None:
        return None
    path = run / TRIALS / row.trial / "state" / "runs" / Path(row.run_dir).name
    try:
        recording = read_recording(path)
    except RecordError:
        return None
    found = atif(recording, agent=row.agent, version=row.version, model=row.model)
    if row.tokens is not None:
        tokens = row.tokens
        found["final_metrics"] = {
            "total_prompt_tokens": tokens.in_uncached + tokens.cache_read + tokens.cache_write,
            "total_completion_tokens": tokens.out + tokens.reasoning,
            "total_cached_tokens": tokens.cache_read,
            "total_cost_usd": row.cost_usd,
            "total_steps": row.steps,
        }
    return found


def atif(recording: Recording, *, agent: str, version: str, model: str | None) -> dict[str, Any]:
    """What a record tells, in ATIF."""
    return {
        "schema_version": ATIF,
        "session_id": recording.run_id,
        "agent": {"name": agent, "version": version, "model_name": model},
        "steps": [{"step_id": number, **step} for number, step in enumerate(_steps(recording), 1)],
    }


def _steps(recording: Recording) -> Iterator[dict[str, Any]]:
    yield {"source": "system", "message": recording.system}
    yield {"source": "user", "message": recording.task}
    if recording.first_message:
        yield {"source": "user", "message": recording.first_message}
    for step in recording.steps:
        message = read_reply(step.completion).message
        told: dict[str, Any] = {"source": "agent", "message": message.content}
        if message.tool_calls:
            told["tool_calls"] = [
                {"tool_call_id": call.id, "function_name": call.name, "arguments": _arguments(call.arguments)}
                for call in message.tool_calls
            ]
            told["observation"] = {
                "results": [
                    {"source_call_id": call.id, "content": output.text if output else None}
                    for call, output in zip(message.tool_calls, step.outputs, strict=True)
                ]
            }
        if (usage := step.completion.usage) is not None:
            told["metrics"] = {
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "cached_tokens": usage.cached_input_tokens,
                "cost_usd": usage.cost_usd,
            }
        yield told
        for text in (step.answer, step.follow_up):
            if text:
                yield {"source": "user", "message": text}


def _arguments(written: str) -> dict[str, Any]:
    try:
        value = json.loads(written)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _trial_result(job: FinishedJob, row: Row, folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = {
        "id": str(uuid.uuid5(_NAMES, f"{job.record.job}/{row.trial}")),
        "task_name": row.task,
        "trial_name": row.trial,
        "trial_uri": folder.resolve().as_uri(),
        "task_id": {"path": row.task},
        "source": row.suite,
        "task_checksum": row.task_digest.removeprefix("sha256:"),
        "config": {"task": {"path": row.task}, "trial_name": row.trial, "agent": {"name": row.agent}},
        "started_at": row.started,
        "agent_info": {"name": row.agent, "version": row.version, "model_info": _model_info(row.model)},
    }
    if row.tokens is not None:
        tokens = row.tokens
        result["agent_result"] = {
            "n_input_tokens": tokens.in_uncached + tokens.cache_read + tokens.cache_write,
            "n_cache_tokens": tokens.cache_read,
            "n_output_tokens": tokens.out + tokens.reasoning,
            "cost_usd": row.cost_usd,
        }
    if row.reward is not None:
        result["verifier_result"] = {"rewards": {"reward": row.reward}}
    if row.error is not None:
        result["exception_info"] = {
            "exception_type": row.error.kind,
            "exception_message": row.error.message,
            "exception_traceback": "",
            "occurred_at": row.started,
        }
    return result


def _model_info(model: str | None) -> Mapping[str, str] | None:
    if model is None:
        return None
    provider, slash, name = model.partition("/")
    return {"name": name, "provider": provider} if slash else {"name": model}


def _job_result(job: FinishedJob) -> dict[str, Any]:
    return {
        "id": str(uuid.uuid5(_NAMES, job.record.job)),
        "started_at": min((row.started for row in job.rows), default=""),
        "n_total_trials": len(job.record.planned),
        "stats": {
            "n_completed_trials": len(job.rows),
            "n_errored_trials": sum(row.error is not None for row in job.rows),
            "n_pending_trials": len(job.missing),
        },
    }


def _make(target: Path) -> None:
    try:
        target.mkdir(parents=True)
    except FileExistsError as fault:
        raise ConfigError(f"{str(target)!r} exists already; choose a new folder") from fault
    except OSError as fault:
        raise ConfigError(f"{str(target)!r} cannot be written: {fault.strerror}") from fault


def _write(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
