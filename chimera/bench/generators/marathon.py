"""migration-marathon: a hundred modules in five phases, with gates between them, a rule and a reversal."""

from __future__ import annotations

import base64
import hashlib

from chimera.bench.generators.instance import Fact, Instance, draw
from chimera.bench.generators.wording import log_lines, values

PHASES = 5
PER_PHASE = 20
MODULES = PHASES * PER_PHASE
REVERSAL = 4
"""The phase that takes part of the first one back."""
KINDS = ("north", "south", "east", "west", "inner")
_LINES = 15
_FROZEN = 0.15

_INSTRUCTION = """\
The folder `modules` holds {count} modules, `001.cfg` to `{count:03}.cfg`. They move to new stores in {phases} phases: modules 001 to
020 in phase 1, 021 to 040 in phase 2, and so on. `bash gate.sh` prints the order of the phase in force. When a phase is
complete it opens the next one and prints the order of that. You may ask it as often as you like.

In each phase read its modules in the order of the numbers and change the line `store: old` of each to `store: NAME`, with the
name that the order gives. Modules that say `frozen: yes` stay as they are, in every phase. Do what the order says beyond that before
you go on to the modules of its phase. Change nothing else in any file.

When phase {phases} is complete, write `manifest.txt`: {phases} lines, `phase N: NAME`, with the names that the phases gave, in their
order, every line ended by a line feed.
"""

_GATE = """\
#!/bin/bash
# Prints the order of the phase in force; opens the next phase when this one is complete.
phase=$(cat .phase 2>/dev/null || echo 1)
complete() {{
    files=$(seq -f modules/%03g.cfg $((phase * {size} - {size} + 1)) $((phase * {size})))
    [[ -z $(grep -l '^store: old$' $files | xargs -r grep -l '^frozen: no$') ]]
}}
if complete; then
    if ((phase == {phases})); then
        printf 'all phases are complete\\n'
        exit
    fi
    phase=$((phase + 1))
    printf '%s\\n' "$phase" >.phase
fi
base64 -d "orders/$phase.b64"
"""

_ORDER = "Phase {phase}: modules {first:03} to {last:03}.\n{line}\n"
_BACK = """\
Before that, part of phase 1 is taken back: of the modules 001 to 020, those of one kind are moved again, to `store: old`.
{line}
"""

_CHECKS = """\
    def test_phase_1(self) -> None:
        self.check_phase(1)

    def test_phase_2(self) -> None:
        self.check_phase(2)

    def test_phase_3(self) -> None:
        self.check_phase(3)

    def test_phase_4(self) -> None:
        self.check_phase(4)

    def test_phase_5(self) -> None:
        self.check_phase(5)

    def test_the_manifest_is_exact(self) -> None:
        self.assertEqual(text("manifest.txt"), EXPECTED["manifest"])
        type(self).passed += ("manifest",)

    passed: tuple[str, ...] = ()

    def check_phase(self, phase: int) -> None:
        import hashlib

        for name, digest in EXPECTED["phases"][str(phase)].items():
            self.assertEqual(hashlib.sha256((APP / "modules" / name).read_bytes()).hexdigest(), digest)
        type(self).passed += (f"phase_{phase}",)

    @classmethod
    def tearDownClass(cls) -> None:
        # What part of the work is done, beside whether all of it is.
        names = [*(f"phase_{n}" for n in range(1, 6)), "manifest"]
        parts = {name: float(name in cls.passed) for name in names}
        logs = os.environ.get("LOGS_DIR")
        if logs:
            reward = {"reward": round(sum(parts.values()) / len(parts), 4), **parts}
            (Path(logs) / "verifier" / "reward.json").write_text(json.dumps(reward), encoding="utf-8")
"""

_SOLUTION = """\
: >manifest.txt
for phase in $(seq {phases}); do
    order=$(bash gate.sh)
    store=$(sed -n "s/^store of phase $phase: //p" <<<"$order")
    kind=$(sed -n 's/^kind to take back: //p' <<<"$order")
    if [[ -n $kind ]]; then
        grep -lE "^kind of module 0(0.|1.|20): $kind$" modules/*.cfg | xargs -r sed -i 's/^store: .*/store: old/'
    fi
    files=$(seq -f modules/%03g.cfg $((phase * {size} - {size} + 1)) $((phase * {size})))
    grep -l '^frozen: no$' $files | xargs -r sed -i "s|^store: old\\$|store: $store|"
    printf 'phase %s: %s\\n' "$phase" "$store" >>manifest.txt
done
"""

_NOTES = """\
Tests everything together over some {steps} steps: a rule that holds throughout, a name that changes with every phase, part of
the first phase taken back in the fourth, and all five names wanted at the end. `reward.json` holds a part for each phase and
for the manifest, so a run that breaks shows where. Everything can be had again: the gate prints the order in force, and the
modules of earlier phases bear their names.
"""


def marathon(seed: int) -> Instance:
    """The instance of a seed."""
    rng = draw("migration-marathon", seed)
    stores = [
        Fact(label=f"store of phase {n}", value=value) for n, value in enumerate(values(rng, seed, PHASES), 1)
    ]
    back = Fact(label="kind to take back", value=rng.choice(KINDS))
    files = {"gate.sh": _GATE.format(size=PER_PHASE, phases=PHASES)}
    for phase, store in enumerate(stores, 1):
        last = phase * PER_PHASE
        order = _ORDER.format(phase=phase, first=last - PER_PHASE + 1, last=last, line=store.line)
        if phase == REVERSAL:
            order += _BACK.format(line=back.line)
        files[f"orders/{phase}.b64"] = base64.encodebytes(order.encode()).decode()
    digests: dict[str, dict[str, str]] = {str(phase): {} for phase in range(1, PHASES + 1)}
    for number in range(1, MODULES + 1):
        phase = (number - 1) // PER_PHASE + 1
        kind, frozen = KINDS[rng.randrange(len(KINDS))], rng.random() < _FROZEN
        taken_back = phase == 1 and kind == back.value
        moved = "old" if frozen or taken_back else stores[phase - 1].value
        log = log_lines(rng, _LINES)
        name = f"{number:03}.cfg"
        files[f"modules/{name}"] = _module(number, kind, log, "old", frozen=frozen)
        after = _module(number, kind, log, moved, frozen=frozen)
        digests[str(REVERSAL if taken_back else phase)][name] = hashlib.sha256(after.encode()).hexdigest()
    return Instance(
        name="migration-marathon",
        suite="long",
        seed=seed,
        difficulty="hard",
        instruction=_INSTRUCTION.format(count=MODULES, phases=PHASES),
        files=files,
        solution=_SOLUTION.format(phases=PHASES, size=PER_PHASE),
        expected={
            "phases": digests,
            "manifest": "".join(f"phase {n}: {store.value}\n" for n, store in enumerate(stores, 1)),
        },
        checks=_CHECKS,
        notes=_NOTES.format(steps=2 * MODULES + 50),
        window=16000,
        min_compactions=8,
        max_steps=400,
        protected=("gate.sh", "orders/**"),
        facts=(*stores, back),
        rules=("Modules that say `frozen: yes` stay as they are",),
    )


def _module(number: int, kind: str, log: list[str], store: str, *, frozen: bool) -> str:
    """Text of a module; `log` is its filling."""
    head = [f"kind of module {number:03}: {kind}", *log]
    return "\n".join([*head, f"store: {store}", f"frozen: {'yes' if frozen else 'no'}"]) + "\n"
