#!/bin/bash
set -eu
cd "${APP_DIR:-/app}"
mkdir -p closings
for number in $(seq -w 60); do
    total=$(sed -n 's/^turnover of account [0-9]*: //p' "accounts/$number.txt")
    from=$(sed -n 's/^account [0-9]* carries over from account: //p' "accounts/$number.txt")
    if [[ $from != none ]]; then total=$((total + $(cat "closings/$from.txt"))); fi
    printf '%d\n' "$total" >"closings/$number.txt"
done
