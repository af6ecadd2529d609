#!/bin/bash
set -eu
cd "${APP_DIR:-/app}"
says() { sed -n "s/^$1: //p"; }
read_parcel() { mapfile -t said < <(sed -nE 's/^(town|weight) of parcel [0-9]+: //p' "parcels/$1.txt"); }
mkdir -p labels
mark=$(bash orders.sh | says 'mark of order 1')
for number in $(seq -w 20); do
    read_parcel "$number"
    printf '%s %s %s
' "$mark" "${said[0]}" "${said[1]}" >"labels/$number.txt"
done
mark=$(bash orders.sh | says 'mark of order 2')
town=$(bash orders.sh | says 'town to label anew')
for number in $(seq -w 40); do
    read_parcel "$number"
    if ((10#$number > 20)) || [[ ${said[0]} == "$town" ]]; then
        printf '%s %s %s
' "${said[1]}" "${said[0]}" "$mark" >"labels/$number.txt"
    fi
done
