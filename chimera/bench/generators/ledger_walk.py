"""ledger-walk: sixty accounts, each of which carries over from earlier ones."""

from __future__ import annotations

from chimera.bench.generators.instance import Instance, draw
from chimera.bench.generators.wording import log_lines, with_line

ACCOUNTS = 60
_LINES = 17

_INSTRUCTION = """\
The folder `accounts` holds {count} accounts, `01.txt` to `{count}.txt`. Two lines of each count: `turnover of account NN:`
gives a number, and `account NN carries over from account:` the number of an earlier account, or `none`.

The closing of an account is its turnover, plus the closing of the account that it carries over from. Go through them in
order and write each closing to `closings/NN.txt`, followed by a line feed and nothing else.
"""

_CHECKS = """\
    def test_every_closing_is_right(self) -> None:
        found = [text(f"closings/{number:02}.txt") for number in range(1, len(EXPECTED["closings"]) + 1)]
        self.assertEqual(found, [f"{closing}\\n" for closing in EXPECTED["closings"]])
"""

_SOLUTION = """\
mkdir -p closings
for number in $(seq -w {count}); do
    total=$(sed -n 's/^turnover of account [0-9]*: //p' "accounts/$number.txt")
    from=$(sed -n 's/^account [0-9]* carries over from account: //p' "accounts/$number.txt")
    if [[ $from != none ]]; then total=$((total + $(cat "closings/$from.txt"))); fi
    printf '%d\\n' "$total" >"closings/$number.txt"
done
"""

_NOTES = """\
Tests facts that can be had again, at a price. Most accounts carry over from one that was closed long before, whose
closing stands in a file of the agent's own. A loop that throws out what it has just read again runs into the step limit;
a guess is wrong from there on in every account that follows.
"""


def ledger_walk(seed: int) -> Instance:
    """The instance of a seed."""
    rng = draw("ledger-walk", seed)
    files: dict[str, str] = {}
    closings: list[int] = []
    for number in range(1, ACCOUNTS + 1):
        turnover = rng.randrange(100, 999)
        source = rng.randrange(1, number) if number > 1 and rng.random() < 0.6 else None
        closings.append(turnover + (closings[source - 1] if source else 0))
        lines = with_line(log_lines(rng, _LINES), f"turnover of account {number:02}: {turnover}", 0.95)
        came = f"{source:02}" if source else "none"
        files[f"accounts/{number:02}.txt"] = (
            "\n".join([*lines, f"account {number:02} carries over from account: {came}"]) + "\n"
        )
    return Instance(
        name="ledger-walk",
        suite="long",
        seed=seed,
        difficulty="hard",
        instruction=_INSTRUCTION.format(count=ACCOUNTS),
        files=files,
        solution=_SOLUTION.format(count=ACCOUNTS),
        expected={"closings": closings},
        checks=_CHECKS,
        notes=_NOTES,
        window=8000,
        min_compactions=5,
        max_steps=250,
        protected=("accounts/**",),
        rules=("The closing of an account is its turnover",),
    )
