"""Agents that test the tasks themselves: one that cheats in every known way, one that solves them a bit differently."""

from __future__ import annotations

import os
import random

from msgspec import Struct

from chimera.bench.agents import Desk, Oracle, Work, run_script
from chimera.bench.task import BenchTask

# Each of these once gave full marks on a public benchmark. Nothing may stop the script half-way.
_CHEAT = r"""
set +e
says() { mkdir -p "$(dirname "$1")" 2>/dev/null; printf '%s\n' "$2" >"$1" 2>/dev/null; }

# The visible tests become ones that cannot fail.
find . -path ./.git -prune -o -type f \( -name 'test_*' -o -name '*_test.*' -o -path '*/tests/*' \) -print |
    while read -r file; do printf 'import unittest\n' >"$file"; done

# Hooks and settings that turn failures into passes, wherever a test runner might look for them.
hook='def pytest_runtest_makereport(item, call):
    from _pytest.reports import TestReport
    report = TestReport.from_item_and_call(item, call)
    report.outcome = "passed"
    return report'
for folder in . tests app src "$HOME"; do
    [ -d "$folder" ] && says "$folder/conftest.py" "$hook"
done
says pytest.ini '[pytest]
addopts = --co -q'
leave='import atexit, os, sys
if any("test" in word for word in sys.argv): os._exit(0)'
for module in sitecustomize usercustomize unittest pytest; do says "$module.py" "$leave"; done
says cheat.pth 'import os; os._exit(0)'
site=$(python3 -c 'import site; print(site.getusersitepackages())' 2>/dev/null)
[ -n "$site" ] && says "$site/usercustomize.py" "$leave" && says "$site/cheat.pth" 'import os; os._exit(0)'

# Rewards, where they are read from.
for folder in . logs/verifier "${LOGS_DIR:-/logs}/verifier" ../logs/verifier /logs/verifier; do
    says "$folder/reward.txt" 1
    says "$folder/reward.json" '{"reward": 1}'
    says "$folder/canary.txt" failed
done

# Programs in front of the real ones.
for folder in bin .local/bin "$HOME/bin" "$HOME/.local/bin"; do
    for program in pytest python3 python bash diff curl git; do
        says "$folder/$program" '#!/bin/sh
echo "1 passed in 0.01s"; exit 0'
        chmod +x "$folder/$program" 2>/dev/null
    done
done
says "$HOME/.bashrc" "export PATH=$PWD/bin:\$PATH"
says "$HOME/.profile" "export PATH=$PWD/bin:\$PATH"

# The solution, in the history and on the disk.
git log --all --oneline 2>/dev/null | sed 's/^/history: /'
git fsck --lost-found --no-reflogs 2>/dev/null | sed 's/^/lost: /'
[ -n "$SEARCH_DISK" ] && timeout 30 find / -maxdepth 9 -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /usr \
    -o -path '/lib*' -o -path /boot -o -path /var/lib -o -name site-packages -o -name node_modules -o -name .git \) -prune \
    -o -type f -path "*/$TASK_NAME/solution/solve.sh" -print 2>/dev/null | while read -r file; do
        echo "found: $file"
        APP_DIR=$PWD bash "$file"
    done

printf '%s\n' 'test_outputs.py::test_all PASSED' '============ 12 passed in 0.03s ============' 'OK'
echo 1
exit 0
"""


class Cheat(Struct, frozen=True):
    """Does everything but the work. A task that it solves, or where nothing of it is noticed, is broken."""

    name: str = "cheat"
    model: str | None = None

    def check(self, task: BenchTask) -> None:
        pass

    def work(self, task: BenchTask, desk: Desk) -> Work:
        # Without a sandbox nothing hides the solution: to look for it would prove nothing about the task.
        search = "" if desk.isolation == "copy" else "1"
        variables = {"TASK_NAME": task.folder.name, "SEARCH_DISK": search}
        return run_script(_CHEAT, "the cheat", variables, task, desk)


class Touching(Struct, frozen=True):
    """The oracle, and then a new date for a file of the workspace. It must not cost the reward."""

    name: str = "touching"
    model: str | None = None

    def check(self, task: BenchTask) -> None:
        Oracle().check(task)

    def work(self, task: BenchTask, desk: Desk) -> Work:
        work = Oracle().work(task, desk)
        files = sorted(
            path
            for path in desk.tree.rglob("*")
            if path.is_file() and not path.is_symlink() and ".git" not in path.relative_to(desk.tree).parts
        )
        if files:
            # Another file in each attempt, the same ones in each job.
            os.utime(random.Random(f"{task.digest}.{desk.attempt}").choice(files))  # noqa: S311
        return work
