"""Where graders, solutions and scripts of tasks look for programs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from chimera.workspace.programs import DEFAULT_PATH


def search_path() -> str:
    """PATH of graders and solutions: the interpreter that runs chimera, then the system."""
    return os.pathsep.join([str(Path(sys.executable).parent), DEFAULT_PATH])
