"""All programs of the scripted policies, and which one a task asks for."""

from __future__ import annotations

from chimera.bench.policies import long_programs, programs, tool_programs
from chimera.bench.policies.programs import Program

# The long ones first: their texts also hold marks of others.
_PROGRAMS = (*long_programs.PROGRAMS, *tool_programs.PROGRAMS, *programs.PROGRAMS)


def program_of(task: str) -> Program | None:
    """The program for a task by its text; None where the text does not tell."""
    return next((program for mark, program in _PROGRAMS if mark in task), None)
