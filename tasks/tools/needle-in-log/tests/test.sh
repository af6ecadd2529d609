#!/bin/bash
# Grades $APP_DIR. Leaves `reward.txt` (1 or 0) and `canary.txt` in $LOGS_DIR/verifier; ends with 0 for the reward 1 only.
set -u
export APP_DIR="${APP_DIR:-/app}" TESTS_DIR="${TESTS_DIR:-/tests}" LOGS_DIR="${LOGS_DIR:-/logs}"
export PYTHONDONTWRITEBYTECODE=1
verifier="$LOGS_DIR/verifier"
mkdir -p "$verifier"
rm -f "$verifier/reward.txt" "$verifier/canary.txt"
cd "$TESTS_DIR" || exit 2

canary=passed
if said=$(python3 -s -P test_outputs.py Canary 2>&1); then
    printf '%s\n' 'the test that must fail passed: the outcome of the others means nothing'
elif [[ $said == *'FAILED (failures=1)'* ]]; then
    canary=failed
else
    canary=broken
    printf '%s\n' "$said"
fi
printf '%s\n' "$canary" >"$verifier/canary.txt"

reward=0
if [[ $canary == failed ]] && python3 -s -P test_outputs.py Outputs 2>&1; then
    reward=1
fi
printf '%s\n' "$reward" >"$verifier/reward.txt"
[[ $reward == 1 ]]
