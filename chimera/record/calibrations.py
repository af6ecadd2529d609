"""What providers' token counts taught us, remembered between runs: model name -> factor."""

from __future__ import annotations

import json
import os
from pathlib import Path

from chimera.core.tokens import FACTOR_RANGE, Calibration


def load_calibration(state_dir: Path, model: str) -> Calibration:
    """The remembered calibration of a model; the neutral one where nothing usable is remembered."""
    factor = _read(state_dir).get(model)
    return Calibration(factor, known=True) if factor is not None else Calibration()


def save_calibration(state_dir: Path, model: str, calibration: Calibration) -> None:
    """Remember a calibration that comes from a report. Best effort: what cannot be remembered is learned again."""
    if not calibration.known:
        return
    factors = _read(state_dir) | {model: round(calibration.factor, 4)}
    target = _file(state_dir)
    temporary = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        temporary.write_text(json.dumps(factors, indent=0, sort_keys=True), encoding="utf-8")
        temporary.replace(target)
    except OSError:
        temporary.unlink(missing_ok=True)


def _file(state_dir: Path) -> Path:
    return state_dir / "calibration.json"


def _read(state_dir: Path) -> dict[str, float]:
    try:
        values = json.loads(_file(state_dir).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(values, dict):
        return {}
    low, high = FACTOR_RANGE
    return {
        name: float(factor)
        for name, factor in values.items()
        if isinstance(factor, int | float) and not isinstance(factor, bool) and low <= factor <= high
    }
