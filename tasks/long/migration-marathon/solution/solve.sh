#!/bin/bash
set -eu
cd "${APP_DIR:-/app}"
: >manifest.txt
for phase in $(seq 5); do
    order=$(bash gate.sh)
    store=$(sed -n "s/^store of phase $phase: //p" <<<"$order")
    kind=$(sed -n 's/^kind to take back: //p' <<<"$order")
    if [[ -n $kind ]]; then
        grep -lE "^kind of module 0(0.|1.|20): $kind$" modules/*.cfg | xargs -r sed -i 's/^store: .*/store: old/'
    fi
    files=$(seq -f modules/%03g.cfg $((phase * 20 - 20 + 1)) $((phase * 20)))
    grep -l '^frozen: no$' $files | xargs -r sed -i "s|^store: old\$|store: $store|"
    printf 'phase %s: %s\n' "$phase" "$store" >>manifest.txt
done
