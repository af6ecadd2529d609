#!/bin/bash
set -eu
cd "${APP_DIR:-/app}"
says() { sed -n "s/^$1: //p"; }
of() { sed -n "s/^$1 of parcel [0-9]*: //p" "parcels/$2.txt"; }
mkdir -p labels
mark=$(bash orders.sh | says 'mark of order 1')
for number in $(seq -w 20); do
    printf '%s %s %s\n' "$mark" "$(of town "$number")" "$(of weight "$number")" >"labels/$number.txt"
done
mark=$(bash orders.sh | says 'mark of order 2')
town=$(bash orders.sh | says 'town to label anew')
for number in $(seq -w 40); do
    if ((10#$number > 20)) || [[ $(of town "$number") == "$town" ]]; then
        printf '%s %s %s\n' "$(of weight "$number")" "$(of town "$number")" "$mark" >"labels/$number.txt"
    fi
done
