#!/bin/bash
set -eu
cd "${APP_DIR:-/app}"
ending=$(sed -n 's/^ending of a line: //p' RULES.md)
words=$(sed -n 's/^words for a sealed record: //p' RULES.md)
mkdir -p public
for number in $(seq -w 40); do
    figure=$(sed -n 's/^figure of record [0-9]*: //p' "records/$number.txt")
    line="$number: $figure $ending"
    if grep -q '^record [0-9]* is sealed: yes$' "records/$number.txt"; then line="$number: $words"; fi
    printf '%s\n' "$line" >"public/$number.txt"
done
