"""A workspace with the default tools over it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.caller import Caller


@pytest.fixture
def caller(tmp_path: Path) -> Iterator[Caller]:
    root, run_dir = tmp_path / "project", tmp_path / "run"
    for folder in (root, run_dir / "outputs", run_dir / "archive"):
        folder.mkdir(parents=True)
    made = Caller(root, run_dir)
    yield made
    made.runner.close()
