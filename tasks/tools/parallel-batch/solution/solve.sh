#!/bin/bash
set -eu
cd "${APP_DIR:-/app}"
mkdir -p groups
for group in $(seq 10); do
    total=0
    for part in $(seq $((group * 6 - 6 + 1)) $((group * 6))); do
        name=$(printf '%02d' "$part")
        total=$((total + $(sed -n 's/^grams of part [0-9]*: //p' "parts/$name.txt")))
    done
    printf '%d\n' "$total" >"groups/$(printf '%02d' "$group").txt"
done
