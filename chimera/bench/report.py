"""What a job came to: rates, a table, and what the exit code of the command says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from chimera.bench.measures import Invariants
from chimera.bench.row import SCHEMA, SCORED, Row

EXIT_OK, EXIT_BELOW, EXIT_USAGE, EXIT_INCOMPLETE, EXIT_CHECK, EXIT_COST, EXIT_INTERRUPTED = (
    0,
    1,
    2,
    3,
    4,
    5,
    130,
)

_HEAD = ("task", "try", "status", "reward", "stop reason", "steps", "tokens", "cost", "seconds")
_LEFT = {0, 2, 4}


class Report(Struct, frozen=True, kw_only=True):
    """The rows of a job, in the order in which they were finished."""

    rows: tuple[Row, ...]
    planned: int
    """Trials the job was to have."""
    interrupted: bool = False
    capped: bool = False
    """The job's cost limit ended it."""

    @property
    def scored(self) -> tuple[Row, ...]:
        """The trials that count in a rate."""
        return tuple(row for row in self.rows if row.status in SCORED)

    @property
    def passed(self) -> int:
        return sum(row.passed for row in self.scored)

    @property
    def pass_rate(self) -> float | None:
        """Passed over scored trials; None where none was scored."""
        return self.passed / len(self.scored) if self.scored else None

    @property
    def worst_case(self) -> float:
        """Passed over planned trials: everything that is missing counts as not passed."""
        return self.passed / self.planned

    @property
    def breaches(self) -> int:
        """Requests that broke an invariant, in all rows."""
        return sum(row.invariants.breaches for row in self.rows if row.invariants is not None)

    def exit_code(self, fail_under: float | None = None) -> int:
        """0: every planned trial was graded, no request broke an invariant, and the rate is not below `fail_under`.

        A rate that lacks trials is none.
        """
        if self.interrupted:
            return EXIT_INTERRUPTED
        if self.capped:
            return EXIT_COST
        if sum(row.status == "graded" for row in self.rows) < self.planned:
            return EXIT_INCOMPLETE
        below = fail_under is not None and (self.pass_rate or 0.0) < fail_under
        return EXIT_BELOW if below or self.breaches else EXIT_OK

    def summary(self) -> dict[str, Any]:
        """The job in a few numbers, as JSON values."""
        return {
            "schema": SCHEMA,
            "planned": self.planned,
            "finished": len(self.rows),
            "scored": len(self.scored),
            "passed": self.passed,
            "pass_rate": self.pass_rate,
            "worst_case": self.worst_case,
            "statuses": dict(sorted(Counter(row.status for row in self.rows).items())),
            "retried": sum(row.tries > 1 for row in self.rows),
            "invariant_breaches": self.breaches,
            "tampered": [row.trial for row in self.rows if row.tampered],
            "tokens": sum(row.tokens.total for row in self.rows if row.tokens is not None),
            "cost_usd": _cost_of(self.rows),
            "seconds": round(sum(sum(row.seconds.values()) for row in self.rows), 3),
        }

    def table(self) -> str:
        """The rows for people, then whatever needs to be said in words."""
        arms = len({row.arm for row in self.rows}) > 1
        head, left = (("arm", *_HEAD), {0, *(n + 1 for n in _LEFT)}) if arms else (_HEAD, _LEFT)
        cells = [(row.arm, *_cells(row)) if arms else _cells(row) for row in self.rows]
        lines = aligned([head, *cells], left=left)
        for row in self.rows:
            if row.error is not None:
                lines.append(f"{row.trial}: {row.error.message} ({row.error.phase}, {row.error.kind})")
            if row.tampered:
                lines.append(f"{row.trial}: tampered with {', '.join(row.tampered)}")
            if row.invariants is not None and row.invariants.breaches:
                lines.append(f"{row.trial}: {broken(row.invariants)}")
        return "\n".join([*lines, "", self._verdict()])

    def _verdict(self) -> str:
        rate = "no trial was graded" if self.pass_rate is None else f"{self.pass_rate:.1%}"
        text = f"passed {self.passed} of {len(self.scored)} graded ({rate})"
        if missing := self.planned - len(self.scored):
            text += f"; {missing} of {self.planned} planned have no grade: {self.worst_case:.1%} if all of them failed"
        levels = sorted({row.isolation for row in self.rows})
        weak = " (weak: nothing hides the tests from a determined agent)" if "copy" in levels else ""
        return f"{text}; isolation: {', '.join(levels) or 'none'}{weak}"


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.task,
        str(row.attempt),
        row.status,
        "-" if row.reward is None else f"{row.reward:g}",
        row.stop_reason or "-",
        "-" if row.steps is None else str(row.steps),
        "-" if row.tokens is None else f"{'~' if row.tokens.estimated else ''}{row.tokens.total:,}",
        _cost(row),
        f"{sum(row.seconds.values()):.1f}",
    )


def _cost(row: Row) -> str:
    if row.tokens is None:
        return "-"
    return "unknown" if row.cost_usd is None else f"${row.cost_usd:.4f}"


def broken(invariants: Invariants) -> str:
    """Which invariants were broken how often, for people."""
    found = [(name, count) for name, count in asdict(invariants).items() if name != "requests" and count]
    told = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in found)
    return f"INVARIANTS BROKEN in {invariants.requests} requests: {told}"


def aligned(lines: Sequence[Sequence[str]], *, left: Collection[int]) -> list[str]:
    """Rows as lines of text, columns in line; those not in `left` end at the right."""
    widths = [max(len(line[n]) for line in lines) for n in range(len(lines[0]))]
    return [
        "  ".join(
            cell.ljust(width) if n in left else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _cost_of(rows: Sequence[Row]) -> float | None:
    """Of all runs that asked a model; unknown as soon as one of them is."""
    costs = [row.cost_usd for row in rows if row.tokens is not None]
    known = [cost for cost in costs if cost is not None]
    return round(sum(known), 6) if known and len(known) == len(costs) else None
